"""The client for programs with threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, cast

import grpc

from hookd import v1
from hookd._call_error import CallError, unreachable
from hookd._calls import (
    DEFAULT_DEADLINE,
    DEFAULT_KEEP_ALIVE,
    DEFAULT_MESSAGE_BYTES,
    DEFAULT_ROUNDS,
    Attempt,
    Calls,
    Outcome,
    Status,
    Until,
    always,
)
from hookd._environment import of_environment
from hookd._fleet import Replica
from hookd._fork import forks
from hookd._gate import Gate, OnUnavailable
from hookd._request import new_template
from hookd._session import Session
from hookd._transport import SETTLED, TRIGGER, TRIGGER_STREAM, Metadata, Tls, Transport

if TYPE_CHECKING:
    from hookd.commands import AgentSide


# How long gRPC may go on to watch a connection when nobody wants to know any more, in seconds; it looks each 0.2 s.
_WATCHED_ON = 1.0


class Connection:
    """One channel. Kept alive by the calls that are on it."""

    def __init__(self, replica: Replica[Connection], transport: Transport) -> None:
        """Does not connect yet. Raises `OSError` where a file of the TLS options cannot be read."""
        options = transport.options(replica.address)
        self.settled: bool | None = None
        self._on_settled: Callable[[], None] | None = None
        self._watched_until = 0.0
        if replica.address.tls:
            self.channel = grpc.secure_channel(replica.target, transport.credentials(), options)
        else:
            self.channel = grpc.insecure_channel(replica.target, options)
        # Bytes both ways: what cannot be decoded is told apart from a broken connection.
        self.trigger: grpc.UnaryUnaryMultiCallable[bytes, bytes | None] = self.channel.unary_unary(TRIGGER)
        self.trigger_stream: grpc.StreamStreamMultiCallable[bytes, bytes] = self.channel.stream_stream(TRIGGER_STREAM)

    def start(self, on_settled: Callable[[], None]) -> None:
        """Begins to connect."""
        self._on_settled = on_settled
        self.channel.subscribe(self._see, try_to_connect=True)

    def is_usable(self) -> bool:
        """It is, on any thread."""
        return True

    def is_lost(self) -> bool:
        """Not known without a call."""
        return False

    def drop(self) -> None:
        """Lets go of it."""
        self._on_settled = None
        self.channel.unsubscribe(self._see)

    def close(self) -> None:
        """Ends it, and the calls on it."""
        self.drop()
        watched_until = self._watched_until if self.settled is not None else time.monotonic()
        left = watched_until + _WATCHED_ON - time.monotonic()
        if left <= 0:
            self.channel.close()
            return
        # gRPC's own thread would complain of a channel that is closed under it.
        timer = threading.Timer(left, self.channel.close)
        timer.daemon = True
        timer.start()

    def _see(self, state: grpc.ChannelConnectivity) -> None:
        on_settled = self._on_settled
        if on_settled is not None and state in SETTLED:
            self.settled = state is grpc.ChannelConnectivity.READY
            # gRPC has a thread for as long as it is asked to tell. What becomes of the connection, calls find out.
            self.drop()
            self._watched_until = time.monotonic()
            on_settled()


class Client:
    """A client of one hookd, or of several that have the same rules. For all threads; keep one and reuse it.

    Calls go round all replicas that are connected and have not just failed (README, "A fleet"). It connects when it first
    has to. In a forked child it makes connections of its own.
    """

    def __init__(
        self,
        addresses: str | Iterable[str],
        *,
        on_unavailable: OnUnavailable,
        deadline: float = DEFAULT_DEADLINE,
        rounds: int = DEFAULT_ROUNDS,
        message_bytes: int = DEFAULT_MESSAGE_BYTES,
        tls: Tls | None = None,
        token_file: str | None = None,
        keep_alive: tuple[float, float] = DEFAULT_KEEP_ALIVE,
    ) -> None:
        """A client of the hookd at these addresses: `host:port`, `http://host:port`, `https://host:port`, `unix:/path`,
        or several with commas between them. A name stands for as many replicas as it has addresses. Does not connect
        yet.

        - `on_unavailable`: what happens where hookd cannot be asked.
        - `deadline`: how long a call may take, in seconds, tries and waits included. It is also what hookd shares out
          among handlers (up to its own `limits.max_deadline`).
        - `rounds`: how often all replicas are asked at most while nobody answers, within the deadline; from 1. The wait between two rounds starts at 50 ms and doubles up to 1 s.
        - `message_bytes`: limit on the size of a request and of an answer. A larger one blocks where the event can.
        - `tls`: how to speak TLS with addresses that say `https`. Other addresses must then be on this machine.
        - `token_file`: a file with a bearer token, read again when it changes. Only for `https`, this machine and unix
          sockets.

        - `keep_alive`: a connection with calls in flight on which nothing has come for so long is asked for a sign of life,
          and is given up where none comes within so long, in seconds. Its calls go to other replicas while they have time.
          Too short a time gives up servers that are merely busy.

        Raises `AddressError` for what is not an address or does not fit it, `TypeError` for an `on_unavailable` that is none,
        `ValueError` for times or rounds that are none, and `OSError` where a file cannot be read.
        """
        self._calls: Calls[Connection] = Calls(
            addresses, on_unavailable, deadline, rounds, message_bytes, tls, token_file, keep_alive, Connection
        )
        forks.watch(self)

    @classmethod
    def from_environment(
        cls,
        *,
        on_unavailable: OnUnavailable,
        deadline: float = DEFAULT_DEADLINE,
        rounds: int = DEFAULT_ROUNDS,
        message_bytes: int = DEFAULT_MESSAGE_BYTES,
    ) -> Client:
        """A client as the environment says it: where hookd listens (`HOOKD_ADDRESS`, not set: `127.0.0.1:50051`), and the files
        named by `HOOKD_TOKEN_FILE`, `HOOKD_CA_FILE`, `HOOKD_CLIENT_CERT_FILE` and `HOOKD_CLIENT_KEY_FILE`. Set to nothing is
        not set. Nothing else reads the environment.

        Raises as the constructor.
        """
        addresses, tls, token_file = of_environment()
        return cls(
            addresses,
            on_unavailable=on_unavailable,
            deadline=deadline,
            rounds=rounds,
            message_bytes=message_bytes,
            tls=tls,
            token_file=token_file,
        )

    def session(
        self,
        id: str,
        *,
        cwd: str = "",
        model: str = "",
        permission_mode: str = "",
        transcript_path: str = "",
        workspace_roots: Iterable[str] = (),
        caller: v1.Caller | None = None,
        capabilities: Iterable[int] | None = None,
        commands: AgentSide | None = None,
    ) -> Session:
        """The everyday calls of one agent session. What is given here goes with each event; `Session.template` has the
        rest.

        - `cwd`: the agent's working directory, an absolute path.
        - `capabilities`: what the agent can carry out (`Capability`). Unless given: everything.
        - `commands`: rule files of this side's own, and what runs their commands here (`hookd.commands`).
        """
        template = new_template(
            id, cwd, model, permission_mode, transcript_path, workspace_roots, caller, capabilities
        )
        return Session(self, template, commands)

    def trigger(self, request: v1.TriggerRequest, *, commands: AgentSide | None = None) -> Gate:
        """Asks about one event and says what to do now. With `commands` it offers rule files of this side's own, and
        runs their commands here while hookd evaluates."""
        return self._calls.gate(request, self._ask(request, commands))

    def call(self, request: v1.TriggerRequest, *, commands: AgentSide | None = None) -> v1.TriggerResponse:
        """Asks about one event and gives the bare answer, to look at. To act on it, take `trigger`: it knows what to do
        with verdicts that are not known and answers that do not come.

        Raises `CallError` where there is no answer.
        """
        outcome = self._ask(request, commands)
        if isinstance(outcome, CallError):
            raise outcome
        return outcome

    def gate_of_error(self, event: str, tool: str | None, error: CallError) -> Gate:
        """What to do on an event that could not be asked about."""
        return self._calls.gate_of_error(event, tool, error)

    def close(self) -> None:
        """Ends all connections, and the calls on them, at the latest in a second. No call is made after it."""
        self._calls.closed = True
        for connection in self._calls.fleet.take_connections():
            connection.close()
        self._calls.fleet.changed()

    def drop_connections(self) -> None:
        """Lets go of all connections; for a process that is about to fork."""
        self._calls.drop_connections()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({', '.join(address.text for address in self._calls.fleet.addresses)!r})"

    def _ask(self, request: v1.TriggerRequest, commands: AgentSide | None) -> Outcome:
        error = self._calls.begin()
        if error is not None:
            return error
        try:
            if commands is not None and not commands.is_empty:
                from hookd._stream import ask

                return ask(self, self._calls, request, commands)
            body = self._calls.encoded(request)
            if isinstance(body, CallError):
                return body

            def send(replica: Replica[Connection], connection: Connection, timeout: float, metadata: Metadata) -> Outcome:
                return self._calls.understood(replica, connection.trigger(body, timeout, metadata))

            return self.drive(send, always)
        finally:
            forks.end()

    def drive(self, send: Send, may_repeat: Callable[[], bool]) -> Outcome:
        """Does what `Calls.ask` says; `send` makes one attempt."""
        steps = self._calls.ask(may_repeat)
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return cast(Outcome, end.value)
            if isinstance(step, Until):
                self._wait(step)
                outcome = None
            else:
                outcome = self._attempt(step, send)

    def _attempt(self, attempt: Attempt[Connection], send: Send) -> Outcome:
        replica, connection = attempt.replica, attempt.connection
        metadata = self._calls.transport.metadata(replica.name)
        if isinstance(metadata, CallError):
            return metadata
        try:
            return send(replica, connection, attempt.timeout, metadata)
        except grpc.RpcError as error:
            return self._calls.failed(replica, connection, cast(Status, error))
        except ValueError:
            # The channel was closed under this call.
            self._calls.fleet.was_silent(replica, connection)
            return unreachable(f"hookd cannot be reached at {replica.name}: the connection was closed")

    def _wait(self, step: Until) -> None:
        changed = threading.Event()
        with self._calls.fleet.watch(changed.set):
            over = time.monotonic() + step.seconds
            while not step.holds() and (left := over - time.monotonic()) > 0:
                changed.wait(left)
                changed.clear()


Send = Callable[[Replica[Connection], Connection, float, Metadata], Outcome]
"""Makes one attempt: at a peer, over its connection, within a time, with this metadata."""

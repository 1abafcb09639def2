"""What both clients share: their settings, and when a call is tried again.

Nothing here waits or sends: `Calls.ask` yields what has to be done next, and the two clients do it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, Union, cast

import grpc
from google.protobuf.message import DecodeError, Message

from hookd import v1
from hookd._address import Address
from hookd._call_error import CallError, CallErrorKind, Failures, not_trusted, of_status, refused_here, unreachable
from hookd._fleet import C, Fleet, Known, Replica
from hookd._fork import FORKED_IN_A_CALL, forks
from hookd._gate import Gate, OnUnavailable, gate_of_answer, of_error
from hookd._transport import Tls, Transport

DEFAULT_DEADLINE = 30.0
# What gRPC's timers hold, in seconds.
_LONGEST_DEADLINE = (2**31 - 1) / 1000
DEFAULT_ROUNDS = 5
# How long nothing may come on a connection with calls in flight, and how long the sign of life then may take, in seconds.
DEFAULT_KEEP_ALIVE = (10.0, 5.0)
DEFAULT_MESSAGE_BYTES = 4 * 1024 * 1024
# The wait before the second round, in seconds; it doubles from round to round up to the longest.
_FIRST_BACK_OFF = 0.05
_LONGEST_BACK_OFF = 1.0
# How long a replica may take to connect before another one is tried as well, in seconds.
_HEAD_START = 0.25

# Nothing was judged.
UNANSWERED = frozenset((CallErrorKind.UNAVAILABLE, CallErrorKind.NOT_TRUSTED))
_CLOSED = "the client is closed"

A = TypeVar("A")
Outcome = Union[v1.TriggerResponse, CallError]


@dataclass(frozen=True)
class Attempt(Generic[C]):
    """Ask this replica now; to be answered with what came of it."""

    replica: Replica[C]
    connection: C
    timeout: float
    """How long it may take, in seconds."""


@dataclass(frozen=True)
class Until:
    """Wait until this holds, which may change whenever the fleet does, or the time is over."""

    holds: Callable[[], bool]
    seconds: float


Steps = Generator[Union[Attempt[C], Until], Union[Outcome, None], A]


class Status(Protocol):
    """How a call ended, as both of gRPC's libraries have it."""

    def code(self) -> grpc.StatusCode: ...
    def details(self) -> str | None: ...
    def initial_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...
    def trailing_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...


class Calls(Generic[C]):
    """The settings of a client, and its replicas."""

    def __init__(
        self,
        addresses: str | Iterable[str],
        on_unavailable: OnUnavailable,
        deadline: float,
        rounds: int,
        message_bytes: int,
        tls: Tls | None,
        token_file: str | None,
        keep_alive: tuple[float, float],
        connect: Callable[[Replica[C], Transport], C],
    ) -> None:
        """Raises `AddressError`, `TypeError`, `ValueError` and `OSError` for settings that cannot be."""
        if not isinstance(cast(object, on_unavailable), OnUnavailable):
            # Else nobody would know before hookd is away.
            raise TypeError(
                f"on_unavailable is {on_unavailable!r}, expected hookd.OnUnavailable.BLOCK, .ALLOW or .block_except(…)"
            )
        if not deadline > 0:
            raise ValueError(f"a deadline of {deadline} s is none, expected more than 0")
        if rounds < 1:
            raise ValueError(f"{rounds} rounds ask nobody, expected at least 1")
        if not min(keep_alive) > 0:
            raise ValueError(f"a keep-alive of {keep_alive} s is none, expected two times of more than 0")
        parsed = Address.parse_list(addresses)
        self.transport = Transport(parsed, message_bytes, tls, token_file, keep_alive)
        self.fleet = Fleet[C](parsed)
        self._connect = connect
        self.on_unavailable = on_unavailable
        self.deadline = min(deadline, _LONGEST_DEADLINE)
        self._rounds = rounds
        self._message_bytes = message_bytes
        self.closed = False

    def drop_connections(self) -> None:
        """Lets go of all connections; no call is on them."""
        for connection in self.fleet.take_connections():
            connection.drop()

    def encoded(self, message: Message) -> bytes | CallError:
        """The bytes of a request, if they are not too many."""
        encoded = message.SerializeToString()
        if len(encoded) > self._message_bytes:
            text = f"the call has {len(encoded)} bytes, the limit is {self._message_bytes}"
            return refused_here(text, grpc.StatusCode.RESOURCE_EXHAUSTED)
        return encoded

    def begin(self) -> CallError | None:
        """A call begins; `forks.end()` says that it is over, unless this gave why it cannot begin."""
        if self.closed:
            return refused_here(_CLOSED)
        return None if forks.begin() else unreachable(FORKED_IN_A_CALL)

    def ask(self, may_repeat: Callable[[], bool]) -> Steps[C, Outcome]:
        """Makes one attempt after another within the deadline while nobody answers, and while one more does no harm."""
        fleet = self.fleet
        deadline = time.monotonic() + self.deadline
        failures = Failures()
        names: list[str] = []
        since: float | None = None
        for round_ in range(self._rounds):
            if round_ > 0:
                wait = _back_off(round_)
                if time.monotonic() + wait >= deadline:
                    break
                yield Until(self._is_closed, wait)
            # Those who were asked in vain may not be there any more.
            look_up = fleet.look_up(since)
            if look_up is not None:
                yield Until(look_up.is_set, _left(deadline))
                if not look_up.is_set():
                    return failures.late(", ".join(address.text for address in fleet.addresses), self.deadline)
            since = time.monotonic()
            known = fleet.known
            names = known.names(fleet.addresses)
            for error in known.unresolved:
                failures.add(error)
            tried: set[Replica[C]] = set()
            while not self.closed:
                reached = yield from self._reach(known, tried, failures, deadline)
                if reached is None and time.monotonic() >= deadline:
                    return failures.late(", ".join(names), self.deadline)
                if reached is None:
                    break
                replica, connection = reached
                outcome = yield Attempt(replica, connection, _left(deadline))
                if not isinstance(outcome, CallError):
                    fleet.has_answered(replica)
                    assert outcome is not None
                    return outcome
                if outcome.kind is CallErrorKind.DEADLINE_EXCEEDED and outcome.decision_id is None:
                    return failures.late(replica.name, self.deadline)
                if outcome.kind not in UNANSWERED or not may_repeat():
                    return outcome
                failures.add(outcome)
                tried.add(replica)
            if self.closed:
                return refused_here(_CLOSED)
            if not failures.may_pass:
                break
        return failures.unanswered(self.deadline, names)

    def _reach(
        self, known: Known[C], tried: set[Replica[C]], failures: Failures, deadline: float
    ) -> Steps[C, tuple[Replica[C], C] | None]:
        """A replica that is not among `tried`, with its connection: the next one of those that are ready, or else the first
        of the others whose connection is made, or cannot be made: what it met is said by a call. `None`: there is none left,
        or no time."""
        ready = self.fleet.ready(known, tried, self._made)
        if ready is not None:
            return ready
        begun: list[tuple[Replica[C], C]] = []

        def has_news() -> bool:
            return self.closed or any(connection.settled is not None for _, connection in begun)

        candidates = self.fleet.candidates(known, tried)
        for place, replica in enumerate(candidates):
            try:
                begun.append((replica, self.fleet.connect(replica, self._made)))
            except OSError as error:
                failures.add(not_trusted(str(error), replica.name))
                tried.add(replica)
            is_last = place + 1 == len(candidates)
            if begun:
                yield Until(has_news, _left(deadline) if is_last else min(_HEAD_START, _left(deadline)))
            if has_news():
                break
        # One that is made comes before one that failed.
        settled = [one for one in begun if one[1].settled is not None]
        return max(settled, key=lambda one: bool(one[1].settled), default=None)

    def _made(self, replica: Replica[C]) -> C:
        return self._connect(replica, self.transport)

    def _is_closed(self) -> bool:
        return self.closed

    def failed(self, replica: Replica[C], connection: C, error: Status) -> CallError:
        """What a call met that ended with a status."""
        metadata = {key: value for key, value in (error.initial_metadata() or ())}
        metadata.update((key, value) for key, value in (error.trailing_metadata() or ()))
        failure = of_status(error.code(), error.details(), metadata, replica.name, tls=replica.address.tls)
        if failure.kind in UNANSWERED:
            self.fleet.has_failed(replica, connection)
        elif failure.kind is CallErrorKind.DEADLINE_EXCEEDED and failure.decision_id is None:
            self.fleet.was_silent(replica, connection)
        return failure

    def understood(self, replica: Replica[C], body: bytes | None) -> Outcome:
        """The answer in these bytes."""
        if body is None:
            return not_an_answer(replica, "it is empty")
        try:
            return v1.TriggerResponse.FromString(body)
        except DecodeError as error:
            return not_an_answer(replica, str(error))

    def gate(self, request: v1.TriggerRequest, outcome: Outcome) -> Gate:
        """What to do now."""
        if not isinstance(outcome, CallError):
            return gate_of_answer(request.event, outcome)
        tool = request.tool_call.tool if request.HasField("tool_call") else None
        return self.gate_of_error(request.event, tool, outcome)

    def gate_of_error(self, event: str, tool: str | None, error: CallError) -> Gate:
        """What to do now that there is no answer."""
        return of_error(event, tool, error, self.on_unavailable)


def always() -> bool:
    """One more attempt does no harm."""
    return True


def not_an_answer(replica: Replica[C], why: str) -> CallError:
    """Bytes that are not the message that they should be."""
    message = f"the answer of hookd at {replica.name} is not understood: {why}"
    return CallError(CallErrorKind.NOT_UNDERSTOOD, message)


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.0)


def _back_off(round_: int) -> float:
    """The wait before a round (from 1): between half of its back-off and all of it."""
    longest = min(_FIRST_BACK_OFF * 2.0 ** min(round_ - 1, 20), _LONGEST_BACK_OFF)
    return longest * random.uniform(0.5, 1.0)

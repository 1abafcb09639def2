"""The client for programs on asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, cast

import grpc
import grpc.aio

from hookd import v1
from hookd._async_session import AsyncSession
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
from hookd._transport import SETTLED, TRIGGER, TRIGGER_STREAM, Metadata, Tls, Transport

if TYPE_CHECKING:
    from hookd.commands import AgentSide


class AsyncConnection:
    """One channel, on the event loop that it was made on. Kept alive by the calls that are on it."""

    def __init__(self, replica: Replica[AsyncConnection], transport: Transport) -> None:
        """Does not connect yet. Raises `OSError` where a file of the TLS options cannot be read."""
        options = transport.options(replica.address)
        self.loop = asyncio.get_running_loop()
        self.settled: bool | None = None
        self._watcher: asyncio.Task[None] | None = None
        if replica.address.tls:
            self.channel = grpc.aio.secure_channel(replica.target, transport.credentials(), options)
        else:
            self.channel = grpc.aio.insecure_channel(replica.target, options)
        # Bytes both ways: what cannot be decoded is told apart from a broken connection.
        self.trigger: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes | None] = self.channel.unary_unary(TRIGGER)
        self.trigger_stream: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = self.channel.stream_stream(TRIGGER_STREAM)

    def start(self, on_settled: Callable[[], None]) -> None:
        """Begins to connect."""
        self._watcher = self.loop.create_task(self._watch(on_settled))

    def is_usable(self) -> bool:
        """Whether it is of the loop that runs."""
        return self.loop is asyncio.get_running_loop()

    def is_lost(self) -> bool:
        """It was connected, and is not now."""
        return bool(self.settled) and self.channel.get_state() is not grpc.ChannelConnectivity.READY

    def drop(self) -> None:
        """Lets go of it."""
        if self._watcher is not None and not self.loop.is_closed():
            # The loop may be at rest, and this another thread.
            self.loop.call_soon_threadsafe(self._watcher.cancel)

    async def close(self) -> None:
        """Ends it, and the calls on it."""
        if self._watcher is not None:
            self._watcher.cancel()
        await self.channel.close()

    async def _watch(self, on_settled: Callable[[], None]) -> None:
        state = self.channel.get_state(try_to_connect=True)
        while state not in SETTLED:
            await self.channel.wait_for_state_change(state)
            state = self.channel.get_state()
        self.settled = state is grpc.ChannelConnectivity.READY
        on_settled()


class AsyncClient:
    """A client of one hookd, or of several that have the same rules, for asyncio. Keep one for one event loop and reuse
    it.

    It connects when it first has to. In a forked child, and on another event loop, it makes connections of its own.
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
        """As `Client`. Needs no running event loop."""
        self._calls: Calls[AsyncConnection] = Calls(
            addresses, on_unavailable, deadline, rounds, message_bytes, tls, token_file, keep_alive, AsyncConnection
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
    ) -> AsyncClient:
        """As `Client.from_environment`."""
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
    ) -> AsyncSession:
        """The everyday calls of one agent session, as `Client.session`."""
        template = new_template(
            id, cwd, model, permission_mode, transcript_path, workspace_roots, caller, capabilities
        )
        return AsyncSession(self, template, commands)

    async def trigger(self, request: v1.TriggerRequest, *, commands: AgentSide | None = None) -> Gate:
        """Asks about one event and says what to do now, as `Client.trigger`."""
        return self._calls.gate(request, await self._ask(request, commands))

    async def call(self, request: v1.TriggerRequest, *, commands: AgentSide | None = None) -> v1.TriggerResponse:
        """Asks about one event and gives the bare answer, as `Client.call`.

        Raises `CallError` where there is no answer.
        """
        outcome = await self._ask(request, commands)
        if isinstance(outcome, CallError):
            raise outcome
        return outcome

    def gate_of_error(self, event: str, tool: str | None, error: CallError) -> Gate:
        """What to do on an event that could not be asked about."""
        return self._calls.gate_of_error(event, tool, error)

    async def close(self) -> None:
        """Ends all connections, and the calls on them. No call is made after it."""
        self._calls.closed = True
        for connection in self._calls.fleet.take_connections():
            if connection.is_usable():
                await connection.close()
        self._calls.fleet.changed()

    def drop_connections(self) -> None:
        """Lets go of all connections; for a process that is about to fork."""
        self._calls.drop_connections()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({', '.join(address.text for address in self._calls.fleet.addresses)!r})"

    async def _ask(self, request: v1.TriggerRequest, commands: AgentSide | None) -> Outcome:
        error = self._calls.begin()
        if error is not None:
            return error
        try:
            if commands is not None and not commands.is_empty:
                from hookd._async_stream import ask

                return await ask(self, self._calls, request, commands)
            body = self._calls.encoded(request)
            if isinstance(body, CallError):
                return body

            async def send(
                replica: Replica[AsyncConnection], connection: AsyncConnection, timeout: float, metadata: Metadata
            ) -> Outcome:
                answer = await connection.trigger(body, timeout=timeout, metadata=metadata)
                return self._calls.understood(replica, answer)

            return await self.drive(send, always)
        finally:
            forks.end()

    async def drive(self, send: AsyncSend, may_repeat: Callable[[], bool]) -> Outcome:
        """Does what `Calls.ask` says; `send` makes one attempt."""
        steps = self._calls.ask(may_repeat)
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return cast(Outcome, end.value)
            if isinstance(step, Until):
                await self._wait(step)
                outcome = None
            else:
                outcome = await self._attempt(step, send)

    async def _attempt(self, attempt: Attempt[AsyncConnection], send: AsyncSend) -> Outcome:
        replica, connection = attempt.replica, attempt.connection
        metadata = self._calls.transport.metadata(replica.name)
        if isinstance(metadata, CallError):
            return metadata
        try:
            return await send(replica, connection, attempt.timeout, metadata)
        except grpc.RpcError as error:
            return self._calls.failed(replica, connection, cast(Status, error))
        except asyncio.CancelledError:
            # gRPC says the same whether this task is cancelled or the channel was closed under its call.
            if self._calls.closed and not _is_cancelled():
                return unreachable(f"hookd cannot be reached at {replica.name}: the connection was closed")
            raise
        except grpc.aio.UsageError:
            # The channel was closed under this call.
            self._calls.fleet.was_silent(replica, connection)
            return unreachable(f"hookd cannot be reached at {replica.name}: the connection was closed")

    async def _wait(self, step: Until) -> None:
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()

        def tell() -> None:
            # From any thread, when this loop may be over.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(changed.set)

        with self._calls.fleet.watch(tell):
            over = loop.time() + step.seconds
            while not step.holds() and (left := over - loop.time()) > 0:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(changed.wait(), left)
                changed.clear()


def _is_cancelled() -> bool:
    """Whether someone wants this task to end. Before Python 3.11 nobody can tell, and it ends."""
    task = asyncio.current_task()
    return task is None or sys.version_info < (3, 11) or task.cancelling() > 0


AsyncSend = Callable[[Replica[AsyncConnection], AsyncConnection, float, Metadata], Awaitable[Outcome]]
"""Makes one attempt: at a peer, over its connection, within a time, with this metadata."""

"""The client for programs on asyncio."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, cast

import grpc
import grpc.aio

from hookd import v1
from hookd._address import Address
from hookd._async_session import AsyncSession
from hookd._call_error import CallError, not_trusted, unreachable
from hookd._calls import (
    DEFAULT_DEADLINE,
    DEFAULT_MESSAGE_BYTES,
    DEFAULT_ROUNDS,
    Attempt,
    Calls,
    Outcome,
    Peer,
    Status,
    Wait,
    always,
)
from hookd._environment import of_environment
from hookd._fork import forks
from hookd._gate import Gate, OnUnavailable
from hookd._request import new_template
from hookd._transport import TRIGGER, TRIGGER_STREAM, Metadata, Tls, Transport

if TYPE_CHECKING:
    from hookd.commands import AgentSide


class AsyncConnection:
    """One channel, on the event loop that it was made on. Kept alive by the calls that are on it."""

    def __init__(self, address: Address, transport: Transport) -> None:
        """Does not connect yet. Raises `OSError` where a file of the TLS options cannot be read."""
        options = transport.options(address)
        self.files = transport.state_of_files(address)
        self.loop = asyncio.get_running_loop()
        if address.tls:
            self.channel = grpc.aio.secure_channel(address.target, transport.credentials(), options)
        else:
            self.channel = grpc.aio.insecure_channel(address.target, options)
        # Bytes both ways: what cannot be decoded is told apart from a broken connection.
        self.trigger: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes | None] = self.channel.unary_unary(TRIGGER)
        self.trigger_stream: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = self.channel.stream_stream(TRIGGER_STREAM)


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
    ) -> None:
        """As `Client`. Needs no running event loop."""
        self._calls: Calls[AsyncConnection] = Calls(
            addresses, on_unavailable, deadline, rounds, message_bytes, tls, token_file
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
        for peer in self._calls.peers:
            connection, peer.connection = peer.connection, None
            if connection is not None and connection.loop is asyncio.get_running_loop():
                await connection.channel.close()

    def drop_connections(self) -> None:
        """Lets go of all connections; for a process that is about to fork."""
        self._calls.drop_connections()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({', '.join(peer.address.text for peer in self._calls.peers)!r})"

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
                peer: Peer[AsyncConnection], connection: AsyncConnection, timeout: float, metadata: Metadata
            ) -> Outcome:
                answer = await connection.trigger(body, timeout=timeout, metadata=metadata)
                return self._calls.understood(peer, answer)

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
            if isinstance(step, Wait):
                await asyncio.sleep(step.seconds)
                outcome = None
            else:
                outcome = await self._attempt(step, send)

    async def _attempt(self, attempt: Attempt[AsyncConnection], send: AsyncSend) -> Outcome:
        peer = attempt.peer
        metadata = self._calls.transport.metadata(peer.address)
        if isinstance(metadata, CallError):
            return metadata
        try:
            connection = self._connection(peer)
        except OSError as error:
            return not_trusted(str(error), peer.address.text)
        try:
            return await send(peer, connection, attempt.timeout, metadata)
        except grpc.RpcError as error:
            return self._calls.failed(peer, connection, cast(Status, error))
        except asyncio.CancelledError:
            # gRPC says the same whether this task is cancelled or the channel was closed under its call.
            if self._calls.closed and not _is_cancelled():
                return unreachable(f"hookd cannot be reached at {peer.address.text}: the connection was closed")
            raise
        except grpc.aio.UsageError:
            # The channel was closed under this call.
            self._calls.retire(peer, connection)
            return unreachable(f"hookd cannot be reached at {peer.address.text}: the connection was closed")

    def _connection(self, peer: Peer[AsyncConnection]) -> AsyncConnection:
        connection = peer.connection
        is_of_this_loop = connection is not None and connection.loop is asyncio.get_running_loop()
        if connection is None or not is_of_this_loop or self._calls.is_stale(peer, connection.files):
            connection = peer.connection = AsyncConnection(peer.address, self._calls.transport)
        return connection


def _is_cancelled() -> bool:
    """Whether someone wants this task to end. Before Python 3.11 nobody can tell, and it ends."""
    task = asyncio.current_task()
    return task is None or sys.version_info < (3, 11) or task.cancelling() > 0


AsyncSend = Callable[[Peer[AsyncConnection], AsyncConnection, float, Metadata], Awaitable[Outcome]]
"""Makes one attempt: at a peer, over its connection, within a time, with this metadata."""

"""Calls in which this side runs commands, for programs on asyncio."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from hookd import v1
from hookd._call_error import CallError, not_understood
from hookd._calls import Calls, Outcome
from hookd._fleet import Replica
from hookd._stream_parts import NO_ANSWER, NO_END, Attempt, start_of
from hookd._transport import Metadata

if TYPE_CHECKING:
    from hookd._async_client import AsyncClient, AsyncConnection
    from hookd.commands import AgentSide


async def ask(
    client: AsyncClient, calls: Calls[AsyncConnection], request: v1.TriggerRequest, side: AgentSide
) -> Outcome:
    """Asks about an event, and runs what hookd asks for meanwhile."""
    start = calls.encoded(start_of(request, side))
    if isinstance(start, CallError):
        return start
    ran: list[bool] = []
    loop = asyncio.get_running_loop()

    async def send(
        _: Replica[AsyncConnection], connection: AsyncConnection, timeout: float, metadata: Metadata
    ) -> Outcome:
        said: asyncio.Queue[bytes | None] = asyncio.Queue()
        said.put_nowait(start)

        def say(message: bytes) -> None:
            # From the thread that ran a command, when the loop may be over.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(said.put_nowait, message)

        attempt = Attempt(request, side, timeout, say, lambda: ran.append(True))
        call = connection.trigger_stream(_until_none(said), timeout=timeout, metadata=metadata)
        try:
            answer: Outcome | None = None
            async for message in call:
                if answer is not None:
                    return not_understood(NO_END)
                answer = attempt.hear(message)
                if answer is None:
                    continue
                if isinstance(answer, CallError):
                    return answer
                # Nobody waits for them any more. The answer counts only with the status that follows it.
                attempt.end()
                said.put_nowait(None)
            return answer if answer is not None else not_understood(NO_ANSWER)
        finally:
            attempt.end()
            said.put_nowait(None)
            call.cancel()

    return await client.drive(send, lambda: not ran)


async def _until_none(said: asyncio.Queue[bytes | None]) -> AsyncIterator[bytes]:
    while (message := await said.get()) is not None:
        yield message

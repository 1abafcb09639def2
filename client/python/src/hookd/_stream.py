"""Calls in which this side runs commands, for programs with threads."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hookd import v1
from hookd._call_error import CallError, not_understood
from hookd._calls import Calls, Outcome
from hookd._fleet import Replica
from hookd._stream_parts import NO_ANSWER, NO_END, Attempt, start_of
from hookd._transport import Metadata

if TYPE_CHECKING:
    from hookd._client import Client, Connection
    from hookd.commands import AgentSide


def ask(client: Client, calls: Calls[Connection], request: v1.TriggerRequest, side: AgentSide) -> Outcome:
    """Asks about an event, and runs what hookd asks for meanwhile."""
    start = calls.encoded(start_of(request, side))
    if isinstance(start, CallError):
        return start
    ran: list[bool] = []

    def send(_: Replica[Connection], connection: Connection, timeout: float, metadata: Metadata) -> Outcome:
        said: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        said.put(start)
        attempt = Attempt(request, side, timeout, said.put, lambda: ran.append(True))
        call = connection.trigger_stream(_until_none(said), timeout, metadata)
        try:
            answer: Outcome | None = None
            for message in call:
                if answer is not None:
                    return not_understood(NO_END)
                answer = attempt.hear(message)
                if answer is None:
                    continue
                if isinstance(answer, CallError):
                    return answer
                # Nobody waits for them any more. The answer counts only with the status that follows it.
                attempt.end()
                said.put(None)
            return answer if answer is not None else not_understood(NO_ANSWER)
        finally:
            attempt.end()
            said.put(None)
            call.cancel()

    return client.drive(send, lambda: not ran)


def _until_none(said: queue.SimpleQueue[bytes | None]) -> Iterator[bytes]:
    while (message := said.get()) is not None:
        yield message

"""What is special to these clients where hookd gives no answer. The rest is in `tests/conformance`."""

from __future__ import annotations

import asyncio
import pickle
import sys
import threading
import time
from collections.abc import Callable

import grpc
import pytest
from hookd import AsyncClient, CallError, CallErrorKind, Client, Gate, Refuse, Run, v1
from hookd._call_error import one_line
from support import ALLOW, LIMIT, Asker, Scripted, dead, event, fails, pre_tool_use, response

Code = grpc.StatusCode
Kind = CallErrorKind


def test_a_hookd_that_is_back_is_asked_at_once(ask: Asker) -> None:
    address = dead()

    def sync(client: Client) -> tuple[Gate, Gate]:
        first = client.trigger(pre_tool_use())
        with Scripted(lambda *_: response(2), address=address):
            return first, client.trigger(pre_tool_use())

    async def asynchronous(client: AsyncClient) -> tuple[Gate, Gate]:
        first = await client.trigger(pre_tool_use())
        with Scripted(lambda *_: response(2), address=address):
            return first, await client.trigger(pre_tool_use())

    first, second = ask(address, sync if ask.kind == "threads" else asynchronous, rounds=1)
    assert isinstance(first, Refuse)
    assert second == Run(approved=True, decision=second.decision)


def never(left: list[float]) -> Callable[[v1.TriggerRequest, grpc.ServicerContext], v1.TriggerResponse]:
    """Notes the time that a call has, and answers when the caller is gone."""

    def answer(_: v1.TriggerRequest, context: grpc.ServicerContext) -> v1.TriggerResponse:
        left.append(context.time_remaining())
        while context.is_active():
            time.sleep(0.01)
        return response(2)

    return answer


def test_the_deadline_is_sent_and_kept(ask: Asker) -> None:
    left: list[float] = []
    with Scripted(never(left)) as server:
        begun = time.monotonic()
        error = ask.error(server.address, event("PreDeploy"), deadline=0.5)
        assert 0.4 < time.monotonic() - begun < 10
        assert (error.kind, error.code) == (Kind.DEADLINE_EXCEEDED, Code.DEADLINE_EXCEEDED)
        assert str(error) == f"hookd at {server.address} gave no answer within 500ms"
        # On the wire it is rounded up.
        assert len(left) == 1 and 0 < left[0] < 0.6


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"a": object()}, "the parameters cannot be sent to hookd: a object has no JSON form"),
        ({"a": float("nan")}, "the parameters cannot be sent to hookd: nan is no JSON number"),
        ({"a": "\udcff"}, "the parameters cannot be sent to hookd: it holds a lone surrogate"),
        ('{"a":"\udcff"}', "the parameters cannot be sent to hookd: it holds a lone surrogate"),
    ],
)
def test_what_cannot_be_sent_buys_no_allow(ask: Asker, params: dict[str, object] | str, problem: str) -> None:
    gate = ask(dead(), lambda client: client.session("s").pre_tool_use("bash", params), on_unavailable=ALLOW)
    assert gate == Refuse(problem, decision=gate.decision)
    assert gate.decision.error.kind is Kind.REFUSED


def test_the_bare_call_raises(ask: Asker) -> None:
    with Scripted(fails(Code.INVALID_ARGUMENT, "Bad\nevent", of_hookd=True)) as server:
        with pytest.raises(CallError) as raised:
            ask(server.address, lambda client: client.call(event("x")))
        assert str(raised.value) == f"hookd at {server.address} refused the call: bad event (INVALID_ARGUMENT)"
        assert pickle.loads(pickle.dumps(raised.value)) == raised.value
    with Scripted(lambda *_: response(5)) as server:
        assert ask(server.address, lambda client: client.call(event("x"))) == response(5)


def test_a_closed_client_asks_nobody() -> None:
    client = Client(dead(), on_unavailable=ALLOW)
    client.close()
    gate = client.trigger(pre_tool_use())
    assert gate == Refuse("the client is closed", decision=gate.decision)


def test_a_client_that_is_closed_under_a_call_asks_no_more(ask: Asker) -> None:
    begun = threading.Event()

    def answer(_: v1.TriggerRequest, context: grpc.ServicerContext) -> v1.TriggerResponse:
        begun.set()
        while context.is_active():
            time.sleep(0.01)
        return response(2)

    def sync(client: Client) -> Gate:
        def close() -> None:
            begun.wait(LIMIT)
            client.close()

        closer = threading.Thread(target=close)
        closer.start()
        gate = client.trigger(pre_tool_use())
        closer.join()
        return gate

    async def asynchronous(client: AsyncClient) -> Gate:
        call = asyncio.create_task(client.trigger(pre_tool_use()))
        await asyncio.to_thread(begun.wait, LIMIT)
        await client.close()
        return await call

    with Scripted(answer) as server:
        do = sync if ask.kind == "threads" else asynchronous
        if ask.kind == "asyncio" and sys.version_info < (3, 11):
            with pytest.raises(asyncio.CancelledError):
                ask(server.address, do)
            return
        gate = ask(server.address, do, on_unavailable=ALLOW)
        assert gate == Refuse("the client is closed", decision=gate.decision)
        assert server.asked == 1


def test_messages_of_others_are_made_one_plain_line() -> None:
    assert one_line("Tcp connect\n\x1b[31merror\r\n") == "tcp connect [31merror"
    assert one_line("HTTP 503") == "HTTP 503"
    assert one_line(" \n") == "no reason was given"

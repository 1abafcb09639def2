"""What happens where hookd gives no answer."""

from __future__ import annotations

import asyncio
import pickle
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import grpc
import pytest
from google.protobuf import any_pb2
from hookd import AsyncClient, CallError, CallErrorKind, Client, Gate, Json, OnUnavailable, Refuse, Run, v1
from hookd._call_error import one_line
from hookd._details_pb2 import RetryInfo, StatusDetails
from support import ALLOW, BLOCK, LIMIT, Asker, Scripted, dead, end_with, event, fails, pre_tool_use, response

Code = grpc.StatusCode
Kind = CallErrorKind
UNAVAILABLE = "XXXR XRXR RRRR"
REFUSED = "XXXR XXXR XXXR"


def shed() -> bytes:
    info = RetryInfo()
    info.retry_delay.FromMilliseconds(250)
    detail = any_pb2.Any(type_url="type.googleapis.com/google.rpc.RetryInfo", value=info.SerializeToString())
    other = any_pb2.Any(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=b"\xff")
    return StatusDetails(details=[other, detail]).SerializeToString()


def row(ask: Asker, server: Scripted) -> tuple[CallErrorKind, str]:
    """The gates under each setting: on a tool call, on a call of a tool that is excepted, on a prompt, and on a stop.
    `R` runs unapproved, `X` is refused."""
    kinds: set[CallErrorKind] = set()
    cells: list[str] = []
    for on_unavailable in (BLOCK, OnUnavailable.block_except("grep"), ALLOW):
        cell = ""
        for request in (pre_tool_use("bash"), pre_tool_use("grep"), event("UserPromptSubmit"), event("Stop")):
            gate = ask.gate(server.address, request, on_unavailable=on_unavailable, rounds=1)
            assert gate.decision.degraded
            kinds.add(gate.decision.error.kind)
            match gate:
                case Run(params=None, result=None, approved=False):
                    cell += "R"
                case Refuse():
                    cell += "X"
                case _:
                    raise AssertionError(gate)
        cells.append(cell)
    (kind,) = kinds
    return kind, " ".join(cells)


@pytest.mark.parametrize(
    ("code", "of_hookd", "kind", "cells"),
    [
        (Code.UNAVAILABLE, True, Kind.UNAVAILABLE, UNAVAILABLE),
        (Code.DEADLINE_EXCEEDED, True, Kind.DEADLINE_EXCEEDED, UNAVAILABLE),
        (Code.INTERNAL, True, Kind.INTERNAL, UNAVAILABLE),
        (Code.RESOURCE_EXHAUSTED, True, Kind.REFUSED, REFUSED),
        (Code.INVALID_ARGUMENT, True, Kind.REFUSED, REFUSED),
        (Code.UNAUTHENTICATED, True, Kind.REFUSED, REFUSED),
        (Code.PERMISSION_DENIED, True, Kind.REFUSED, REFUSED),
        (Code.UNIMPLEMENTED, True, Kind.REFUSED, REFUSED),
        (Code.FAILED_PRECONDITION, True, Kind.REFUSED, REFUSED),
        (Code.CANCELLED, True, Kind.REFUSED, REFUSED),
        (Code.UNKNOWN, True, Kind.REFUSED, REFUSED),
        (Code.NOT_FOUND, True, Kind.REFUSED, REFUSED),
        (Code.ALREADY_EXISTS, True, Kind.REFUSED, REFUSED),
        (Code.ABORTED, True, Kind.REFUSED, REFUSED),
        (Code.OUT_OF_RANGE, True, Kind.REFUSED, REFUSED),
        (Code.DATA_LOSS, True, Kind.REFUSED, REFUSED),
        # Without the decision id it was not hookd: these are what a transport makes of a connection that breaks.
        (Code.INTERNAL, False, Kind.UNAVAILABLE, UNAVAILABLE),
        (Code.CANCELLED, False, Kind.UNAVAILABLE, UNAVAILABLE),
        (Code.UNKNOWN, False, Kind.UNAVAILABLE, UNAVAILABLE),
        (Code.UNAVAILABLE, False, Kind.UNAVAILABLE, UNAVAILABLE),
        (Code.INVALID_ARGUMENT, False, Kind.REFUSED, REFUSED),
        (Code.UNIMPLEMENTED, False, Kind.REFUSED, REFUSED),
        (Code.PERMISSION_DENIED, False, Kind.REFUSED, REFUSED),
    ],
)
def test_case_061_each_status_against_each_setting(
    ask: Asker, code: grpc.StatusCode, of_hookd: bool, kind: CallErrorKind, cells: str
) -> None:
    with Scripted(fails(code, "why", of_hookd=of_hookd)) as server:
        assert row(ask, server) == (kind, cells)


def test_case_061_a_shed_call_says_when_to_come_again(ask: Asker) -> None:
    with Scripted(fails(Code.RESOURCE_EXHAUSTED, "too many", of_hookd=True, details=shed())) as server:
        assert row(ask, server) == (Kind.SHED, UNAVAILABLE)
        assert ask.error(server.address, pre_tool_use()) == CallError(
            Kind.SHED,
            f"hookd at {server.address} has too many calls: too many",
            Code.RESOURCE_EXHAUSTED,
            "d9",
            timedelta(milliseconds=250),
        )


def test_events_after_the_fact_and_recorded_ones_have_a_safe_side_too(ask: Asker) -> None:
    with Scripted(fails(Code.INVALID_ARGUMENT, "no", of_hookd=True)) as server:
        reason = f"hookd at {server.address} refused the call: no (INVALID_ARGUMENT)"
        gate = ask(
            server.address, lambda client: client.session("s").post_tool_use("bash", {}, 1), on_unavailable=ALLOW
        )
        assert gate == Refuse(reason, Json(f'"the result is not shown: {reason}"'), decision=gate.decision)
        started = ask(server.address, lambda client: client.session("s").session_start(), on_unavailable=ALLOW)
        assert started == Run(decision=started.decision)
        custom = ask(server.address, lambda client: client.session("s").trigger("PreDeploy"), on_unavailable=ALLOW)
        assert custom == Refuse(reason, decision=custom.decision)


def test_nobody_there_is_said_in_one_line_with_the_address(ask: Asker) -> None:
    address = dead()
    error = ask.error(address, event("PreDeploy"), rounds=1)
    assert (error.kind, error.code, error.decision_id) == (Kind.UNAVAILABLE, Code.UNAVAILABLE, None)
    assert "\n" not in str(error)
    assert str(error).startswith(f"hookd cannot be reached at {address}: ")
    assert "onnection refused" in str(error)


def test_nobody_there_at_several_addresses_names_them_all(ask: Asker) -> None:
    one, other = dead(), dead()
    error = ask.error(f"{one},{other}", event("PreDeploy"), rounds=1)
    assert error.message.endswith(f"; tried {one}, {other}")


def test_a_dead_first_address_is_passed_over_and_the_live_one_is_kept(ask: Asker) -> None:
    with Scripted(lambda *_: response(2)) as server:
        addresses = f"{dead()},{server.address},{dead()}"
        # The start is random: several clients begin at each place.
        for _ in range(8):
            gate = ask.gate(addresses, pre_tool_use())
            assert gate == Run(approved=True, decision=gate.decision)


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


@pytest.mark.parametrize(
    ("code", "of_hookd", "details", "tries"),
    [
        (Code.UNAVAILABLE, False, None, 3),
        (Code.UNAVAILABLE, True, None, 3),
        (Code.INTERNAL, False, None, 3),
        (Code.CANCELLED, False, None, 3),
        (Code.UNKNOWN, False, None, 3),
        (Code.INTERNAL, True, None, 1),
        (Code.DEADLINE_EXCEEDED, True, None, 1),
        (Code.RESOURCE_EXHAUSTED, True, shed(), 1),
        (Code.INVALID_ARGUMENT, True, None, 1),
        (Code.RESOURCE_EXHAUSTED, False, None, 1),
    ],
)
def test_a_call_is_tried_again_only_where_no_answer_was_given(
    ask: Asker, code: grpc.StatusCode, of_hookd: bool, details: bytes | None, tries: int
) -> None:
    def answer(_: v1.TriggerRequest, context: grpc.ServicerContext) -> v1.TriggerResponse:
        if server.asked > 2:
            return response(2)
        end_with(context, of_hookd=of_hookd, details=details)
        context.abort(code, "why")

    with Scripted(answer) as server:
        gate = ask.gate(server.address, event("PreDeploy"))
        assert (server.asked, gate.decision.error is None) == (tries, tries == 3)


def test_the_tries_are_bounded(ask: Asker) -> None:
    with Scripted(fails(Code.UNAVAILABLE, "never", of_hookd=False)) as server:
        error = ask.error(server.address, event("PreDeploy"), rounds=3)
        assert server.asked == 3
        assert str(error) == f"hookd cannot be reached at {server.address}: never"


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


def test_the_deadline_holds_while_connecting_and_between_tries(ask: Asker) -> None:
    begun = time.monotonic()
    error = ask.error(dead(), event("PreDeploy"), deadline=0.3, rounds=1_000_000)
    assert time.monotonic() - begun < 10
    assert error.kind.is_unavailable


def test_a_padded_call_is_not_sent_and_buys_no_allow(ask: Asker) -> None:
    with Scripted(lambda *_: response(2)) as server:
        request = pre_tool_use()
        request.payload_json = "x" * (5 << 20)
        gate = ask.gate(server.address, request, on_unavailable=ALLOW)
        assert isinstance(gate, Refuse) and gate.reason.endswith(" bytes, the limit is 4194304")
        assert server.asked == 0


def test_an_answer_over_the_limit_blocks(ask: Asker) -> None:
    with Scripted(lambda *_: response(2, reason="x" * 3000)) as server:
        gate = ask.gate(server.address, pre_tool_use(), on_unavailable=ALLOW, message_bytes=2000)
        assert isinstance(gate, Refuse) and "RESOURCE_EXHAUSTED" in gate.reason


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

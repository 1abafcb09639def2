"""Tools that ask before and after they run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hookd import (
    AgentHalted,
    Ask,
    AsyncClient,
    AsyncSession,
    Client,
    Decision,
    Json,
    Refuse,
    Session,
    ToolFeedback,
    ToolRefused,
    ToolStopped,
    ToolSuspended,
    v1,
)
from support import BLOCK, Hookd, Scripted, response
from test_server import decide

RULES = (
    decide("PreToolUse", "^refuse$", verdict="block", reason="no"),
    decide("PreToolUse", "^ask$", verdict="ask", reason="sure?"),
    decide("PreToolUse", "^defer$", verdict="defer"),
    decide("PreToolUse", "^halt$", halt=True, reason="enough"),
    decide("PreToolUse", "^rewrite$", modifiedParams={"a": 2, "b": 1.5, "c": "x"}, additionalContext="changed"),
    decide("PreToolUse", "^misfit$", modifiedParams={"z": 1}),
    decide("PreToolUse", "^missing$", modifiedParams={}),
    decide("PostToolUse", "^redact$", modifiedResult="***"),
    decide("PostToolUse", "^feedback$", verdict="block", reason="look again"),
    decide("PostToolUse", "^hide$", verdict="block", reason="secret", modifiedResult={"shown": "***"}),
    decide("PostToolUse", "^stop$", halt=True, haltReason="enough"),
    decide("PostToolUseFailure", "^hint$", verdict="block", reason="try the other one"),
)


class Either:
    """A tool in both styles: `run` gives what it comes to, and `ran` says with which arguments it ran."""

    def __init__(self, kind: str, address: str) -> None:
        self.kind = kind
        self._address = address
        self.ran: list[Any] = []
        self.told: list[Decision] = []

    def run(
        self,
        tool: str,
        *,
        result: Any = "ok",
        error: BaseException | None = None,
        on_ask: Callable[[Ask], Any] | None = None,
    ) -> Any:
        if self.kind == "threads":
            with Client(self._address, on_unavailable=BLOCK) as client:
                session = client.session("s")

                @session.tool(name=tool, exclude=("context",), on_ask=on_ask, on_decision=self.told.append)
                def one(context: object, a: Any, b: Any = 7, *, c: Any = None) -> Any:
                    self.ran.append((context, a, b, c))
                    if error is not None:
                        raise error
                    return result

                return one(self, 1, c=[1.5])

        async def run() -> Any:
            async with AsyncClient(self._address, on_unavailable=BLOCK) as client:
                session = client.session("s")

                @session.tool(name=tool, exclude=("context",), on_ask=on_ask, on_decision=self.told.append)
                async def one(context: object, a: Any, b: Any = 7, *, c: Any = None) -> Any:
                    self.ran.append((context, a, b, c))
                    if error is not None:
                        raise error
                    return result

                return await one(self, 1, c=[1.5])

        return asyncio.run(run())


@pytest.fixture(params=["threads", "asyncio"])
def either(request: pytest.FixtureRequest, start: Callable[..., Hookd]) -> Either:
    return Either(request.param, start(*RULES).address)


def test_a_tool_runs_between_two_questions(either: Either) -> None:
    assert either.run("plain") == "ok"
    assert either.ran == [(either, 1, 7, [1.5])]
    assert len(either.told) == 2


@pytest.mark.parametrize(
    ("tool", "kind", "reason"),
    [
        ("refuse", ToolRefused, "no"),
        ("ask", ToolRefused, "sure?"),
        ("defer", ToolSuspended, "the call of defer waits for a decision"),
        ("halt", AgentHalted, "enough"),
        ("misfit", ToolRefused, "the modified parameters do not fit misfit: `a` is missing"),
        ("missing", ToolRefused, "the modified parameters do not fit missing: `a` is missing"),
    ],
)
def test_a_tool_that_may_not_run_does_not(either: Either, tool: str, kind: type, reason: str) -> None:
    with pytest.raises(ToolStopped) as raised:
        either.run(tool)
    assert type(raised.value) is kind
    assert reason in str(raised.value)
    assert raised.value.reason == str(raised.value)
    assert (either.ran, len(either.told)) == ([], 1)


def test_a_rewrite_reaches_the_tool_and_what_stays_keeps_its_object(either: Either) -> None:
    assert either.run("rewrite") == "ok"
    assert either.ran == [(either, 2, Decimal("1.5"), "x")]
    assert [note.text for note in either.told[0].additional_context] == ["changed"]


def test_a_person_can_agree(either: Either) -> None:
    asked: list[str] = []

    def agree(gate: Ask) -> bool:
        asked.append(gate.reason)
        return True

    assert either.run("ask", on_ask=agree) == "ok"
    with pytest.raises(ToolRefused, match="sure"):
        either.run("ask", on_ask=lambda _: False)
    # Only a plain yes is one.
    with pytest.raises(ToolRefused, match="sure"):
        either.run("ask", on_ask=lambda _: "no")
    assert (asked, len(either.ran)) == (["sure?"], 1)


def test_a_result_is_replaced(either: Either) -> None:
    assert either.run("redact", result="token") == "***"


def test_feedback_comes_with_what_may_be_shown(either: Either) -> None:
    for tool, reason, result in (("feedback", "look again", "token"), ("hide", "secret", {"shown": "***"})):
        with pytest.raises(ToolFeedback) as raised:
            either.run(tool, result="token")
        assert (str(raised.value), raised.value.result) == (reason, result)


def test_a_result_that_has_no_json_form_is_not_shown(either: Either) -> None:
    with pytest.raises(ToolFeedback) as raised:
        either.run("plain", result=object())
    assert str(raised.value) == "the result cannot be sent to hookd: a object has no JSON form"
    assert raised.value.result == f"the result is not shown: {raised.value}"


def test_an_agent_is_halted_after_a_tool(either: Either) -> None:
    with pytest.raises(AgentHalted, match="enough"):
        either.run("stop")
    assert len(either.ran) == 1


def test_a_failure_is_told_and_passed_on(either: Either) -> None:
    error = KeyError("boom \ud800")
    with pytest.raises(KeyError) as raised:
        either.run("plain", error=error)
    assert raised.value is error
    with pytest.raises(ToolFeedback, match="try the other one") as hinted:
        either.run("hint", error=error)
    assert hinted.value.__cause__ is error and hinted.value.result is None
    assert len(either.told) == 4


def test_who_wants_to_be_gone_is_let_go(either: Either) -> None:
    with pytest.raises(KeyboardInterrupt):
        either.run("plain", error=KeyboardInterrupt())
    assert len(either.told) == 1


def test_a_function_whose_arguments_have_no_names_is_no_tool() -> None:
    session = Client("127.0.0.1:1", on_unavailable=BLOCK).session("s")

    def nameless(*args: object) -> None:
        raise AssertionError(args)

    async def later() -> None:
        raise AssertionError

    with pytest.raises(TypeError, match=r"takes `\*args`"):
        session.tool(nameless)
    with pytest.raises(TypeError, match="AsyncClient"):
        session.tool(later)


def test_the_function_keeps_its_name_and_open_arguments_are_parameters() -> None:
    seen: list[v1.TriggerRequest] = []

    def answer(request: v1.TriggerRequest, _: object) -> v1.TriggerResponse:
        seen.append(request)
        return response(1, modified_params_json='{"path":"/b","more":{"x":1}}' if len(seen) == 1 else None)

    with Scripted(answer) as server, Client(server.address, on_unavailable=BLOCK) as client:

        @client.session("s").tool
        def read(path: str, **more: object) -> tuple[str, dict[str, object]]:
            """Reads."""
            return path, more

        assert (read.__name__, read.__doc__) == ("read", "Reads.")
        assert read("/a", x=1) == ("/b", {"more": {"x": 1}})
        with pytest.raises(TypeError):
            read()  # type: ignore[call-arg]
    calls = [(request.event, request.tool_call.tool, request.tool_call.params_json) for request in seen]
    assert calls == [
        ("PreToolUse", "read", '{"path":"/a","x":1}'),
        ("PostToolUse", "read", '{"path":"/b","more":{"x":1}}'),
    ]
    assert seen[1].tool_call.result_json == '["/b",{"more":{"x":1}}]' and seen[1].tool_call.HasField("elapsed")


def test_a_with_statement_runs_a_tool(start: Callable[..., Hookd]) -> None:
    address = start(*RULES).address

    def sync(session: Session) -> None:
        with session.tool_call("rewrite", {"n": 1}, tool_use_id="u1") as call:
            assert (call.params["b"], call.modified) == (Decimal("1.5"), call.params_json)
            call.result = call.params["a"]
        assert call.result == 2
        with session.tool_call("redact", '{"n":1.10}') as call:
            assert (call.params, call.params_json, call.modified) == ({"n": Decimal("1.10")}, Json('{"n":1.10}'), None)
            call.result = "token"
        assert call.result == "***"
        with pytest.raises(ToolRefused) as raised, session.tool_call("refuse", {}):
            raise AssertionError("the body runs")
        assert isinstance(raised.value.gate, Refuse)

    async def asynchronous(session: AsyncSession) -> None:
        async def agree(_: Ask) -> bool:
            return True

        async with session.tool_call("ask", {"n": 1}, on_ask=agree) as call:
            call.result = call.params["n"]
        assert call.result == 1
        with pytest.raises(ToolRefused):
            async with session.tool_call("refuse", {}):
                raise AssertionError("the body runs")

    with Client(address, on_unavailable=BLOCK) as client:
        sync(client.session("s"))

    async def run() -> None:
        async with AsyncClient(address, on_unavailable=BLOCK) as client:
            await asynchronous(client.session("s"))

    asyncio.run(run())

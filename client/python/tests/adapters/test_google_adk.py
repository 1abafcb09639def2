"""An agent of the Google ADK, its own runner and a scripted model, with hookd in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed")

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types
from rules import (
    ADD_ASK,
    ADD_BLOCK,
    ADD_DEFER,
    ADD_HALT,
    ADD_REWRITE,
    PROMPT_BLOCK,
    PROMPT_NOTE,
    RESULT_BLOCK,
    RESULT_HIDE,
    STOP_ONCE,
    Adder,
    Start,
    async_client,
    example,
    rule,
    session,
    signed,
)
from support import ALLOW, BLOCK, dead

from hookd import AgentHalted, Client, Decision, OnUnavailable
from hookd.adapters.google_adk import HookdPlugin


def content(*parts: types.Part, role: str = "model") -> types.Content:
    return types.Content(role=role, parts=list(parts))


CALL = content(types.Part(function_call=types.FunctionCall(id="call-1", name="add", args={"a": 1, "b": 2})))


def says(text: str) -> types.Content:
    return content(types.Part(text=text))


class Script(BaseLlm):
    """Says what a test wrote, one turn after the other, and keeps what it was sent."""

    model: str = "script"
    turns: list[types.Content]
    seen: list[list[types.Content]] = []

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        turn = self.turns[len(self.seen)]
        self.seen.append(list(llm_request.contents))
        yield LlmResponse(content=turn)


class Agent:
    """An agent with one tool."""

    def __init__(
        self, kind: str, address: str, on_unavailable: OnUnavailable = BLOCK, error: Exception | None = None
    ) -> None:
        self.kind, self.address, self.policy = kind, address, on_unavailable
        self.adder = Adder()
        self.model = Script(turns=[CALL, says("done"), says("done again")], seen=[])
        self.told: list[Decision] = []

        def add(a: int, b: int) -> str:
            """Adds."""
            if error is not None:
                raise error
            return self.adder(a, b)

        self.agent = LlmAgent(name="one", model=self.model, tools=[add])

    def run(self, confirmed: bool | None = None) -> list[Any]:
        """All events; with `confirmed`, questions are answered."""

        async def loop(asks: Any) -> list[Any]:
            plugin = HookdPlugin(asks, on_decision=self.told.append)
            runner = InMemoryRunner(self.agent, app_name="app", plugins=[plugin])
            await runner.session_service.create_session(app_name="app", user_id="u", session_id="s")
            message = content(types.Part(text="what is 1 + 2?"), role="user")

            async def events(message: types.Content) -> list[Any]:
                all = plugin.run_async(runner, user_id="u", session_id="s", new_message=message)
                return [event async for event in all]

            seen = await events(message)
            asked = [call for event in seen for call in event.get_function_calls()]
            asked = [call for call in asked if call.name == "adk_request_confirmation"]
            if confirmed is not None:
                (call,) = asked
                answer = types.FunctionResponse(id=call.id, name=call.name, response={"confirmed": confirmed})
                seen += await events(content(types.Part(function_response=answer), role="user"))
            return seen

        async def run() -> list[Any]:
            if self.kind == "asyncio":
                async with async_client(self.address, self.policy) as client:
                    return await loop(client.session("s"))
            with session(self.address, self.policy) as asks:
                return await loop(asks)

        return asyncio.run(run())

    def output(self) -> Any:
        responses = [part.function_response for one in self.model.seen[-1] for part in one.parts or ()]
        return [response.response for response in responses if response is not None][-1]


NewAgent = Callable[..., Agent]


@pytest.fixture(params=["threads", "asyncio"])
def agent(request: pytest.FixtureRequest) -> NewAgent:
    return lambda address, **more: Agent(request.param, address, **more)


def final(events: list[Any]) -> str:
    text = events[-1].content.parts[0].text
    assert isinstance(text, str)
    return text


def test_a_tool_runs_as_it_was_called(agent: NewAgent, start: Start) -> None:
    one = agent(start().address)
    assert final(one.run()) == "done"
    assert (one.adder.ran, one.output()) == ([(1, 2)], {"result": "sum 3"})
    assert len(one.told) == 4


def test_a_block_comes_back_as_the_tools_error(agent: NewAgent, start: Start) -> None:
    one = agent(start(ADD_BLOCK).address)
    one.run()
    assert one.adder.ran == [] and list(one.output()) == ["error"]
    assert signed(one.output()["error"], "no adding today", "no-add")


def test_a_rewrite_reaches_the_tool(agent: NewAgent, start: Start) -> None:
    one = agent(start(ADD_REWRITE, rule("n", "PreToolUse", additionalContext="a note")).address)
    one.run()
    assert (one.adder.ran, one.output()) == ([(40, 2)], {"result": "sum 42", "hookd": "a note"})


def test_the_result_is_replaced(agent: NewAgent, start: Start) -> None:
    one = agent(start(RESULT_HIDE).address)
    one.run()
    assert (one.adder.ran, one.output()) == ([(1, 2)], {"result": "***"})


def test_a_block_after_the_fact_stands_beside_the_result(agent: NewAgent, start: Start) -> None:
    one = agent(start(RESULT_BLOCK).address)
    one.run()
    assert one.output()["result"] == "sum 3" and signed(one.output()["hookd"], "look again", "look")


def test_a_failure_is_told(agent: NewAgent, start: Start) -> None:
    address = start(rule("try", "PostToolUseFailure", verdict="block", reason="try again")).address
    one = agent(address, error=ValueError("broken"))
    one.run()
    assert one.output()["error"] == "broken" and signed(one.output()["hookd"], "try again", "try")
    with pytest.raises(ValueError, match="broken"):
        agent(start().address, error=ValueError("broken")).run()


def test_stop_makes_it_go_on(agent: NewAgent, start: Start) -> None:
    one = agent(start(STOP_ONCE).address)
    assert final(one.run()) == "done again"
    assert signed([part.text for part in one.model.seen[-1][-1].parts or ()], "check it again", "again")
    assert len(one.told) == 5


@pytest.mark.parametrize("asks", [ADD_ASK, ADD_DEFER])
def test_a_question_is_a_confirmation(agent: NewAgent, start: Start, asks: dict[str, Any]) -> None:
    address = start(asks).address
    one = agent(address)
    one.run()
    assert (one.adder.ran, len(one.model.seen)) == ([], 1)
    one = agent(address)
    assert final(one.run(confirmed=True)) == "done"
    assert one.adder.ran == ([(40, 2)] if asks is ADD_ASK else [(1, 2)])
    one = agent(address)
    one.run(confirmed=False)
    assert one.adder.ran == [] and "nobody agreed to the call of add" in one.output()["error"]


def test_a_halt_ends_the_run(agent: NewAgent, start: Start) -> None:
    one = agent(start(ADD_HALT).address)
    with pytest.raises(AgentHalted) as raised:
        one.run()
    assert signed(raised.value.reason, "enough", "halt-add")
    assert (one.adder.ran, len(one.model.seen)) == ([], 1)


def test_a_prompt_is_refused_or_gets_context(agent: NewAgent, start: Start) -> None:
    one = agent(start(PROMPT_BLOCK, STOP_ONCE).address)
    assert signed(final(one.run()), "not this", "no-prompt")
    assert one.model.seen == []
    one = agent(start(PROMPT_NOTE).address)
    one.run()
    assert [part.text for part in one.model.seen[0][0].parts or ()] == ["what is 1 + 2?", "mind the gap"]


def test_without_hookd_the_policy_decides(agent: NewAgent) -> None:
    one = agent(dead(), on_unavailable=ALLOW)
    one.run()
    assert one.adder.ran == [(1, 2)]
    one = agent(dead())
    assert "hookd cannot be reached" in final(one.run())
    assert one.model.seen == []


def test_the_example(start: Start) -> None:
    one = Agent("threads", "")
    names: dict[str, Any] = {"agent": one.agent}
    with Client(start(ADD_REWRITE).address, on_unavailable=BLOCK) as client:
        exec(example("google_adk"), {**names, "client": client})
    assert one.adder.ran == [(40, 2)]

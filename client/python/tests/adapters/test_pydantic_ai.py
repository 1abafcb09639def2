"""A Pydantic AI agent, its own loop and a scripted model, with hookd in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="pydantic-ai is not installed")

from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
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
from hookd.adapters.pydantic_ai import Hookd


class Script:
    """Says what a test wrote, one turn after the other, and keeps what it was sent."""

    def __init__(self, *turns: ToolCallPart | TextPart) -> None:
        self.turns = turns
        self.seen: list[list[ModelMessage]] = []

    def __call__(self, messages: list[ModelMessage], _: Any) -> ModelResponse:
        turn = self.turns[len(self.seen)]
        self.seen.append(list(messages))
        return ModelResponse(parts=[turn])

    def parts(self, kind: str) -> list[Any]:
        """What the model was sent in the end, of one kind."""
        return [part for message in self.seen[-1] for part in message.parts if part.part_kind == kind]


CALL = ToolCallPart("add", {"a": 1, "b": 2}, tool_call_id="call-1")


class Agent:
    """An agent with one tool."""

    def __init__(
        self, kind: str, address: str, on_unavailable: OnUnavailable = BLOCK, error: Exception | None = None
    ) -> None:
        self.kind, self.address, self.policy, self.error = kind, address, on_unavailable, error
        self.adder = Adder()
        self.model = Script(CALL, TextPart("done"), TextPart("done again"))
        self.told: list[Decision] = []

    def run(self, answer: Any = None) -> Any:
        """The output; with `answer`, the call that waits gets it."""

        def add(a: int, b: int) -> str:
            if self.error is not None:
                raise self.error
            return self.adder(a, b)

        async def loop(asks: Any) -> Any:
            hookd = Hookd(asks, on_decision=self.told.append)
            agent = PydanticAgent(
                FunctionModel(self.model), tools=[add], capabilities=[hookd], output_type=[str, DeferredToolRequests]
            )
            result = await agent.run("what is 1 + 2?")
            if answer is not None:
                assert isinstance(result.output, DeferredToolRequests)
                results = DeferredToolResults(approvals={"call-1": answer})
                result = await agent.run(message_history=result.all_messages(), deferred_tool_results=results)
            return result.output

        async def run() -> Any:
            if self.kind == "asyncio":
                async with async_client(self.address, self.policy) as client:
                    return await loop(client.session("s"))
            with session(self.address, self.policy) as asks:
                return await loop(asks)

        return asyncio.run(run())

    def returned(self) -> Any:
        (part,) = self.model.parts("tool-return")
        return part


NewAgent = Callable[..., Agent]


@pytest.fixture(params=["threads", "asyncio"])
def agent(request: pytest.FixtureRequest) -> NewAgent:
    return lambda address, **more: Agent(request.param, address, **more)


def test_a_tool_runs_as_it_was_called(agent: NewAgent, start: Start) -> None:
    one = agent(start().address)
    assert one.run() == "done"
    assert (one.adder.ran, one.returned().content) == ([(1, 2)], "sum 3")
    assert len(one.told) == 4


def test_a_block_comes_back_as_a_failed_tool(agent: NewAgent, start: Start) -> None:
    one = agent(start(ADD_BLOCK).address)
    assert one.run() == "done"
    assert (one.adder.ran, one.returned().outcome) == ([], "failed")
    assert signed(one.returned().content, "no adding today", "no-add")


def test_a_rewrite_reaches_the_tool(agent: NewAgent, start: Start) -> None:
    one = agent(start(ADD_REWRITE, rule("n", "PreToolUse", additionalContext="a note")).address)
    one.run()
    assert (one.adder.ran, one.returned().content) == ([(40, 2)], "sum 42\n\na note")


def test_the_result_is_replaced(agent: NewAgent, start: Start) -> None:
    one = agent(start(RESULT_HIDE).address)
    one.run()
    assert (one.adder.ran, one.returned().content) == ([(1, 2)], "***")


def test_a_block_after_the_fact_stands_beside_the_result(agent: NewAgent, start: Start) -> None:
    one = agent(start(RESULT_BLOCK).address)
    one.run()
    assert one.returned().content.startswith("sum 3\n\nlook again (look, ")


def test_a_failure_is_told(agent: NewAgent, start: Start) -> None:
    address = start(rule("try", "PostToolUseFailure", verdict="block", reason="try again")).address
    one = agent(address, error=ValueError("broken"))
    one.run()
    assert one.returned().outcome == "failed" and one.returned().content.startswith("broken\n\ntry again (try, ")
    with pytest.raises(ValueError, match="broken"):
        agent(start().address, error=ValueError("broken")).run()


def test_stop_makes_it_go_on(agent: NewAgent, start: Start) -> None:
    one = agent(start(STOP_ONCE).address)
    assert one.run() == "done again"
    assert signed(one.model.parts("user-prompt")[-1].content, "check it again", "again")
    assert len(one.told) == 5


@pytest.mark.parametrize("asks", [ADD_ASK, ADD_DEFER])
def test_a_question_is_a_deferred_tool_request(agent: NewAgent, start: Start, asks: dict[str, Any]) -> None:
    address = start(asks).address
    one = agent(address)
    output = one.run()
    assert [call.tool_name for call in output.approvals] == ["add"] and one.adder.ran == []
    assert asks["handler"]["reason"] in output.metadata["call-1"]["reason"]
    one = agent(address)
    assert one.run(True) == "done"
    assert one.adder.ran == ([(40, 2)] if asks is ADD_ASK else [(1, 2)])
    one = agent(address)
    one.run(ToolDenied("rather not"))
    assert (one.adder.ran, one.returned().content) == ([], "rather not")


def test_a_halt_ends_the_run(agent: NewAgent, start: Start) -> None:
    one = agent(start(ADD_HALT).address)
    with pytest.raises(AgentHalted) as raised:
        one.run()
    assert signed(raised.value.reason, "enough", "halt-add")
    assert (one.adder.ran, len(one.model.seen)) == ([], 1)


def test_a_prompt_is_refused_or_gets_context(agent: NewAgent, start: Start) -> None:
    one = agent(start(PROMPT_BLOCK).address)
    with pytest.raises(AgentRunError) as raised:
        one.run()
    assert signed(raised.value, "not this", "no-prompt") and one.model.seen == []
    one = agent(start(PROMPT_NOTE).address)
    one.run()
    assert [part.content for part in one.model.parts("user-prompt")] == ["what is 1 + 2?", "mind the gap"]


def test_without_hookd_the_policy_decides(agent: NewAgent) -> None:
    one = agent(dead(), on_unavailable=ALLOW)
    one.run()
    assert one.adder.ran == [(1, 2)]
    one = agent(dead())
    with pytest.raises(AgentRunError, match="hookd cannot be reached"):
        one.run()
    assert one.model.seen == []


def test_the_example(start: Start) -> None:
    adder = Adder()

    def add(a: int, b: int) -> str:
        return adder(a, b)

    model = FunctionModel(Script(CALL, TextPart("done")))
    with Client(start(ADD_REWRITE).address, on_unavailable=BLOCK) as client:
        exec(example("pydantic_ai"), {"client": client, "model": model, "tools": [add]})
    assert adder.ran == [(40, 2)]

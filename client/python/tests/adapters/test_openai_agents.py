"""An agent of the OpenAI Agents SDK, its own loop and a scripted model, with hookd in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("agents.tool_guardrails", reason="openai-agents is not installed")

import agents as sdk
from agents.items import ModelResponse
from agents.mcp import MCPServer
from agents.usage import Usage
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as MCPTool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
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
    session,
    signed,
)
from support import ALLOW, BLOCK, dead

from hookd import AgentHalted, Client, Decision, OnUnavailable
from hookd.adapters.openai_agents import HookdAgents

sdk.set_tracing_disabled(True)


class Script(sdk.Model):
    """Says what a test wrote, one turn after the other, and keeps what it was sent."""

    def __init__(self, *turns: Any) -> None:
        self.turns = turns
        self.seen: list[list[Any]] = []

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        turn = self.turns[len(self.seen)]
        self.seen.append([input] if isinstance(input, str) else list(input))
        return ModelResponse([turn], Usage(), None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def calls(arguments: str) -> Any:
    return ResponseFunctionToolCall(name="add", arguments=arguments, call_id="call-1", type="function_call")


def says(text: str) -> Any:
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(id="m", content=[part], role="assistant", status="completed", type="message")


def tool_of(add: Adder, **options: Any) -> sdk.FunctionTool:
    def one(a: int, b: int = 2) -> str:
        return add(a, b)

    tool = sdk.function_tool(one, name_override="add", **options)
    assert isinstance(tool, sdk.FunctionTool)
    return tool


class Agent:
    """An agent with one tool."""

    def __init__(self, kind: str, address: str, on_unavailable: OnUnavailable = BLOCK, **options: Any) -> None:
        self.kind, self.address, self.policy = kind, address, on_unavailable
        self.add = Adder()
        self.model = Script(calls('{"a": 1, "b": 2}'), says("done"), says("done again"))
        self.told: list[Decision] = []
        self.agent = sdk.Agent(name="one", model=self.model, tools=[tool_of(self.add, **options)])

    def run(self, answer: Callable[[Any, Any], None] | None = None) -> Any:
        async def loop(asks: Any) -> Any:
            hookd = HookdAgents(asks, on_decision=self.told.append)
            result = await hookd.run(self.agent, "what is 1 + 2?")
            while answer is not None and result.interruptions:
                state = result.to_state()
                answer(state, result.interruptions[0])
                result = await hookd.run(self.agent, state)
            return result

        async def run() -> Any:
            if self.kind == "asyncio":
                async with async_client(self.address, self.policy) as client:
                    return await loop(client.session("s"))
            with session(self.address, self.policy) as asks:
                return await loop(asks)

        return asyncio.run(run())

    def output(self) -> Any:
        (item,) = [one for one in self.model.seen[-1] if one.get("type") == "function_call_output"]
        return item["output"]


NewAgent = Callable[..., Agent]


@pytest.fixture(params=["threads", "asyncio"])
def agent(request: pytest.FixtureRequest) -> NewAgent:
    return lambda address, **more: Agent(request.param, address, **more)


def test_a_tool_runs_as_it_was_called(agent: NewAgent, start: Start) -> None:
    one = agent(start().address)
    assert one.run().final_output == "done"
    assert (one.add.ran, one.output()) == ([(1, 2)], "sum 3")
    assert len(one.told) == 4


def test_a_block_comes_back_as_the_tools_rejection(agent: NewAgent, start: Start) -> None:
    one = agent(start(ADD_BLOCK).address)
    one.run()
    assert one.add.ran == []
    assert signed(one.output(), "no adding today", "no-add")


def test_a_rewrite_reaches_the_tool(agent: NewAgent, start: Start) -> None:
    one = agent(start(ADD_REWRITE).address)
    one.run()
    assert (one.add.ran, one.output()) == ([(40, 2)], "sum 42")
    assert len(one.told) == 4


def test_the_result_is_replaced(agent: NewAgent, start: Start) -> None:
    one = agent(start(RESULT_HIDE).address)
    one.run()
    assert (one.add.ran, one.output()) == ([(1, 2)], "***")


def test_a_block_after_the_fact_stands_beside_the_result(agent: NewAgent, start: Start) -> None:
    one = agent(start(RESULT_BLOCK).address)
    one.run()
    assert one.output().startswith("sum 3\n\nlook again (look, ")


def test_stop_makes_it_go_on(agent: NewAgent, start: Start) -> None:
    one = agent(start(STOP_ONCE).address)
    assert one.run().final_output == "done again"
    assert one.model.seen[-1][-1]["role"] == "user"
    assert signed(one.model.seen[-1][-1]["content"], "check it again", "again")


@pytest.mark.parametrize("asks", [ADD_ASK, ADD_DEFER])
def test_a_question_is_an_interruption(agent: NewAgent, start: Start, asks: dict[str, Any]) -> None:
    address = start(asks).address
    ran: list[tuple[int, int]] = [(40, 2)] if asks is ADD_ASK else [(1, 2)]
    one = agent(address)
    assert len(one.run().interruptions) == 1 and one.add.ran == []
    one = agent(address)
    assert one.run(lambda state, item: state.approve(item)).final_output == "done"
    assert one.add.ran == ran
    one = agent(address)
    one.run(lambda state, item: state.reject(item, rejection_message="rather not"))
    assert (one.add.ran, one.output()) == ([], "rather not")


def test_a_tool_that_always_asks_still_does(agent: NewAgent, start: Start) -> None:
    one = agent(start().address, needs_approval=True)
    assert len(one.run().interruptions) == 1
    one = agent(start({"event": "PreToolUse", "handler": {"type": "decide", "verdict": "allow"}}).address)
    assert one.run().final_output == "done"
    one = agent(start(ADD_BLOCK).address, needs_approval=True)
    one.run(lambda state, item: state.approve(item))
    assert one.add.ran == []


def test_a_halt_ends_the_run(agent: NewAgent, start: Start) -> None:
    one = agent(start(ADD_HALT).address)
    with pytest.raises(AgentHalted) as raised:
        one.run()
    assert signed(raised.value.reason, "enough", "halt-add")
    assert (one.add.ran, len(one.model.seen)) == ([], 1)


def test_a_prompt_is_refused_or_gets_context(agent: NewAgent, start: Start) -> None:
    one = agent(start(PROMPT_BLOCK).address)
    with pytest.raises(sdk.InputGuardrailTripwireTriggered) as raised:
        one.run()
    assert one.model.seen == []
    assert signed(raised.value.guardrail_result.output.output_info, "not this", "no-prompt")
    one = agent(start(PROMPT_NOTE).address)
    one.run()
    assert [item["content"] for item in one.model.seen[0]] == ["what is 1 + 2?", "mind the gap"]


def test_without_hookd_the_policy_decides(agent: NewAgent) -> None:
    one = agent(dead(), on_unavailable=ALLOW)
    one.run()
    assert one.add.ran == [(1, 2)]
    one = agent(dead())
    with pytest.raises(sdk.InputGuardrailTripwireTriggered):
        one.run()


def test_agents_that_are_handed_over_to_are_guarded_and_what_cannot_be_is_refused(start: Start) -> None:
    with session(start(ADD_BLOCK).address) as asks:
        hookd, add = HookdAgents(asks), Adder()
        second = sdk.Agent(name="two", model=Script(calls('{"a": 1}'), says("done")), tools=[tool_of(add)])
        handoff = ResponseFunctionToolCall(
            name="transfer_to_two", arguments="{}", call_id="call-0", type="function_call"
        )
        for handoffs in ([second], [sdk.handoff(second)]):
            second.model = Script(calls('{"a": 1}'), says("done"))
            first = sdk.Agent(name="one", model=Script(handoff), handoffs=list(handoffs))
            assert asyncio.run(hookd.run(first, "hi")).final_output == "done"
            assert add.ran == []
        for tool in (sdk.WebSearchTool(), second.as_tool("two", "the second")):
            with pytest.raises(TypeError):
                hookd.guard(sdk.Agent(name="one", tools=[tool]))
        HookdAgents(asks, unguarded=["web_search"]).guard(sdk.Agent(name="one", tools=[sdk.WebSearchTool()]))
        hookd.guard(sdk.Agent(name="one", tools=[hookd.guard(second).as_tool("two", "the second")]))


def test_tools_of_mcp_servers_are_guarded(start: Start) -> None:
    called: list[Any] = []

    class Server(MCPServer):
        name = "sums"

        async def connect(self) -> None: ...

        async def cleanup(self) -> None: ...

        async def list_tools(self, run_context: Any = None, agent: Any = None) -> Any:
            return [MCPTool(name="add", description="Adds.", input_schema={"type": "object", "properties": {}})]

        async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> Any:
            called.append(arguments)
            return CallToolResult(content=[TextContent(type="text", text="sum 3")])

        async def list_prompts(self) -> Any: ...

        async def get_prompt(self, name: str, arguments: Any = None) -> Any: ...

    for rules, ran in (((), [{"a": 1, "b": 2}]), ((ADD_REWRITE,), [{"a": 40, "b": 2}]), ((ADD_BLOCK,), [])):
        called.clear()
        model = Script(calls('{"a": 1, "b": 2}'), says("done"))
        agent = sdk.Agent(name="one", model=model, mcp_servers=[Server()])
        with session(start(*rules).address) as asks:
            assert asyncio.run(HookdAgents(asks).run(agent, "hi")).final_output == "done"
        assert called == ran


def test_the_example(start: Start) -> None:
    add = Adder()
    agent = sdk.Agent(name="one", model=Script(calls('{"a": 1, "b": 2}'), says("done")), tools=[tool_of(add)])
    with Client(start(ADD_REWRITE).address, on_unavailable=BLOCK) as client:
        exec(example("openai_agents"), {"client": client, "agent": agent})
    assert add.ran == [(40, 2)]

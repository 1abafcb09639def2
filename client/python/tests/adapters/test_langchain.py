"""A LangChain agent, its own loop and a scripted model, with hookd in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("langchain", reason="langchain is not installed")

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
from hookd import AgentHalted, Client, Decision, OnUnavailable
from hookd.adapters.langchain import HookdMiddleware
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from support import ALLOW, BLOCK, dead


class Script(BaseChatModel):
    """Says what a test wrote, one message a turn, and keeps what it was sent."""

    turns: list[AIMessage]
    seen: list[list[BaseMessage]] = []

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Any, **_: Any) -> Script:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        turn = self.turns[len(self.seen)]
        self.seen.append(list(messages))
        return ChatResult(generations=[ChatGeneration(message=turn)])


def calls(**args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "add", "args": args, "id": "call-1"}])


class Agent:
    """An agent with one tool, in either style."""

    def __init__(self, kind: str, address: str, on_unavailable: OnUnavailable = BLOCK) -> None:
        self.kind, self.address, self.policy = kind, address, on_unavailable
        self.add = Adder()
        self.model = Script(turns=[calls(a=1, b=2), AIMessage("done"), AIMessage("done again")], seen=[])
        self.told: list[Decision] = []
        self.saver = InMemorySaver()

    def _agent(self, asks: Any) -> Any:
        add = self.add

        @tool("add")
        def one(a: int, b: int) -> str:
            """Adds."""
            return add(a, b)

        middleware = HookdMiddleware(asks, on_decision=self.told.append)
        return create_agent(self.model, [one], middleware=[middleware], checkpointer=self.saver)

    def run(self, given: Any = None) -> Any:
        given = {"messages": [HumanMessage("what is 1 + 2?")]} if given is None else given
        config = {"configurable": {"thread_id": "t"}}
        if self.kind == "threads":
            with session(self.address, self.policy) as asks:
                return self._agent(asks).invoke(given, config)

        async def run() -> Any:
            if self.kind == "asyncio":
                async with async_client(self.address, self.policy) as client:
                    return await self._agent(client.session("s")).ainvoke(given, config)
            with session(self.address, self.policy) as asks:
                return await self._agent(asks).ainvoke(given, config)

        return asyncio.run(run())

    def tool_message(self) -> ToolMessage:
        (message,) = [one for one in self.model.seen[-1] if isinstance(one, ToolMessage)]
        return message


@pytest.fixture(params=["threads", "asyncio", "asyncio over threads"])
def agent(request: pytest.FixtureRequest) -> Callable[..., Agent]:
    return lambda address, **more: Agent(request.param, address, **more)


NewAgent = Callable[..., Agent]


def test_a_tool_runs_as_it_was_called(agent: NewAgent, start: Start) -> None:
    one = agent(start().address)
    assert one.run()["messages"][-1].content == "done"
    assert one.add.ran == [(1, 2)]
    assert (one.tool_message().content, one.tool_message().status) == ("sum 3", "success")
    assert len(one.told) == 4


def test_a_block_comes_back_as_a_tool_error(agent: NewAgent, start: Start) -> None:
    one = agent(start(ADD_BLOCK).address)
    one.run()
    assert one.add.ran == []
    assert one.tool_message().status == "error"
    assert signed(one.tool_message().content, "no adding today", "no-add")


def test_a_rewrite_reaches_the_tool(agent: NewAgent, start: Start) -> None:
    one = agent(start(ADD_REWRITE, rule("n", "PreToolUse", additionalContext="a note")).address)
    one.run()
    assert one.add.ran == [(40, 2)]
    assert one.tool_message().content == "sum 42\n\na note"


def test_the_result_is_replaced(agent: NewAgent, start: Start) -> None:
    one = agent(start(RESULT_HIDE).address)
    one.run()
    assert (one.add.ran, one.tool_message().content) == ([(1, 2)], "***")


def test_a_block_after_the_fact_stands_beside_the_result(agent: NewAgent, start: Start) -> None:
    one = agent(start(RESULT_BLOCK).address)
    one.run()
    assert str(one.tool_message().content).startswith("sum 3\n\nlook again (look, ")


def test_stop_makes_it_go_on(agent: NewAgent, start: Start) -> None:
    one = agent(start(STOP_ONCE).address)
    assert one.run()["messages"][-1].content == "done again"
    assert isinstance(one.model.seen[-1][-1], HumanMessage)
    assert signed(one.model.seen[-1][-1].content, "check it again", "again")


@pytest.mark.parametrize("asks", [ADD_ASK, ADD_DEFER])
def test_a_question_is_an_interrupt(agent: NewAgent, start: Start, asks: dict[str, Any]) -> None:
    address = start(asks).address
    for answer, ran in (
        ({"type": "approve"}, [(40, 2)] if asks is ADD_ASK else [(1, 2)]),
        ({"type": "reject", "message": "rather not"}, []),
        ("yes", []),
    ):
        one = agent(address)
        (interrupt,) = one.run()["__interrupt__"]
        assert interrupt.value["action_requests"][0]["name"] == "add"
        assert one.add.ran == []
        one.run(Command(resume={"decisions": [answer]}))
        assert one.add.ran == ran
        if not ran:
            assert one.tool_message().status == "error"


def test_a_halt_ends_the_run(agent: NewAgent, start: Start) -> None:
    one = agent(start(ADD_HALT).address)
    with pytest.raises(AgentHalted) as raised:
        one.run()
    assert signed(raised.value.reason, "enough", "halt-add")
    assert (one.add.ran, len(one.model.seen)) == ([], 1)


def test_a_prompt_is_refused_or_gets_context(agent: NewAgent, start: Start) -> None:
    one = agent(start(PROMPT_BLOCK, STOP_ONCE).address)
    messages = one.run()["messages"]
    assert one.model.seen == [] and len(messages) == 1
    assert signed(messages[0].content, "not this", "no-prompt")
    one = agent(start(PROMPT_NOTE).address)
    one.run()
    assert [message.content for message in one.model.seen[0]] == ["what is 1 + 2?", "mind the gap"]


def test_without_hookd_the_policy_decides(agent: NewAgent) -> None:
    one = agent(dead(), on_unavailable=ALLOW)
    one.run()
    assert one.add.ran == [(1, 2)]
    one = agent(dead(), on_unavailable=OnUnavailable.block_except("other"))
    assert "hookd cannot be reached" in one.run()["messages"][0].content
    assert one.model.seen == []


def test_the_session_of_the_other_client_cannot_be_asked_from_threads(start: Start) -> None:
    async def run() -> None:
        async with async_client(start().address) as client:
            agent = create_agent(Script(turns=[]), [], middleware=[HookdMiddleware(client.session("s"))])
            with pytest.raises(TypeError, match="needs the session of a `Client`"):
                agent.invoke({"messages": [HumanMessage("hi")]})

    asyncio.run(run())


@pytest.mark.parametrize("shown", [True, False])
def test_a_tool_that_answers_by_a_command_is_judged_too(start: Start, shown: bool) -> None:
    @tool("add")
    def one(a: int, b: int, runtime: ToolRuntime) -> Command[Any]:
        """Adds."""
        message = ToolMessage("secret", tool_call_id=runtime.tool_call_id)
        return Command(update={"messages": [message]})

    rules = [ADD_BLOCK if not shown else RESULT_HIDE]
    model = Script(turns=[calls(a=1, b=2), AIMessage("done")], seen=[])
    with session(start(*rules).address) as asks:
        create_agent(model, [one], middleware=[HookdMiddleware(asks)]).invoke({"messages": [HumanMessage("hi")]})
    (message,) = [message for message in model.seen[-1] if isinstance(message, ToolMessage)]
    assert message.content == "***" if shown else signed(message.content, "no adding today", "no-add")


def test_a_tool_that_fails_is_told_of(start: Start) -> None:
    @tool("add")
    def one(a: int, b: int) -> str:
        """Adds."""
        raise ValueError("broken")

    told: list[Decision] = []
    model = Script(turns=[calls(a=1, b=2)], seen=[])
    halts = rule("enough", "PostToolUseFailure", "^add$", halt=True, haltReason="enough")
    for rules, error in (((), ValueError), ((halts,), AgentHalted)):
        model.seen.clear()
        with session(start(*rules).address) as asks:
            agent = create_agent(model, [one], middleware=[HookdMiddleware(asks, on_decision=told.append)])
            with pytest.raises(error):
                agent.invoke({"messages": [HumanMessage("hi")]})
    assert len(told) == 6


def test_the_example(start: Start) -> None:
    add = Adder()

    @tool("add")
    def one(a: int, b: int) -> str:
        """Adds."""
        return add(a, b)

    model = Script(turns=[calls(a=1, b=2), AIMessage("done")], seen=[])
    with Client(start(ADD_REWRITE).address, on_unavailable=BLOCK) as client:
        exec(example("langchain"), {"client": client, "model": model, "tools": [one]})
    assert add.ran == [(40, 2)]

"""A CrewAI crew, its own loop and a scripted model, with hookd in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Nothing leaves this machine, and nothing is kept on it.
os.environ.update(
    CREWAI_DISABLE_TELEMETRY="true",
    CREWAI_DISABLE_VERSION_CHECK="true",
    CREWAI_TRACING_ENABLED="false",
    CREWAI_TESTING="true",
    OTEL_SDK_DISABLED="true",
)
pytest.importorskip("crewai.hooks.dispatch", reason="crewai is not installed")

from crewai import Agent as CrewAgent
from crewai import Crew, Task
from crewai.hooks.dispatch import HookAborted, InterceptionPoint, get_hooks
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool
from rules import (
    ADD_ASK,
    ADD_BLOCK,
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

from hookd import Client, Decision, OnUnavailable
from hookd.adapters.crewai import HookdCrews


class Script(BaseLLM):
    """Calls the tool, says it is done, and keeps what it was sent; by function calls or in text."""

    native: bool = False
    seen: list[list[dict[str, Any]]] = []

    def call(self, messages: Any, *_: Any, **__: Any) -> Any:
        self.seen.append([{**message} for message in messages])
        if len(self.seen) > 1:
            return "done" if self.native else "Thought: I know\nFinal Answer: done"
        if self.native:
            function = {"name": "add", "arguments": '{"a": 1, "b": 2}'}
            return [{"id": "call-1", "type": "function", "function": function}]
        return 'Thought: I add\nAction: add\nAction Input: {"a": 1, "b": 2}'

    def supports_function_calling(self) -> bool:
        return self.native


class Agent:
    """A crew of one agent with one tool."""

    def __init__(self, kind: str, address: str, on_unavailable: OnUnavailable = BLOCK, **options: Any) -> None:
        self.address, self.policy, self.options = address, on_unavailable, options
        self.adder = Adder()
        self.model = Script(model="script", native=kind == "function calls", seen=[])
        self.told: list[Decision] = []

    def crew(self) -> Crew:
        adder = self.adder

        @tool("add")
        def add(a: int, b: int) -> str:
            """Adds."""
            return adder(a, b)

        one = CrewAgent(role="adder", goal="add", backstory="none", llm=self.model, tools=[add], max_retry_limit=0)
        task = Task(description="what is 1 + 2?", expected_output="a number", agent=one)
        return Crew(agents=[one], tasks=[task], cache=False)

    def run(self) -> str:
        with session(self.address, self.policy) as asks:
            with HookdCrews(asks, on_decision=self.told.append, **self.options):
                return str(self.crew().kickoff())

    def said(self) -> str:
        """What the model was told of the tool."""
        return "\n".join(str(message.get("content")) for message in self.model.seen[-1][1:])


NewAgent = Callable[..., Agent]


@pytest.fixture(params=["text", "function calls"])
def agent(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NewAgent:
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path / "crewai"))
    return lambda address, **more: Agent(request.param, address, **more)


def test_a_tool_runs_as_it_was_called(agent: NewAgent, start: Start) -> None:
    one = agent(start(STOP_ONCE).address)
    assert one.run() == "done"
    assert one.adder.ran == [(1, 2)] and "sum 3" in one.said()
    assert len(one.told) == 4
    # It cannot be made to go on, and hookd knows.
    answer = one.told[-1].answer
    assert answer is not None and [one.missing for one in answer.downgrades] == [8]
    assert get_hooks(InterceptionPoint.PRE_TOOL_CALL) == []


def test_a_block_is_the_tools_result(agent: NewAgent, start: Start) -> None:
    one = agent(start(ADD_BLOCK).address)
    assert one.run() == "done"
    assert one.adder.ran == [] and signed(one.said(), "no adding today", "no-add")


def test_a_rewrite_reaches_the_tool(agent: NewAgent, start: Start) -> None:
    one = agent(start(ADD_REWRITE, rule("n", "PreToolUse", additionalContext="a note")).address)
    one.run()
    assert one.adder.ran == [(40, 2)] and "sum 42\n\na note" in one.said()


def test_the_result_is_replaced(agent: NewAgent, start: Start) -> None:
    one = agent(start(RESULT_HIDE).address)
    one.run()
    assert one.adder.ran == [(1, 2)] and "***" in one.said() and "sum 3" not in one.said()


def test_a_block_after_the_fact_stands_beside_the_result(agent: NewAgent, start: Start) -> None:
    one = agent(start(RESULT_BLOCK).address)
    one.run()
    assert "sum 3\n\nlook again (look, " in one.said()


def test_a_question_goes_to_who_was_named_for_it(agent: NewAgent, start: Start) -> None:
    address = start(ADD_ASK).address
    for answer, ran in ((True, [(40, 2)]), (False, [])):
        one = agent(address, on_ask=lambda why, call, answer=answer: "sure? (ask-add, " in why and answer)
        one.run()
        assert one.adder.ran == ran
    one = agent(address)
    one.run()
    assert one.adder.ran == [] and "sure? (ask-add, " in one.said()


def test_a_halt_ends_the_kickoff(agent: NewAgent, start: Start) -> None:
    for rules, ran in (((ADD_HALT,), []), ((rule("enough", "PostToolUse", halt=True, haltReason="enough"),), [(1, 2)])):
        one = agent(start(*rules).address)
        with pytest.raises(HookAborted) as raised:
            one.run()
        assert signed(raised.value.reason, "enough", rules[0]["id"])
        assert (one.adder.ran, len(one.model.seen)) == (ran, 1)


def test_a_prompt_is_refused_or_gets_context(agent: NewAgent, start: Start) -> None:
    one = agent(start(PROMPT_BLOCK).address)
    with pytest.raises(HookAborted) as raised:
        one.run()
    assert signed(raised.value.reason, "not this", "no-prompt") and one.model.seen == []
    one = agent(start(PROMPT_NOTE).address)
    one.run()
    assert "mind the gap" in str(one.model.seen[0])


def test_without_hookd_the_policy_decides(agent: NewAgent) -> None:
    one = agent(dead(), on_unavailable=ALLOW)
    one.run()
    assert one.adder.ran == [(1, 2)]
    one = agent(dead())
    with pytest.raises(HookAborted, match="hookd cannot be reached"):
        one.run()
    assert one.model.seen == []


def test_whatever_goes_wrong_in_a_hook_aborts(agent: NewAgent, start: Start) -> None:
    one = agent(start(ADD_ASK).address, on_ask=lambda why, call: 1 / 0)
    one.run()
    assert one.adder.ran == [] and "hookd could not be asked: division by zero" in one.said()


def test_the_session_of_the_other_client_is_refused() -> None:
    with pytest.raises(TypeError, match="needs the session of a `Client`"):
        HookdCrews(async_client(dead()).session("s"))  # type: ignore[arg-type]


def test_the_example(agent: NewAgent, start: Start) -> None:
    one = agent("")
    with Client(start(ADD_REWRITE).address, on_unavailable=BLOCK) as client:
        exec(example("crewai"), {"client": client, "crew": one.crew()})
    assert one.adder.ran == [(40, 2)]

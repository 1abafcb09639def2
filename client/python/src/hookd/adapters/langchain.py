"""LangChain and LangGraph: a middleware for `create_agent`.

    agent = create_agent(model, tools, middleware=[HookdMiddleware(client.session("s"))])

It runs under `invoke` with the session of a `Client`, and under `ainvoke` with one of either client.

- A block is a tool message with `status="error"`; a refused prompt is taken out and the reason is the agent's answer.
- A question and a suspension are a LangGraph interrupt in the form of LangChain's own `HumanInTheLoopMiddleware`, to be
  resumed by `Command(resume={"decisions": [{"type": "approve"}]})` or `{"type": "reject", "message": …}`; the agent
  needs a checkpointer. hookd is asked again when the run goes on.
- A stop that may not be is a new message for the model. LangGraph's own `recursion_limit` is the bound.
- Put it last in the list: then no other middleware changes a call after hookd has judged it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Annotated, Any

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    PrivateStateAttr,
    ToolCallRequest,
    hook_config,
)
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command, interrupt
from typing_extensions import NotRequired

from hookd._gate import Ask, Continue, Gate, Halt, Refuse, Run, Suspend
from hookd._request import ABSENT
from hookd.adapters._common import (
    IN_A_LOOP,
    AnySession,
    Asker,
    OnDecision,
    beside,
    context,
    feedback,
    halted,
    new_result,
    refusal,
    rewritten,
    sendable,
    signed,
    text_of,
    took,
)


class HookdState(AgentState[Any]):
    """What a run remembers."""

    hookd_continued: NotRequired[Annotated[bool, PrivateStateAttr]]
    hookd_refused: NotRequired[Annotated[bool, PrivateStateAttr]]


@dataclass
class _Event:
    """Something to ask about."""

    name: str
    payload: dict[str, Any] | None = None
    call: dict[str, Any] | None = None


_Steps = Generator["_Event | ToolCallRequest", Any, Any]


class HookdMiddleware(AgentMiddleware[HookdState, Any, Any]):
    """Asks hookd in a LangChain agent."""

    state_schema = HookdState

    def __init__(self, session: AnySession, *, on_decision: OnDecision = None) -> None:
        """A middleware that asks in this session; `on_decision` is given each decision."""
        super().__init__()
        self._asker = Asker(session, "langchain", IN_A_LOOP, on_decision)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Asks before and after a tool runs."""
        return self._drive(_tool_call(request), handler)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Asks before and after a tool runs."""
        return await self._drive_async(_tool_call(request), handler)

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: HookdState, runtime: Any) -> Any:
        """Asks about the prompt."""
        return self._drive(_prompt(state), None)

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: HookdState, runtime: Any) -> Any:
        """Asks about the prompt."""
        return await self._drive_async(_prompt(state), None)

    @hook_config(can_jump_to=["model"])
    def after_agent(self, state: HookdState, runtime: Any) -> Any:
        """Asks whether the agent may stop."""
        return self._drive(_stop(state), None)

    @hook_config(can_jump_to=["model"])
    async def aafter_agent(self, state: HookdState, runtime: Any) -> Any:
        """Asks whether the agent may stop."""
        return await self._drive_async(_stop(state), None)

    def _drive(self, steps: _Steps, handler: Callable[[ToolCallRequest], Any] | None) -> Any:
        send: Callable[[], Any] = lambda: next(steps)  # noqa: E731
        while True:
            try:
                step = send()
            except StopIteration as end:
                return end.value
            try:
                done = (
                    self._asker.ask(step.name, step.payload, **(step.call or {}))
                    if isinstance(step, _Event) or handler is None
                    else handler(step)
                )
            except Exception as error:
                send = _throwing(steps, error)
            else:
                send = _sending(steps, done)

    async def _drive_async(self, steps: _Steps, handler: Callable[[ToolCallRequest], Awaitable[Any]] | None) -> Any:
        send: Callable[[], Any] = lambda: next(steps)  # noqa: E731
        while True:
            try:
                step = send()
            except StopIteration as end:
                return end.value
            try:
                done = await (
                    self._asker.ask_async(step.name, step.payload, **(step.call or {}))
                    if isinstance(step, _Event) or handler is None
                    else handler(step)
                )
            except Exception as error:
                send = _throwing(steps, error)
            else:
                send = _sending(steps, done)


def _sending(steps: _Steps, value: Any) -> Callable[[], Any]:
    return lambda: steps.send(value)


def _throwing(steps: _Steps, error: Exception) -> Callable[[], Any]:
    return lambda: steps.throw(error)


def _tool_call(request: ToolCallRequest) -> _Steps:
    call = request.tool_call
    name, args, id = call["name"], call["args"], call["id"] or ""
    about: dict[str, Any] = {"tool": name, "params": args, "tool_use_id": id}
    gate: Gate = yield _Event("PreToolUse", call=about)

    def refused(why: str) -> ToolMessage:
        return ToolMessage(why, tool_call_id=id, name=name, status="error")

    match gate:
        case Run():
            pass
        case Ask() | Suspend():
            args_then = args if gate.params is None else rewritten(args, gate.params)
            no = _not_approved(name, args_then, gate)
            if no is not None:
                return refused(no)
        case Refuse() | Continue():
            return refused(refusal(gate, name))
        case Halt():
            raise halted(gate)
    if gate.params is not None:
        args = rewritten(args, gate.params)
        request = request.override(tool_call={**call, "args": args})
    about["params"] = args
    begun = time.monotonic()
    notes = context(gate)
    try:
        result = yield request
    except GraphBubbleUp:
        # The tool itself waits for a person.
        raise
    except Exception as error:
        gate = yield _Event("PostToolUseFailure", call={**about, "error": text_of(str(error) or type(error).__name__)})
        if isinstance(gate, Halt):
            raise halted(gate) from error
        raise
    about["elapsed"] = took(time.monotonic() - begun)
    return (yield from _after(name, id, about, notes, result))


def _after(name: str, id: str, about: dict[str, Any], notes: list[str], result: Any) -> _Steps:
    message = _message_of(result, id)
    if message is not None and message.status == "error":
        gate = yield _Event("PostToolUseFailure", call={**about, "error": text_of(message.content)})
    else:
        shown = None if message is None else sendable(message.content)
        gate = yield _Event("PostToolUse", call={**about, "result": shown})
    if isinstance(gate, Halt):
        raise halted(gate)
    value, notes = new_result(gate), notes + feedback(gate, name)
    if value is ABSENT and not notes:
        return result
    if message is None:
        # A command that gives the model nothing of this call: there is nothing to replace.
        if isinstance(gate, Run):
            return result
        return ToolMessage("\n\n".join(notes), tool_call_id=id, name=name, status="error")
    content: Any = message.content if value is ABSENT else text_of(value)
    if isinstance(content, str):
        content = beside(content, notes)
    else:
        content = [*content, *({"type": "text", "text": note} for note in notes)]
    update = {"content": content} if value is ABSENT else {"content": content, "artifact": None}
    changed = message.model_copy(update=update)
    return changed if message is result else _with_message(result, message, changed)


def _not_approved(name: str, args: dict[str, Any], gate: Ask | Suspend) -> str | None:
    """Asks a person; `None`: they agreed."""
    why = signed(gate.reason, gate.decision, f"a person has to agree to the call of {name}")
    answer = interrupt(
        {
            "action_requests": [{"name": name, "args": args, "description": why}],
            "review_configs": [{"action_name": name, "allowed_decisions": ["approve", "reject"]}],
        }
    )
    decisions = answer.get("decisions") if isinstance(answer, dict) else None
    first = decisions[0] if isinstance(decisions, list) and len(decisions) == 1 else None
    if isinstance(first, dict) and first.get("type") == "approve":
        return None
    said = first.get("message") if isinstance(first, dict) else None
    return signed(said or "", gate.decision, f"nobody agreed to the call of {name}")


def _message_of(result: Any, id: str) -> ToolMessage | None:
    """The message about this call."""
    if isinstance(result, ToolMessage):
        return result
    for message in _messages(result):
        if isinstance(message, ToolMessage) and message.tool_call_id == id:
            return message
    return None


def _with_message(result: Any, old: ToolMessage, new: ToolMessage) -> Any:
    messages = [new if message is old else message for message in _messages(result)]
    return Command(
        graph=result.graph, update={**result.update, "messages": messages}, resume=result.resume, goto=result.goto
    )


def _messages(result: Any) -> list[Any]:
    update = result.update if isinstance(result, Command) else None
    messages = update.get("messages") if isinstance(update, dict) else None
    return messages if isinstance(messages, list) else []


def _prompt(state: HookdState) -> _Steps:
    fresh: dict[str, Any] = {"hookd_continued": False, "hookd_refused": False}
    last = state["messages"][-1] if state["messages"] else None
    if not isinstance(last, HumanMessage):
        return fresh
    gate: Gate = yield _Event("UserPromptSubmit", {"prompt": str(last.text)})
    match gate:
        case Run():
            notes = context(gate)
            return {**fresh, "messages": [HumanMessage("\n\n".join(notes))]} if notes else fresh
        case Halt():
            raise halted(gate)
        case _:
            why = signed(gate.reason, gate.decision, "the prompt was refused")
            gone = [] if last.id is None else [RemoveMessage(id=last.id)]
            return {"hookd_refused": True, "messages": [*gone, AIMessage(why)], "jump_to": "end"}


def _stop(state: HookdState) -> _Steps:
    if state.get("hookd_refused"):
        return None
    last = state["messages"][-1] if state["messages"] else None
    payload: dict[str, Any] = {"stop_hook_active": bool(state.get("hookd_continued"))}
    if isinstance(last, AIMessage):
        payload["last_assistant_message"] = str(last.text)
    gate: Gate = yield _Event("Stop", payload)
    if isinstance(gate, Halt):
        raise halted(gate)
    if not isinstance(gate, Continue):
        return None
    why = signed(gate.reason, gate.decision, "go on")
    return {"messages": [HumanMessage(why)], "hookd_continued": True, "jump_to": "model"}

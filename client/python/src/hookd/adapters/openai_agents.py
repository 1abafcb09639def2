"""OpenAI Agents SDK: agents whose tools ask, and a run that asks about the prompt and the stop.

    result = await HookdAgents(client.session("s")).run(agent, "what is 1 + 2?")

- A block is the tool's output: a rejection of a tool input guardrail, as the SDK has it.
- A question and a suspension are an interruption of the run (`result.interruptions`), to be approved or rejected on the
  `RunState` and run again with it; hookd is asked again when the run goes on.
- A refused prompt raises the SDK's `InputGuardrailTripwireTriggered`, with the reason in its `output_info`.
- A stop that may not be is a new run with the reason as the next input. It has no bound but the rules' own:
  `stop_hook_active` tells them.
- `guard` gives the agent alone, for `Runner.run_streamed` and the like; nobody asks about prompt and stop then, and a
  halt arrives as the cause of the SDK's `UserError`.
- Tools that run where the SDK has no say (hosted tools, shell, computer) cannot be guarded: `guard` refuses an agent
  that has some, unless they are named in `unguarded`. Handoffs are guarded; an agent that is a tool has to be guarded
  before it becomes one: `hookd.guard(agent).as_tool(…)`.
- A tool whose own `failure_error_function` turns an error into a text (the SDK's default) has a result: it is asked about
  as `PostToolUse`.
"""

from __future__ import annotations

import copy
import inspect
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from agents import (
    Agent,
    AgentsException,
    FunctionTool,
    GuardrailFunctionOutput,
    Handoff,
    InputGuardrail,
    InputGuardrailResult,
    InputGuardrailTripwireTriggered,
    Runner,
    RunState,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
)

from hookd._gate import Ask, Continue, Gate, Halt, Refuse, Run, Suspend
from hookd._json import Json
from hookd._request import ABSENT, Capability
from hookd._tools import AgentHalted
from hookd.adapters._common import (
    IN_A_LOOP,
    AnySession,
    Asker,
    OnDecision,
    beside,
    context,
    feedback,
    halted,
    natural,
    new_result,
    refusal,
    sendable,
    signed,
    text_of,
    took,
)

CAN = {**IN_A_LOOP, "PostToolUseFailure": (Capability.HALT,)}
"""What it can carry out: its tools answer errors themselves, or end the run."""

# Gates that wait for their call, which comes at once unless the run is cut there.
_WAITING = 1024


class HookdAgents:
    """Asks hookd in agents of the OpenAI Agents SDK."""

    def __init__(self, session: AnySession, *, unguarded: Iterable[str] = (), on_decision: OnDecision = None) -> None:
        """Asks in this session. `unguarded` names tools that may run without asking where they cannot be guarded;
        `on_decision` is given each decision."""
        self._asker = Asker(session, "openai-agents", CAN, on_decision)
        self._unguarded = frozenset(unguarded)
        self._gates: OrderedDict[tuple[str, str, str], Gate] = OrderedDict()

    async def run(self, agent: Agent[Any], input: Any, **options: Any) -> Any:
        """`Runner.run` with the guarded agent: asks about the prompt, and whether it may stop. `options` are
        `Runner.run`'s own."""
        agent = self.guard(agent)
        if not isinstance(input, RunState):
            input = await self._prompt(input)
        continued = False
        while True:
            try:
                result = await Runner.run(agent, input, **options)
            except AgentsException as error:
                # The SDK makes one of its own of what tools raise.
                if isinstance(error.__cause__, AgentHalted):
                    raise error.__cause__ from None
                raise
            if result.interruptions:
                return result
            payload = {"stop_hook_active": continued, "last_assistant_message": text_of(sendable(result.final_output))}
            gate = await self._asker.ask_async("Stop", payload)
            if isinstance(gate, Halt):
                raise halted(gate)
            if not isinstance(gate, Continue):
                return result
            message = {"role": "user", "content": signed(gate.reason, gate.decision, "go on")}
            kept = options.get("session") or options.get("conversation_id")
            if options.get("previous_response_id"):
                options["previous_response_id"] = result.last_response_id
                kept = True
            input = [message] if kept else [*result.to_input_list(), message]
            agent, continued = result.last_agent, True

    def guard(self, agent: Agent[Any]) -> Agent[Any]:
        """A copy of the agent whose tools ask, and of all agents that it can hand over to. Raises `TypeError` for tools
        that cannot be guarded and are not in `unguarded`."""
        return self._guard(agent, {})

    def _guard(self, agent: Agent[Any], done: dict[int, Agent[Any]]) -> Agent[Any]:
        if id(agent) in done:
            return done[id(agent)]
        if getattr(type(agent), "_hookd_guard", None) is self:
            return agent
        guarded = copy.copy(agent)
        done[id(agent)] = guarded
        guarded.__class__ = self._guarded_class(type(agent))
        guarded.tools = [self._tool(tool) for tool in agent.tools]
        guarded.handoffs = [
            self._handoff(one, done) if isinstance(one, Handoff) else self._guard(one, done) for one in agent.handoffs
        ]
        return guarded

    def _guarded_class(self, of: type[Agent[Any]]) -> type[Agent[Any]]:
        """The agent's class, whose tools of MCP servers ask too: those come with each turn."""
        guard = self._tool

        async def get_mcp_tools(this: Any, run_context: Any) -> list[Any]:
            return [guard(tool) for tool in await of.get_mcp_tools(this, run_context)]

        return type(of.__name__, (of,), {"get_mcp_tools": get_mcp_tools, "_hookd_guard": self})

    def _handoff(self, handoff: Handoff[Any, Any], done: dict[int, Agent[Any]]) -> Handoff[Any, Any]:
        guarded, invoke = copy.copy(handoff), handoff.on_invoke_handoff

        async def on_invoke_handoff(ctx: Any, arguments: str) -> Any:
            return self._guard(await invoke(ctx, arguments), done)

        guarded.on_invoke_handoff = on_invoke_handoff
        return guarded

    def _tool(self, tool: Any) -> Any:
        if not isinstance(tool, FunctionTool):
            name = str(getattr(tool, "name", type(tool).__name__))
            if name in self._unguarded:
                return tool
            raise TypeError(
                f"the tool {name} runs where hookd cannot be asked; leave it out, or name it in `unguarded`"
            )
        inner = getattr(tool, "_agent_instance", None)
        if inner is not None and getattr(type(inner), "_hookd_guard", None) is None:
            raise TypeError(f"the tool {tool.name} is an agent that nobody guards; make it of a guarded agent")
        guarded, own, invoke = copy.copy(tool), tool.needs_approval, tool.on_invoke_tool
        name = tool.name

        async def needs_approval(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
            gate = await self._asker.ask_async("PreToolUse", tool=name, params=params, tool_use_id=call_id)
            if isinstance(gate, (Ask, Suspend)):
                return True
            if isinstance(gate, Run) and not gate.approved and await _own_approval(own, ctx, params, call_id):
                return True
            self._keep((name, call_id, text_of(params)), gate)
            return False

        async def on_input(data: Any) -> ToolGuardrailFunctionOutput:
            ctx = data.context
            params = _params(ctx.tool_arguments)
            key = (name, ctx.tool_call_id, _text(params))
            gate = self._gates.pop(key, None)
            if gate is None:
                # A person has been asked, maybe in another process, or nobody could be.
                gate = await self._asker.ask_async("PreToolUse", tool=name, params=params, tool_use_id=ctx.tool_call_id)
            match gate:
                case Halt():
                    raise halted(gate)
                case Refuse() | Continue():
                    return ToolGuardrailFunctionOutput.reject_content(refusal(gate, name))
                case Ask() | Suspend():
                    if ctx.is_tool_approved(name, ctx.tool_call_id) is not True:
                        return ToolGuardrailFunctionOutput.reject_content(refusal(gate, name))
                case Run():
                    pass
            self._keep(key, gate)
            return ToolGuardrailFunctionOutput.allow()

        async def on_invoke_tool(ctx: Any, arguments: str) -> Any:
            params = _params(arguments)
            gate = self._gates.pop((name, ctx.tool_call_id, _text(params)), None)
            if gate is None:
                # Its answer served another call of the same id and arguments, or was pushed out: it is asked about again.
                gate = await self._asker.ask_async("PreToolUse", tool=name, params=params, tool_use_id=ctx.tool_call_id)
            match gate:
                case Halt():
                    raise halted(gate)
                case Refuse() | Continue():
                    return refusal(gate, name)
                case Ask() | Suspend() if ctx.is_tool_approved(name, ctx.tool_call_id) is not True:
                    return refusal(gate, name)
                case _:
                    pass
            if gate.params is not None:
                arguments, params = gate.params.text, gate.params
            return await self._invoke(invoke, name, ctx, arguments, params, context(gate))

        guarded.needs_approval = needs_approval
        guarded.tool_input_guardrails = [
            *(tool.tool_input_guardrails or ()),
            ToolInputGuardrail(guardrail_function=on_input, name="hookd"),
        ]
        guarded.on_invoke_tool = on_invoke_tool
        return guarded

    async def _invoke(
        self, invoke: Callable[..., Any], name: str, ctx: Any, arguments: str, params: Any, notes: list[str]
    ) -> Any:
        call = {"tool": name, "params": params, "tool_use_id": ctx.tool_call_id}
        begun = time.monotonic()
        try:
            result = await invoke(ctx, arguments)
        except Exception as error:
            said = text_of(str(error) or type(error).__name__)
            gate = await self._asker.ask_async("PostToolUseFailure", **call, error=said)
            if isinstance(gate, Halt):
                raise halted(gate) from error
            raise
        elapsed = took(time.monotonic() - begun)
        gate = await self._asker.ask_async("PostToolUse", **call, result=sendable(result), elapsed=elapsed)
        if isinstance(gate, Halt):
            raise halted(gate)
        value = new_result(gate)
        result = result if value is ABSENT else value
        notes = notes + feedback(gate, name)
        return beside(text_of(sendable(result)), notes) if notes else result

    def _keep(self, key: tuple[str, str, str], gate: Gate) -> None:
        self._gates[key] = gate
        if len(self._gates) > _WAITING:
            # Its call is asked about again, if it still comes.
            self._gates.popitem(last=False)

    async def _prompt(self, input: Any) -> Any:
        prompt = _last_prompt(input)
        if prompt is None:
            return input
        gate = await self._asker.ask_async("UserPromptSubmit", {"prompt": prompt})
        match gate:
            case Run():
                notes = context(gate)
                if not notes:
                    return input
                items = [{"role": "user", "content": input}] if isinstance(input, str) else list(input)
                return [*items, {"role": "user", "content": "\n\n".join(notes)}]
            case Halt():
                raise halted(gate)
            case _:
                why = signed(gate.reason, gate.decision, "the prompt was refused")
                guardrail: InputGuardrail[Any] = InputGuardrail(guardrail_function=_never, name="hookd")
                output = GuardrailFunctionOutput(output_info=why, tripwire_triggered=True)
                raise InputGuardrailTripwireTriggered(InputGuardrailResult(guardrail=guardrail, output=output))


def _never(*_: Any) -> GuardrailFunctionOutput:
    raise AssertionError("this guardrail only carries a name")


async def _own_approval(own: Any, ctx: Any, params: dict[str, Any], call_id: str) -> bool:
    answer = own(ctx, params, call_id) if callable(own) else own
    return bool(await answer) if inspect.isawaitable(answer) else bool(answer)


def _params(arguments: str) -> Json | str:
    """The model's arguments. Those that are no object are sent as they are: hookd says what is wrong with them."""
    if not arguments.strip():
        return Json("{}")
    try:
        return Json(arguments)
    except ValueError:
        return arguments


def _text(params: Json | str) -> str:
    """The arguments as the SDK gives them to an approval policy, as a text."""
    return text_of(natural(params)) if isinstance(params, Json) else params


def _last_prompt(input: Any) -> str | None:
    if isinstance(input, str):
        return input
    last = input[-1] if isinstance(input, list) and input else None
    if not isinstance(last, dict) or last.get("role") != "user":
        return None
    content = last.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)

"""Pydantic AI: a capability for an agent.

    agent = Agent(model, tools=tools, capabilities=[Hookd(client.session("s"))])

- A block is a failed tool return (`ToolFailed`); a refused prompt ends the run with an `AgentRunError`.
- A question and a suspension are `ApprovalRequired`, so the run ends with `DeferredToolRequests` (which the agent's
  `output_type` has to name, else the run fails) and goes on with `DeferredToolResults`; hookd is asked again then.
- A stop that may not be is a new message for the model. `run_stream` ends at the first final text, so it has to be let go
  there; `UsageLimits` is the bound elsewhere.
- It is the innermost capability: no other changes a call after hookd has judged it.
- Tools that the model's provider runs cannot be guarded. What a tool says by `ModelRetry` or `ToolFailed` is its own: hookd
  is not asked about it.
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai import DeferredToolRequests, ModelRequestNode
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import AgentRunError, ApprovalRequired, ToolFailed
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolReturn, UserPromptPart
from pydantic_graph import End

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
    sendable_params,
    signed,
    text_of,
    took,
)


@dataclass
class _Run:
    """What one run remembers."""

    continued: bool = False
    context: list[str] = field(default_factory=list)
    """For the model's next request."""
    notes: dict[str, list[str]] = field(default_factory=dict)
    """For the results of calls that run."""
    begun: dict[str, float] = field(default_factory=dict)


class Hookd(AbstractCapability[Any]):
    """Asks hookd in a Pydantic AI agent."""

    def __init__(self, session: AnySession, *, on_decision: OnDecision = None) -> None:
        """A capability that asks in this session; `on_decision` is given each decision."""
        self._asker = Asker(session, "pydantic-ai", IN_A_LOOP, on_decision)
        self._run = _Run()

    def get_ordering(self) -> CapabilityOrdering:
        """Inside of all others."""
        return CapabilityOrdering(position="innermost")

    async def for_run(self, ctx: Any) -> Hookd:
        """Each run remembers for itself."""
        mine = copy.copy(self)
        mine._run = _Run()
        return mine

    async def before_run(self, ctx: Any) -> None:
        """Asks about the prompt."""
        prompt = _prompt(ctx.prompt)
        if prompt is None:
            return
        gate = await self._asker.ask_async("UserPromptSubmit", {"prompt": prompt})
        match gate:
            case Run():
                self._run.context = context(gate)
            case Halt():
                raise halted(gate)
            case _:
                raise AgentRunError(signed(gate.reason, gate.decision, "the prompt was refused"))

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Gives the model what was said of the prompt."""
        notes, self._run.context = self._run.context, []
        if notes:
            ctx.enqueue("\n\n".join(notes))
        return request_context

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any]) -> dict[str, Any]:
        """Asks before a tool runs."""
        name, id = call.tool_name, call.tool_call_id
        gate: Gate = await self._asker.ask_async(
            "PreToolUse", tool=name, params=sendable_params(args), tool_use_id=id
        )
        match gate:
            case Run():
                pass
            case Ask() | Suspend():
                if not ctx.tool_call_approved:
                    why = signed(gate.reason, gate.decision, f"a person has to agree to the call of {name}")
                    raise ApprovalRequired(metadata={"reason": why})
            case Refuse() | Continue():
                raise ToolFailed(refusal(gate, name))
            case Halt():
                raise halted(gate)
        self._run.notes[id], self._run.begun[id] = context(gate), time.monotonic()
        return args if gate.params is None else rewritten(args, gate.params)

    async def after_tool_execute(
        self, ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any], result: Any
    ) -> Any:
        """Asks after a tool ran."""
        name, id = call.tool_name, call.tool_call_id
        elapsed = took(time.monotonic() - self._run.begun.pop(id, time.monotonic()))
        shown = result.return_value if isinstance(result, ToolReturn) else result
        gate = await self._asker.ask_async(
            "PostToolUse",
            tool=name,
            params=sendable_params(args),
            result=sendable(shown),
            tool_use_id=id,
            elapsed=elapsed,
        )
        if isinstance(gate, Halt):
            raise halted(gate)
        value, notes = new_result(gate), self._run.notes.pop(id, []) + feedback(gate, name)
        if value is not ABSENT:
            # Whatever the tool gave beside its result goes, too.
            result = shown = value
        if not notes:
            return result
        text = beside(text_of(sendable(shown)), notes)
        return replace(result, return_value=text) if isinstance(result, ToolReturn) else text

    async def on_tool_execute_error(
        self, ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any], error: Exception
    ) -> Any:
        """Asks after a tool failed. Where there is something to say, the model gets it with the error, and the run goes
        on."""
        name, id = call.tool_name, call.tool_call_id
        elapsed = took(time.monotonic() - self._run.begun.pop(id, time.monotonic()))
        said = text_of(str(error) or type(error).__name__)
        gate = await self._asker.ask_async(
            "PostToolUseFailure",
            tool=name,
            params=sendable_params(args),
            error=said,
            tool_use_id=id,
            elapsed=elapsed,
        )
        if isinstance(gate, Halt):
            raise halted(gate) from error
        notes = self._run.notes.pop(id, []) + feedback(gate, name)
        if notes:
            raise ToolFailed(beside(said, notes)) from error
        raise error

    async def after_node_run(self, ctx: Any, *, node: Any, result: Any) -> Any:
        """Asks whether the agent may stop."""
        if not isinstance(result, End) or _waits(result):
            return result
        payload: dict[str, Any] = {"stop_hook_active": self._run.continued}
        last = ctx.messages[-1] if ctx.messages else None
        if isinstance(last, ModelResponse):
            payload["last_assistant_message"] = last.text or ""
        gate = await self._asker.ask_async("Stop", payload)
        if isinstance(gate, Halt):
            raise halted(gate)
        if not isinstance(gate, Continue):
            return result
        self._run.continued = True
        why = signed(gate.reason, gate.decision, "go on")
        return ModelRequestNode(request=ModelRequest(parts=[UserPromptPart(content=why)]))


def _waits(result: Any) -> bool:
    """Whether the run ends only because calls wait for someone."""
    return isinstance(getattr(result.data, "output", None), DeferredToolRequests)


def _prompt(prompt: Any) -> str | None:
    if prompt is None or isinstance(prompt, str):
        return prompt
    return "\n".join(part for part in prompt if isinstance(part, str))

"""CrewAI: hooks for all crews of the process, for as long as the `with` statement.

    with HookdCrews(client.session("s")):
        crew.kickoff()

CrewAI calls hooks from threads and swallows all that they raise but its own `HookAborted`, so whatever goes wrong in here
becomes one; the session has to be a `Client`'s.

- A block is the tool's result. A refused prompt (a task's description, with what was filled into it) ends the kickoff with
  `HookAborted`.
- A question is answered by `on_ask`, such as `lambda why, call: call.request_human_input(why) == "yes"`; without it hookd
  is told that nobody can be asked.
- A halt before a tool keeps it from running, one after it keeps back its result, and either ends the kickoff with
  `HookAborted` before the model is asked again.
- CrewAI cannot be made to go on at its end, and hookd is told so.
- It has no place for the failure of a tool: its text comes as a result.
- CrewAI drops parameters that are given to a call without any: such a rewrite blocks.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from crewai.hooks.dispatch import HookAborted, InterceptionPoint, register, unregister

from hookd._gate import Ask, Continue, Gate, Halt, Refuse, Run, Suspend
from hookd._request import ABSENT, Capability
from hookd._session import Session
from hookd.adapters._common import (
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

CAN = {
    "PreToolUse": (
        Capability.BLOCK,
        Capability.MODIFY_PARAMS,
        Capability.ADDITIONAL_CONTEXT,
        Capability.HALT,
    ),
    "PostToolUse": (
        Capability.BLOCK,
        Capability.MODIFY_RESULT,
        Capability.ADDITIONAL_CONTEXT,
        Capability.HALT,
    ),
    "UserPromptSubmit": (Capability.BLOCK, Capability.ADDITIONAL_CONTEXT, Capability.HALT),
    "Stop": (),
}
"""What it can carry out on each event; with `on_ask` also a question before a tool."""

# Calls that are remembered at most; one is forgotten when its result comes.
_RUNNING = 1024


@dataclass
class _Call:
    """A tool call between the two hooks."""

    input: dict[str, Any]
    """CrewAI gives the same object to both."""
    refused: str | None = None
    notes: list[str] = field(default_factory=list)
    begun: float = 0.0


class HookdCrews:
    """Asks hookd in CrewAI."""

    def __init__(
        self,
        session: Session,
        *,
        on_ask: Callable[[str, Any], bool] | None = None,
        on_decision: OnDecision = None,
    ) -> None:
        """Hooks that ask in this session, not registered yet. `on_ask` is given the question and CrewAI's context of the
        call, and says whether a person agrees; `on_decision` is given each decision.

        Raises `TypeError` for the session of an `AsyncClient`.
        """
        can = CAN if on_ask is None else {**CAN, "PreToolUse": (Capability.ASK, *CAN["PreToolUse"])}
        self._asker = Asker(session, "crewai", can, on_decision, threads=True)
        self._on_ask = on_ask
        self._lock = threading.Lock()
        self._calls: OrderedDict[int, _Call] = OrderedDict()
        self._halted: str | None = None
        self._hooks: list[tuple[InterceptionPoint, Callable[[Any], Any]]] = [
            (InterceptionPoint.PRE_STEP, _closed(self._before_task)),
            (InterceptionPoint.PRE_MODEL_CALL, _closed(self._before_model)),
            (InterceptionPoint.PRE_TOOL_CALL, _closed(self._before_tool)),
            (InterceptionPoint.POST_TOOL_CALL, self._after_tool),
            (InterceptionPoint.OUTPUT, self._stop),
        ]

    def register(self) -> None:
        """Registers the hooks for all crews of this process."""
        for point, hook in self._hooks:
            register(point, hook)

    def unregister(self) -> None:
        """Takes them away again."""
        for point, hook in self._hooks:
            unregister(point, hook)

    def __enter__(self) -> HookdCrews:
        self.register()
        return self

    def __exit__(self, *_: object) -> None:
        self.unregister()

    def _before_task(self, ctx: Any) -> None:
        if getattr(ctx, "kind", None) != "task":
            return
        gate = self._asker.ask("UserPromptSubmit", {"prompt": str(getattr(ctx.task, "description", ""))})
        match gate:
            case Run():
                notes = context(gate)
                if notes:
                    ctx.payload = beside(ctx.payload or "", notes)
            case Halt():
                raise HookAborted(halted(gate).reason, "hookd")
            case _:
                raise HookAborted(signed(gate.reason, gate.decision, "the prompt was refused"), "hookd")

    def _before_model(self, _: Any) -> None:
        if self._halted is not None:
            raise HookAborted(self._halted, "hookd")

    def _before_tool(self, ctx: Any) -> None:
        call = _Call(ctx.tool_input)
        with self._lock:
            self._calls[id(call.input)] = call
            if len(self._calls) > _RUNNING:
                self._calls.popitem(last=False)
        try:
            self._judge(ctx, call)
        except HookAborted as aborted:
            call.refused = aborted.reason
            raise
        except Exception as error:
            call.refused = f"hookd could not be asked: {error}"
            raise
        call.begun = time.monotonic()

    def _judge(self, ctx: Any, call: _Call) -> None:
        name = ctx.tool_name
        gate: Gate = self._asker.ask("PreToolUse", tool=name, params=sendable_params(ctx.tool_input))
        match gate:
            case Run():
                pass
            case Ask() if self._on_ask is not None:
                why = signed(gate.reason, gate.decision, f"a person has to agree to the call of {name}")
                if self._on_ask(why, ctx) is not True:
                    raise HookAborted(signed("", gate.decision, f"nobody agreed to the call of {name}"), "hookd")
            case Ask() | Suspend() | Refuse() | Continue():
                raise HookAborted(refusal(gate, name), "hookd")
            case Halt():
                self._halted = halted(gate).reason
                raise HookAborted(self._halted, "hookd")
        if gate.params is not None:
            changed = rewritten(ctx.tool_input, gate.params)
            if changed and not ctx.tool_input:
                why = f"the call of {name} has no parameters, and CrewAI drops those that are given to it"
                raise HookAborted(signed(why, gate.decision, why), "hookd")
            ctx.tool_input.clear()
            ctx.tool_input.update(changed)
        call.notes = context(gate)

    def _after_tool(self, ctx: Any) -> str | None:
        with self._lock:
            call = self._calls.pop(id(ctx.tool_input), None)
        if call is None or call.input is not ctx.tool_input:
            return None
        if call.refused is not None:
            # CrewAI itself says no more than that there was a hook.
            return call.refused
        try:
            return self._judge_result(ctx, call)
        except Exception as error:
            # CrewAI would swallow it, and show what may not be shown.
            return f"the result is not shown: hookd could not be asked: {error}"

    def _judge_result(self, ctx: Any, call: _Call) -> str | None:
        gate = self._asker.ask(
            "PostToolUse",
            tool=ctx.tool_name,
            params=sendable_params(ctx.tool_input),
            result=sendable(ctx.tool_result),
            elapsed=took(time.monotonic() - call.begun),
        )
        if isinstance(gate, Halt):
            self._halted = halted(gate).reason
            return f"the result is not shown: {self._halted}"
        value, notes = new_result(gate), call.notes + feedback(gate, ctx.tool_name)
        if value is ABSENT and not notes:
            return None
        return beside(text_of(sendable(ctx.tool_result) if value is ABSENT else value), notes)

    def _stop(self, ctx: Any) -> None:
        if getattr(ctx, "crew", None) is not None:
            last = sendable(str(ctx.payload))
            self._asker.ask("Stop", {"stop_hook_active": False, "last_assistant_message": last})


def _closed(hook: Callable[[Any], None]) -> Callable[[Any], None]:
    """A hook that aborts where it fails."""

    def closed(ctx: Any) -> None:
        try:
            hook(ctx)
        except HookAborted:
            raise
        except Exception as error:
            raise HookAborted(f"hookd could not be asked: {error}", "hookd") from error

    return closed

"""Google ADK: a plugin for the runner, which covers all of its agents.

    hookd = HookdPlugin(client.session("s"))
    runner = InMemoryRunner(agent, plugins=[hookd])
    async for event in hookd.run_async(runner, user_id="u", session_id="s", new_message=message): ...

- A block is the tool's response, `{"error": reason}`; a refused prompt is replaced in the session, and the reason is the
  agent's answer.
- A question and a suspension are ADK's own tool confirmation (`adk_request_confirmation`); hookd is asked again when it is
  answered.
- A stop that may not be is a new message for the agent: `run_async` asks about it. `Runner.run_async` itself has no place
  for that, so nobody asks about the stop there.
- A halt raises, which ADK turns into a `RuntimeError` with `AgentHalted` as its cause; `run_async` raises `AgentHalted`.
- What is said beside a result stands in it under `hookd`.
- Put it last among the plugins: then no other changes a call after hookd has judged it. ADK asks no plugin after one that
  answers a tool call itself; the tool does not run then.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types

from hookd._gate import Ask, Continue, Gate, Halt, Refuse, Run, Suspend
from hookd._request import ABSENT
from hookd._tools import AgentHalted
from hookd.adapters._common import (
    IN_A_LOOP,
    AnySession,
    Asker,
    OnDecision,
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
class _Call:
    """A tool call that runs."""

    begun: float
    notes: list[str] = field(default_factory=list)


class HookdPlugin(BasePlugin):
    """Asks hookd in all agents of a runner."""

    def __init__(self, session: AnySession, *, name: str = "hookd", on_decision: OnDecision = None) -> None:
        """A plugin that asks in this session; `on_decision` is given each decision."""
        super().__init__(name=name)
        self._asker = Asker(session, "google-adk", IN_A_LOOP, on_decision)
        self._running: dict[tuple[str, str], _Call] = {}
        self._refused: dict[str, str] = {}
        self._go_on: set[str] = set()

    async def run_async(
        self, runner: Any, *, user_id: str, session_id: str, new_message: Any, **options: Any
    ) -> AsyncIterator[Any]:
        """`Runner.run_async` of a runner with this plugin, which also asks whether the agent may stop, and goes on where
        it may not."""
        continued = False
        while True:
            last, waits = "", False
            try:
                async for event in runner.run_async(
                    user_id=user_id, session_id=session_id, new_message=new_message, **options
                ):
                    waits = bool(event.long_running_tool_ids)
                    if event.is_final_response():
                        last = _text(event.content) or last
                    refused = event.invocation_id in self._refused
                    if refused:
                        del self._refused[event.invocation_id]
                    waits = waits or refused
                    yield event
            except RuntimeError as error:
                # What ADK makes of anything that a plugin raises.
                if isinstance(error.__cause__, AgentHalted):
                    raise error.__cause__ from None
                raise
            if waits:
                return
            payload = {"stop_hook_active": continued, "last_assistant_message": last}
            gate = await self._asker.ask_async("Stop", payload)
            if isinstance(gate, Halt):
                raise halted(gate)
            if not isinstance(gate, Continue):
                return
            continued = True
            why = signed(gate.reason, gate.decision, "go on")
            self._go_on.add(why)
            new_message = types.Content(role="user", parts=[types.Part(text=why)])

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> Any:
        """Asks about the prompt."""
        prompt = _text(user_message)
        parts = list(user_message.parts or ())
        if prompt in self._go_on:
            # It is hookd's own.
            self._go_on.remove(prompt)
            return None
        if not prompt:
            return None
        gate = await self._asker.ask_async("UserPromptSubmit", {"prompt": prompt})
        match gate:
            case Run():
                notes = [types.Part(text=note) for note in context(gate)]
                return types.Content(role=user_message.role, parts=[*parts, *notes]) if notes else None
            case Halt():
                raise halted(gate)
            case _:
                why = signed(gate.reason, gate.decision, "the prompt was refused")
                self._refused[invocation_context.invocation_id] = why
                return types.Content(role=user_message.role, parts=[types.Part(text="(a prompt that was refused)")])

    async def before_run_callback(self, *, invocation_context: Any) -> Any:
        """Ends the run of a prompt that was refused."""
        why = self._refused.get(invocation_context.invocation_id)
        return None if why is None else types.Content(role="model", parts=[types.Part(text=why)])

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """Forgets the run."""
        self._refused.pop(invocation_context.invocation_id, None)
        for key in [key for key in self._running if key[0] == invocation_context.invocation_id]:
            del self._running[key]

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> Any:
        """Asks before a tool runs."""
        gate: Gate = await self._asker.ask_async("PreToolUse", **_about(tool, tool_args, tool_context))
        match gate:
            case Run():
                pass
            case Ask() | Suspend():
                answer = tool_context.tool_confirmation
                if answer is None:
                    why = signed(gate.reason, gate.decision, f"a person has to agree to the call of {tool.name}")
                    tool_context.request_confirmation(hint=why)
                    tool_context.actions.skip_summarization = True
                    return {"error": why}
                if answer.confirmed is not True:
                    return {"error": signed("", gate.decision, f"nobody agreed to the call of {tool.name}")}
            case Refuse() | Continue():
                return {"error": refusal(gate, tool.name)}
            case Halt():
                raise halted(gate)
        if gate.params is not None:
            changed = rewritten(tool_args, gate.params)
            tool_args.clear()
            tool_args.update(changed)
        self._running[_key(tool_context)] = _Call(time.monotonic(), context(gate))
        return None

    async def after_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, result: Any) -> Any:
        """Asks after a tool ran."""
        call = self._running.pop(_key(tool_context), None)
        if call is None or tool_context.actions.requested_tool_confirmations:
            # It did not run: someone answered in its place, or it waits for a person itself.
            return None
        about = _about(tool, tool_args, tool_context)
        elapsed = took(time.monotonic() - call.begun)
        gate = await self._asker.ask_async("PostToolUse", **about, result=sendable(result), elapsed=elapsed)
        if isinstance(gate, Halt):
            raise halted(gate)
        value, notes = new_result(gate), call.notes + feedback(gate, tool.name)
        if value is ABSENT and not notes:
            return None
        shown = result if value is ABSENT else value
        response = dict(shown) if isinstance(shown, dict) else {"result": shown}
        return {**response, "hookd": "\n\n".join(notes)} if notes else response

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, error: BaseException
    ) -> Any:
        """Asks after a tool failed. Where there is something to say, the model gets it with the error, and the run goes
        on."""
        call = self._running.pop(_key(tool_context), None)
        if call is None or not isinstance(error, Exception):
            return None
        said = text_of(str(error) or type(error).__name__)
        gate = await self._asker.ask_async(
            "PostToolUseFailure", **_about(tool, tool_args, tool_context), error=said
        )
        if isinstance(gate, Halt):
            raise halted(gate) from error
        notes = call.notes + feedback(gate, tool.name)
        return {"error": said, "hookd": "\n\n".join(notes)} if notes else None


def _about(tool: Any, args: dict[str, Any], tool_context: Any) -> dict[str, Any]:
    return {"tool": tool.name, "params": sendable_params(args), "tool_use_id": tool_context.function_call_id or ""}


def _key(tool_context: Any) -> tuple[str, str]:
    return tool_context.invocation_id, tool_context.function_call_id or ""


def _text(content: Any) -> str:
    parts = (content.parts or ()) if content is not None else ()
    return "\n".join(part.text for part in parts if part.text and not part.thought)

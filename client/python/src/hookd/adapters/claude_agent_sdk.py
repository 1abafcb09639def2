"""Claude Agent SDK: hooks for its options.

    options = ClaudeAgentOptions(hooks=hookd_hooks(client.session("s")))

Beside the hooks of settings files, in which `hookctl install` puts the same: take one of the two.

- Events and fields are hookd's own; what Claude Code says of itself (directory, transcript, permission mode, subagent) goes
  with each event, unless the session says it. A session without an id takes Claude Code's.
- A question before a tool goes to the options' `can_use_tool`; without it Claude Code denies the call.
- A suspension cannot be carried out and is downgraded by hookd: Claude Code puts calls aside only in turns of one call.
- A stop that may not be goes on with the reason as the next instruction.
- A halt ends Claude Code's turn: the stream of messages ends with its result.
- A text that replaces a result of another shape is put into that shape: Claude Code ignores what does not fit.
- A hook that fails blocks (`on_failure`), which Claude Code can from 2.1.317 on.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from claude_agent_sdk import HookMatcher

from hookd import v1
from hookd._gate import Ask, Continue, Gate, Halt, Refuse, Run, Suspend
from hookd._request import ABSENT, Capability
from hookd.adapters._common import (
    AnySession,
    Asker,
    OnDecision,
    context,
    halted,
    in_shape_of,
    new_result,
    rewritten,
    sendable,
    sendable_params,
    signed,
)

CAN = {
    "PreToolUse": (
        Capability.ASK,
        Capability.BLOCK,
        Capability.MODIFY_PARAMS,
        Capability.ADDITIONAL_CONTEXT,
        Capability.HALT,
    ),
    "PermissionRequest": (Capability.ASK, Capability.BLOCK, Capability.MODIFY_PARAMS, Capability.HALT),
    "PostToolUse": (
        Capability.BLOCK,
        Capability.MODIFY_RESULT,
        Capability.ADDITIONAL_CONTEXT,
        Capability.HALT,
    ),
    "PostToolUseFailure": (Capability.BLOCK, Capability.ADDITIONAL_CONTEXT, Capability.HALT),
    "UserPromptSubmit": (Capability.BLOCK, Capability.ADDITIONAL_CONTEXT, Capability.HALT),
    "Stop": (Capability.FORCE_CONTINUE, Capability.HALT),
    "SubagentStart": (Capability.ADDITIONAL_CONTEXT,),
    "SubagentStop": (Capability.FORCE_CONTINUE, Capability.HALT),
    "PreCompact": (Capability.BLOCK,),
    "Notification": (),
}
"""What it can carry out on each event; all of the SDK's events."""

# The client's deadline ends the call before. Claude Code would show the result whose hook takes longer.
_TIMEOUT = 600.0

# What has a field of its own in the request. The rest is payload.
_FIELDS = {
    "hook_event_name",
    "session_id",
    "transcript_path",
    "cwd",
    "permission_mode",
    "agent_id",
    "agent_type",
    "tool_name",
    "tool_input",
    "tool_response",
    "tool_use_id",
    "error",
    "duration_ms",
}


def hookd_hooks(session: AnySession, *, on_decision: OnDecision = None) -> dict[Any, list[HookMatcher]]:
    """`ClaudeAgentOptions.hooks` that ask in this session about all events of the SDK; `on_decision` is given each
    decision."""
    asker = Asker(session, "claude-agent-sdk", CAN, on_decision)

    async def hook(input: Any, tool_use_id: str | None, _: Any) -> Any:
        gate = await asker.ask_async(input["hook_event_name"], _payload(input), **_call(input, tool_use_id))
        return _answer(input, gate)

    return {event: [HookMatcher(hooks=[hook], timeout=_TIMEOUT, on_failure="block")] for event in CAN}


def _payload(input: Any) -> dict[str, Any]:
    return {key: sendable(value) for key, value in input.items() if key not in _FIELDS}


def _call(input: Any, tool_use_id: str | None) -> dict[str, Any]:
    def amend(request: v1.TriggerRequest) -> None:
        for name in ("session_id", "transcript_path", "cwd", "permission_mode"):
            if not getattr(request, name):
                setattr(request, name, input.get(name) or "")
        request.caller.agent_id = request.caller.agent_id or input.get("agent_id") or ""
        request.caller.agent_type = request.caller.agent_type or input.get("agent_type") or ""

    call: dict[str, Any] = {"amend": amend}
    if "tool_name" not in input:
        return call
    call |= {
        "tool": input["tool_name"],
        "params": sendable_params(input["tool_input"]),
        "tool_use_id": input.get("tool_use_id") or tool_use_id or "",
    }
    if "tool_response" in input:
        call["result"] = sendable(input["tool_response"])
    if "error" in input:
        call["error"] = sendable(input["error"])
    if "duration_ms" in input:
        call["elapsed"] = timedelta(milliseconds=input["duration_ms"])
    return call


def _answer(input: Any, gate: Gate) -> dict[str, Any]:
    event = input["hook_event_name"]
    answer: dict[str, Any] = {}
    specific: dict[str, Any] = {}
    messages = [note.text for note in gate.decision.system_messages]
    if messages:
        answer["systemMessage"] = "\n\n".join(messages)
    if isinstance(gate, Halt):
        answer |= {"continue_": False, "stopReason": halted(gate).reason}
    if event == "PreToolUse":
        specific = _permission(input, gate)
    elif event == "PermissionRequest":
        specific = _permission_request(input, gate)
    elif not isinstance(gate, (Run, Halt)):
        answer |= {"decision": "block", "reason": signed(gate.reason, gate.decision, f"{event} was blocked")}
    if event == "PostToolUse":
        value = new_result(gate)
        if value is not ABSENT:
            original = input.get("tool_response")
            misfit = isinstance(value, str) and not isinstance(original, str)
            specific["updatedToolOutput"] = in_shape_of(original, value) if misfit else value
    notes = context(gate)
    if notes:
        specific["additionalContext"] = "\n\n".join(notes)
    if specific:
        answer["hookSpecificOutput"] = {"hookEventName": event, **specific}
    return answer


def _permission(input: Any, gate: Gate) -> dict[str, Any]:
    decision: str | None = None
    match gate:
        case Run():
            decision = "allow" if gate.approved else None
        case Ask():
            decision = "ask"
        case Suspend() | Refuse() | Continue() | Halt():
            decision = "deny"
    specific: dict[str, Any] = {}
    if decision is not None:
        specific["permissionDecision"] = decision
    if not isinstance(gate, Run):
        otherwise = f"the call of {input['tool_name']} was {'asked about' if decision == 'ask' else 'refused'}"
        specific["permissionDecisionReason"] = signed(gate.reason, gate.decision, otherwise)
    if isinstance(gate, (Run, Ask)) and gate.params is not None:
        specific["updatedInput"] = rewritten(input["tool_input"], gate.params)
    return specific


def _permission_request(input: Any, gate: Gate) -> dict[str, Any]:
    """No decision is Claude Code's own question. It runs rewritten parameters only where it is told to allow them."""
    if isinstance(gate, (Run, Ask)) and gate.params is not None and not (isinstance(gate, Run) and gate.approved):
        why = "the call was rewritten, and this agent runs a rewritten call only where it is allowed"
        return {"decision": {"behavior": "deny", "message": signed(why, gate.decision, why)}}
    match gate:
        case Run():
            if not gate.approved:
                return {}
            allow: dict[str, Any] = {"behavior": "allow"}
            if gate.params is not None:
                allow["updatedInput"] = rewritten(input["tool_input"], gate.params)
            return {"decision": allow}
        case Ask():
            return {}
        case _:
            message = signed(gate.reason, gate.decision, f"the call of {input['tool_name']} was refused")
            deny: dict[str, Any] = {"behavior": "deny", "message": message}
            if isinstance(gate, Halt):
                deny["interrupt"] = True
            return {"decision": deny}

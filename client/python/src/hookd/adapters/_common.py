"""What the adapters share: asking with what the framework can carry out, and texts and values for models and tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from hookd import v1
from hookd._async_session import AsyncSession
from hookd._call_error import CallError
from hookd._gate import Decision, Gate, Run
from hookd._json import Json, to_text
from hookd._request import ABSENT, Capability, Params, new_request
from hookd._session import Session
from hookd._tools import AgentHalted
from hookd.v1 import hook_service_pb2 as pb

AnySession: TypeAlias = "Session | AsyncSession"
"""A session of either client."""

OnDecision: TypeAlias = "Callable[[Decision], object] | None"
"""Is given each decision, for its texts for the person, its results and what was downgraded."""

IN_A_LOOP = {
    "PreToolUse": (
        Capability.ASK,
        Capability.DEFER,
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
    "PostToolUseFailure": (Capability.BLOCK, Capability.ADDITIONAL_CONTEXT, Capability.HALT),
    "UserPromptSubmit": (Capability.BLOCK, Capability.ADDITIONAL_CONTEXT, Capability.HALT),
    "Stop": (Capability.FORCE_CONTINUE, Capability.HALT),
}
"""What a loop can carry out on each event whose tools and messages an adapter has in its hands."""


class Asker:
    """Asks for a framework: each event goes with what the framework can carry out on it, and no more than the session
    says of itself."""

    def __init__(
        self,
        session: AnySession,
        agent: str,
        can: Mapping[str, Iterable[Capability]],
        on_decision: OnDecision,
        *,
        threads: bool = False,
    ) -> None:
        """`agent` is what the caller calls itself, unless the session says so; `can` has a row for each event.

        Raises `TypeError` for the session of an `AsyncClient` where `threads` says that the framework cannot wait for
        it.
        """
        if threads and isinstance(session, AsyncSession):
            raise TypeError(f"{agent} calls hooks from threads: it needs the session of a `Client`")
        self.session = session
        self._agent = agent
        self._can = can
        self._on_decision = on_decision

    def ask(self, event: str, payload: Params | None = None, **call: Any) -> Gate:
        """Asks and waits, on this thread. `call` is as for `Session.trigger`; `amend` changes the request that goes.
        Raises `TypeError` for the session of an `AsyncClient`."""
        if isinstance(self.session, AsyncSession):
            raise TypeError("this run is not on asyncio: it needs the session of a `Client`")
        return self._told(self._ask(self.session, event, payload, call))

    async def ask_async(self, event: str, payload: Params | None = None, **call: Any) -> Gate:
        """Asks without holding up the loop."""
        session = self.session
        if isinstance(session, AsyncSession):
            request = self._request(event, payload, call)
            if isinstance(request, CallError):
                return self._told(session._client.gate_of_error(event, call.get("tool"), request))
            return self._told(await session._client.trigger(request, commands=session._commands))
        return self._told(await asyncio.to_thread(self._ask, session, event, payload, call))

    def _ask(self, session: Session, event: str, payload: Params | None, call: dict[str, Any]) -> Gate:
        request = self._request(event, payload, call)
        if isinstance(request, CallError):
            return session._client.gate_of_error(event, call.get("tool"), request)
        return session._client.trigger(request, commands=session._commands)

    def _request(self, event: str, payload: Params | None, call: dict[str, Any]) -> v1.TriggerRequest | CallError:
        template = self.session.template
        amend: Callable[[v1.TriggerRequest], None] | None = call.pop("amend", None)
        request = new_request(template, event, payload, **call)
        if isinstance(request, CallError):
            return request
        own = set(map(int, template.capabilities.supported)) if template.HasField("capabilities") else None
        can = [capability for capability in self._can.get(event, ()) if own is None or int(capability) in own]
        request.capabilities.SetInParent()
        del request.capabilities.supported[:]
        request.capabilities.supported.extend(pb.Capability.ValueType(number) for number in can)
        if not request.caller.agent:
            request.caller.agent = self._agent
        if amend is not None:
            amend(request)
        return request

    def _told(self, gate: Gate) -> Gate:
        if self._on_decision is not None:
            self._on_decision(gate.decision)
        return gate


def signed(reason: str, decision: Decision, otherwise: str) -> str:
    """`reason (rule, decision id)`, as far as they are known; `otherwise` where there is no reason."""
    answer = decision.answer
    rule = ""
    if answer is not None and answer.HasField("decided_by"):
        rule = answer.decided_by.rule_id
    elif answer is not None and answer.rewrites:
        # Nothing gave a verdict: a block can only be about the rewrite.
        rule = answer.rewrites[-1].rule_id
    marks = ", ".join(mark for mark in (rule, decision.id or "") if mark)
    return f"{reason.strip() or otherwise} ({marks})" if marks else reason.strip() or otherwise


def refusal(gate: Gate, tool: str) -> str:
    """What the model is told of a call that does not run."""
    reason = "" if isinstance(gate, Run) else gate.reason
    return signed(reason, gate.decision, f"the call of {tool} was refused")


def halted(gate: Gate) -> AgentHalted:
    """What ends the run."""
    reason = "" if isinstance(gate, Run) else gate.reason
    return AgentHalted(gate, signed(reason, gate.decision, "the agent has to stop"))


def context(gate: Gate) -> list[str]:
    """Texts for the model."""
    return [note.text for note in gate.decision.additional_context]


def feedback(gate: Gate, tool: str) -> list[str]:
    """What the model is told beside a result, in order: why it was blocked after the fact, and the context."""
    reason = getattr(gate, "reason", "")
    blocked = [] if isinstance(gate, Run) else [signed(reason, gate.decision, f"the result of {tool} was refused")]
    return blocked + context(gate)


def new_result(gate: Gate) -> Any:
    """The result to show in the place of the one that was sent, as frameworks have it; `ABSENT`: that one stays."""
    result: Json | None = getattr(gate, "result", None)
    return ABSENT if result is None else natural(result)


def in_shape_of(original: Any, text: str) -> Any:
    """A result in the shape of `original` that shows `text` in its first string and nothing in the others, for agents
    that ignore a result of another shape, and would show the original. Values of `type`, by which such shapes tell their
    variants, stay."""
    left = [text]

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            return left.pop() if left else ""
        if isinstance(value, list):
            return [fill(item) for item in value]
        if isinstance(value, dict):
            return {key: item if key == "type" else fill(item) for key, item in value.items()}
        return value

    shaped = fill(original)
    return text if left else shaped


def text_of(value: object) -> str:
    """A result as a text for a model."""
    if isinstance(value, str):
        return value
    try:
        return to_text(value)
    except ValueError:
        return str(value)


def beside(text: str, notes: Iterable[str]) -> str:
    """`text` with notes after it."""
    return "\n\n".join(part for part in (text, *notes) if part)


def natural(value: Json) -> Any:
    """The value as a framework would have read it from its model: a number with a fraction is a `float`, unless that
    would cost it digits (then a `Decimal`)."""
    return json.loads(value.text, parse_float=_fraction)


def rewritten(sent: Mapping[str, Any], modified: Json) -> dict[str, Any]:
    """Parameters in the place of those that were sent; those that stay the same keep their own objects."""
    return {
        name: sent[name] if name in sent and _same(sent[name], value) else value
        for name, value in natural(modified).items()
    }


def sendable(value: object) -> Any:
    """A result in a form that JSON has: models by their own dump, and what has no form as its text."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        value = dump(mode="json")
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    try:
        return Json.of(value)
    except ValueError:
        return str(value).encode("utf-8", "replace").decode()


def sendable_params(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Parameters in a form that JSON has."""
    return {str(name): sendable(value) for name, value in params.items()}


def took(seconds: float) -> timedelta:
    """How long a tool ran."""
    return timedelta(seconds=max(seconds, 0.0))


def _same(sent: Any, value: Any) -> bool:
    try:
        return to_text(sendable(sent)) == to_text(value)
    except ValueError:
        return False


def _fraction(digits: str) -> float | Decimal:
    exact = Decimal(digits)
    near = float(digits)
    return near if near - near == 0 and Decimal(repr(near)) == exact else exact

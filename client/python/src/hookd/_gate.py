"""What an agent does with an answer, or without one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, Literal, NoReturn, TypeAlias, Union

from hookd import v1
from hookd._call_error import CallError, not_understood
from hookd._event import Block
from hookd._json import Json, to_text
from hookd.v1 import hook_service_pb2 as pb


@dataclass(frozen=True)
class OnUnavailable:
    """What happens where hookd cannot be asked: nobody answers, or not in time, or hookd has a fault of its own or too
    many calls (`CallErrorKind.is_unavailable`). There is no default on purpose. On Stop-like events the agent may always
    stop.

    One of `OnUnavailable.BLOCK`, `OnUnavailable.block_except(…)` and `OnUnavailable.ALLOW`.
    """

    _blocks: bool
    _except: frozenset[str] = frozenset()

    BLOCK: ClassVar[OnUnavailable]
    """Block where the event can block."""
    ALLOW: ClassVar[OnUnavailable]
    """Go on unapproved, as if there were no hookd."""

    @staticmethod
    def block_except(*tools: str) -> OnUnavailable:
        """As `BLOCK`, but events of these tools (exact names) go on unapproved: an agent that can still read is not
        lost. Events without a tool block."""
        return OnUnavailable(True, frozenset(tools))

    def blocks(self, tool: str | None) -> bool:
        """Whether it blocks events about `tool`, `None` for events that are about none."""
        return self._blocks and (tool is None or tool not in self._except)


OnUnavailable.BLOCK = OnUnavailable(True)
OnUnavailable.ALLOW = OnUnavailable(False)


@dataclass(frozen=True)
class HookResult:
    """What one rule gave."""

    rule_id: str
    """The rule's id: unique within its tier and source."""
    tier: int
    """The rule's tier, a number of `hookd.v1`."""
    source: str
    """The file that the rule stands in."""
    ok: bool
    """The handler ran and gave something usable (no opinion included), or was queued."""
    outcome: int
    """What it gave, a number of `hookd.v1`. For a shadow rule: what it would have given."""
    failure: int
    """Why it failed, a number of `hookd.v1`; 0 where it did not."""
    output: str | None
    """Its output as text. `None`: there was none, or it was left out."""
    error: str | None
    """What went wrong, for a person. `None`: nothing."""
    reason: str | None
    """The reason that it gave, or what was dropped from its answer. `None`: there was none."""
    blocked: bool
    """It blocked."""
    block_reason: str | None
    """Why it blocked. `None`: it did not."""
    modified_params: str | None
    """The parameters that it gave, the text of a JSON object. `None`: there were none, or they were left out."""
    modified_result: str | None
    """The result that it gave, a JSON text. `None`: there was none, or it was left out."""
    elapsed: timedelta | None
    """How long the handler ran. `None`: it was not started."""
    exit_code: int | None
    """Exit code of the program. `None`: it did not exit, or there was none."""
    signal: int | None
    """Signal that ended the program. `None`: there was none."""
    truncated: bool
    """Its output was cut at the limit."""
    shadow: bool
    """A shadow rule: it has no part in the verdict."""
    recheck: bool
    """From the extra pass."""


@dataclass(frozen=True)
class Decision:
    """How a gate came about."""

    answer: v1.TriggerResponse | None
    """The whole answer, as the wire has it. `None`: there was none; `error` says why."""
    error: CallError | None = None
    """Why there was no answer, or why it could not be carried out. `None`: it was carried out."""

    @property
    def id(self) -> str | None:
        """hookd's id of this decision, to be found in its logs. `None`: hookd did not answer."""
        if self.answer is not None:
            return self.answer.decision_id or None
        return self.error.decision_id if self.error is not None else None

    @property
    def policy_revision(self) -> str | None:
        """Revision of the rules that judged. `None`: none did."""
        return (self.answer.policy_revision or None) if self.answer is not None else None

    @property
    def degraded(self) -> bool:
        """A rule that should have had a say had none: a failure was forgiven, or hookd gave no usable answer."""
        return self.error is not None or (self.answer is not None and self.answer.degraded)

    @property
    def additional_context(self) -> tuple[v1.Note, ...]:
        """Texts for the model, in the order of the rules."""
        return tuple(self.answer.additional_context) if self.answer is not None else ()

    @property
    def system_messages(self) -> tuple[v1.Note, ...]:
        """Texts for the person, in the order of the rules."""
        return tuple(self.answer.system_messages) if self.answer is not None else ()

    @property
    def event_output(self) -> str | None:
        """Outputs of the event that have no field of their own, the text of a JSON object. `None`: there are none."""
        answer = self.answer
        has_it = answer is not None and answer.HasField("event_output_json")
        return answer.event_output_json if answer is not None and has_it else None

    @property
    def decided_by(self) -> v1.DecidedBy | None:
        """What decided. `None`: there is no opinion and nothing failed, or there is no answer."""
        answer = self.answer
        return answer.decided_by if answer is not None and answer.HasField("decided_by") else None

    @property
    def results(self) -> tuple[HookResult, ...]:
        """What each rule that matched gave, in evaluation order; results of the extra pass stand at the end."""
        return tuple(map(_hook_result, self.answer.results)) if self.answer is not None else ()


@dataclass(frozen=True)
class _Gate:
    decision: Decision = field(kw_only=True)
    """How this came about."""

    def __bool__(self) -> NoReturn:
        raise TypeError("a gate is no yes or no: match it")


@dataclass(frozen=True)
class Run(_Gate):
    """Go on: run the tool, take the prompt, stop, or whatever the event announced."""

    params: Json | None = None
    """The parameters to run the tool with, an object. `None`: the ones that were sent."""
    result: Json | None = None
    """The result to show to the model. `None`: the one that was sent."""
    approved: bool = False
    """A rule allowed this explicitly: the agent's own permission prompt is not needed. `False` where no rule had an
    opinion or hookd was not asked; the agent goes on as if it had not asked, its own prompts included."""


@dataclass(frozen=True)
class Ask(_Gate):
    """A person has to agree first. Without a person to ask, this is a no."""

    reason: str
    """Why, for the person. May be empty."""
    params: Json | None = None
    """What the person is asked about and what runs if they agree, as in `Run`."""
    result: Json | None = None
    """The result to show to the model, as in `Run`."""


@dataclass(frozen=True)
class Suspend(_Gate):
    """Put the call aside until someone decides outside. Never consent."""

    reason: str
    """Why. May be empty."""
    params: Json | None = None
    """What would run, as in `Run`."""
    result: Json | None = None
    """The result to show to the model, as in `Run`."""


@dataclass(frozen=True)
class Refuse(_Gate):
    """It does not happen: the tool does not run, the prompt is refused. On events after the fact (`PostToolUse`)
    nothing can be kept from happening any more: the reason goes to the model beside the result."""

    reason: str
    """Why, for the model. May be empty."""
    result: Json | None = None
    """The result to show to the model; only on `PostToolUse`. `None`: the one that was sent."""


@dataclass(frozen=True)
class Continue(_Gate):
    """The agent wanted to stop and has to go on. Only on `Stop`, `SubagentStop`, `TaskCompleted`, `TeammateIdle`."""

    reason: str
    """Its next instruction. May be empty."""


@dataclass(frozen=True)
class Halt(_Gate):
    """The agent has to stop now; what the event announced does not happen."""

    reason: str
    """Why. May be empty."""


Gate: TypeAlias = Union[Run, Ask, Suspend, Refuse, Continue, Halt]
"""What to do now. The answer to the everyday call: there is no exception to forget, what happens where hookd gives no
usable answer is decided in here, by `OnUnavailable` and the event's safe side.

The safe side is `Refuse` where a block keeps something from happening or is feedback, and `Run` where it is recorded
only or where what it would keep from happening is the agent's end (`Stop`, `SubagentStop`, `TaskCompleted`,
`TeammateIdle`: a hookd that is not there must not keep an agent running).

Match it whole, with `typing.assert_never` at the end: the type checker then sees a case that was left out. A gate that
is not looked at guards nothing, and one that is used as a condition raises `TypeError`."""


# The verdicts that do not block.
_FREE = frozenset((pb.VERDICT_NONE, pb.VERDICT_ALLOW, pb.VERDICT_ASK, pb.VERDICT_DEFER))


def gate_of_answer(event: str, answer: v1.TriggerResponse) -> Gate:
    """What `answer` means on `event`, the exact name."""
    block = Block.on(event)
    if answer.halt:
        return Halt(answer.halt_reason or answer.reason, decision=Decision(answer))
    verdict, reason = int(answer.verdict), answer.reason
    if verdict == pb.VERDICT_BLOCK:
        # It needs neither form to be carried out.
        return _blocked(block, answer)
    if verdict not in _FREE:
        return safe_side(block, Decision(answer, not_understood(f"verdict {verdict} is not known")))
    try:
        params, result = _params(answer), _result(answer)
    except ValueError as problem:
        return safe_side(block, Decision(answer, not_understood(str(problem))))
    decision = Decision(answer)
    match verdict:
        case pb.VERDICT_ASK:
            return Ask(reason, params, result, decision=decision)
        case pb.VERDICT_DEFER:
            return Suspend(reason, params, result, decision=decision)
        case _:
            return Run(params, result, verdict == pb.VERDICT_ALLOW, decision=decision)


def of_error(event: str, tool: str | None, error: CallError, on_unavailable: OnUnavailable) -> Gate:
    """What happens on `event`, about `tool` if it is about one, where hookd gave no answer."""
    if error.kind.is_unavailable and not on_unavailable.blocks(tool):
        return Run(decision=Decision(None, error))
    return safe_side(Block.on(event), Decision(None, error))


def safe_side(block: Block, decision: Decision) -> Gate:
    """What happens where there is no answer that can be carried out."""
    reason = decision.error.message if decision.error is not None else ""
    match block:
        case Block.PREVENTS_STOP | Block.RECORDED:
            return Run(decision=decision)
        case Block.PREVENTS | Block.FEEDBACK:
            return Refuse(reason, decision=decision)
        case Block.FEEDBACK_ON_RESULT:
            # A rule that takes secrets out of results may not have had its turn.
            return Refuse(reason, _notice(reason), decision=decision)


def modified_params(text: str) -> Json:
    """Parameters that hookd gave. Raises `ValueError` where they are no JSON object."""
    try:
        params = Json(text)
    except ValueError as error:
        raise ValueError(f"the modified parameters are not a JSON object: {error}") from None
    if not isinstance(params.value, dict):
        raise ValueError("the modified parameters are not a JSON object")
    return params


def _blocked(block: Block, answer: v1.TriggerResponse) -> Gate:
    decision = Decision(answer)
    match block:
        case Block.PREVENTS_STOP:
            return Continue(answer.reason, decision=decision)
        case Block.RECORDED:
            return Run(decision=decision)
        case Block.PREVENTS | Block.FEEDBACK:
            return Refuse(answer.reason, decision=decision)
        case Block.FEEDBACK_ON_RESULT:
            try:
                result = _result(answer)
            except ValueError:
                result = _notice("its replacement by hookd is not JSON")
            return Refuse(answer.reason, result, decision=decision)


def _params(answer: v1.TriggerResponse) -> Json | None:
    return modified_params(answer.modified_params_json) if answer.HasField("modified_params_json") else None


def _result(answer: v1.TriggerResponse) -> Json | None:
    if not answer.HasField("modified_result_json"):
        return None
    try:
        return Json(answer.modified_result_json)
    except ValueError as error:
        raise ValueError(f"the modified result is not JSON: {error}") from None


def _notice(why: str) -> Json:
    """A result that stands for one that is not shown."""
    return Json(to_text(f"the result is not shown: {why}"))


def _hook_result(result: v1.HookResult) -> HookResult:
    def text(name: Literal["output", "error", "modified_params_json", "modified_result_json"]) -> str | None:
        return getattr(result, name) if result.HasField(name) else None

    return HookResult(
        rule_id=result.rule_id,
        tier=int(result.tier),
        source=result.source,
        ok=result.ok,
        outcome=int(result.outcome),
        failure=int(result.failure),
        output=text("output"),
        error=text("error"),
        reason=result.reason or None,
        blocked=result.blocked,
        block_reason=result.block_reason if result.blocked else None,
        modified_params=text("modified_params_json"),
        modified_result=text("modified_result_json"),
        elapsed=result.elapsed.ToTimedelta() if result.HasField("elapsed") else None,
        exit_code=result.exit_code if result.HasField("exit_code") else None,
        signal=result.signal if result.HasField("signal") else None,
        truncated=result.truncated,
        shadow=result.shadow,
        recheck=result.recheck,
    )

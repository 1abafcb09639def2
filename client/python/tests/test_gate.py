"""What each answer makes the agent do."""

from __future__ import annotations

import re

import pytest
from hookd import (
    Ask,
    CallErrorKind,
    Continue,
    Decision,
    Gate,
    Halt,
    Json,
    Refuse,
    Run,
    Suspend,
    gate_of_answer,
    v1,
)
from hookd._event import Block
from hookd.v1 import hook_service_pb2 as pb
from support import CLIENT, response

NONE, ALLOW, ASK, DEFER, BLOCK = 1, 2, 3, 4, 5



def test_case_034_allow_and_silence_stay_two_things() -> None:
    for verdict, approved in ((NONE, False), (ALLOW, True)):
        answer = response(verdict)
        assert gate_of_answer("PreToolUse", answer) == Run(None, None, approved, decision=Decision(answer))


def test_each_verdict_has_its_gate() -> None:
    text = '{"n":9007199254740993}'
    params = Json(text)
    for verdict, make in (
        (NONE, lambda d: Run(params, None, False, decision=d)),
        (ALLOW, lambda d: Run(params, None, True, decision=d)),
        (ASK, lambda d: Ask("because", params, decision=d)),
        (DEFER, lambda d: Suspend("because", params, decision=d)),
        (BLOCK, lambda d: Refuse("because", decision=d)),
    ):
        answer = response(verdict, modified_params_json=text)
        assert gate_of_answer("PreToolUse", answer) == make(Decision(answer))


@pytest.mark.parametrize("event", ["PreToolUse", "UserPromptSubmit", "PreDeploy", "PostToolUseFailure", "PostToolUse"])
def test_a_block_refuses(event: str) -> None:
    answer = response(BLOCK)
    assert gate_of_answer(event, answer) == Refuse("because", decision=Decision(answer))


@pytest.mark.parametrize("event", ["Stop", "SubagentStop", "TaskCompleted", "TeammateIdle"])
def test_a_block_on_a_stop_continues(event: str) -> None:
    answer = response(BLOCK)
    assert gate_of_answer(event, answer) == Continue("because", decision=Decision(answer))


def test_a_block_that_is_recorded_runs() -> None:
    answer = response(BLOCK)
    assert gate_of_answer("SessionStart", answer) == Run(decision=Decision(answer))


def test_a_result_is_replaced_with_and_without_a_block() -> None:
    hidden = Json('"***"')
    answer = response(NONE, modified_result_json='"***"')
    assert gate_of_answer("PostToolUse", answer) == Run(None, hidden, decision=Decision(answer))
    answer = response(BLOCK, modified_result_json='"***"')
    assert gate_of_answer("PostToolUse", answer) == Refuse("because", hidden, decision=Decision(answer))


def test_law_13_halt_takes_precedence() -> None:
    for event in ("PreToolUse", "Stop", "SessionStart"):
        for verdict in (0, 1, 2, 3, 4, 5, 77):
            answer = response(verdict, halt=True, halt_reason="enough")
            assert gate_of_answer(event, answer) == Halt("enough", decision=Decision(answer))
    answer = response(BLOCK, halt=True)
    assert gate_of_answer("PreToolUse", answer) == Halt("because", decision=Decision(answer))


@pytest.mark.parametrize("verdict", [0, 6, 77, -1])
def test_law_11_case_033_what_is_not_known_takes_the_safe_side(verdict: int) -> None:
    reason = f"the answer of hookd cannot be carried out: verdict {verdict} is not known"
    answer = response(verdict)
    for event in ("PreToolUse", "UserPromptSubmit", "PreDeploy"):
        gate = gate_of_answer(event, answer)
        error = gate.decision.error
        assert error is not None and error.kind is CallErrorKind.NOT_UNDERSTOOD
        assert (gate.decision.degraded, gate.decision.id) == (True, "d1")
        assert gate == Refuse(reason, decision=gate.decision)
    gate = gate_of_answer("PostToolUse", answer)
    assert gate == Refuse(reason, Json(f'"the result is not shown: {reason}"'), decision=gate.decision)
    for event in ("Stop", "Notification"):
        gate = gate_of_answer(event, answer)
        assert gate == Run(decision=gate.decision)


@pytest.mark.parametrize("params", ["", "[]", '"ls"', '{"a":1', "{} {}", "null", '{"a":1,"a":2}', '{"a":NaN}'])
@pytest.mark.parametrize("verdict", [NONE, ALLOW, ASK, DEFER])
def test_law_11_forms_that_cannot_be_carried_out_take_the_safe_side(params: str, verdict: int) -> None:
    gate = gate_of_answer("PreToolUse", response(verdict, modified_params_json=params))
    assert isinstance(gate, Refuse) and "the modified parameters are not a JSON object" in gate.reason


def test_a_result_that_is_no_json_is_not_shown() -> None:
    gate = gate_of_answer("PostToolUse", response(NONE, modified_result_json="{"))
    assert isinstance(gate, Refuse) and gate.result is not None and "not shown" in gate.result.value
    answer = response(BLOCK, modified_result_json="{")
    hidden = Json('"the result is not shown: its replacement by hookd is not JSON"')
    assert gate_of_answer("PostToolUse", answer) == Refuse("because", hidden, decision=Decision(answer))


def test_the_decision_carries_what_hookd_said_and_none_for_what_it_did_not() -> None:
    note = v1.Note(text="mind the gap", rule_id="r", tier=pb.TIER_LOCAL)
    ran = v1.HookResult(ok=True, rule_id="r", output="", exit_code=0, outcome=pb.OUTCOME_NONE)
    answer = response(
        NONE,
        additional_context=[note],
        system_messages=[note],
        event_output_json='{"a":1}',
        degraded=True,
        results=[ran, v1.HookResult(rule_id="q")],
    )
    decision = gate_of_answer("PreToolUse", answer).decision
    assert (decision.answer, decision.error) == (answer, None)
    assert (decision.id, decision.policy_revision, decision.degraded) == ("d1", "r1", True)
    assert (decision.additional_context, decision.system_messages) == ((note,), (note,))
    assert (decision.event_output, decision.decided_by) == ('{"a":1}', None)
    first, second = decision.results
    assert (first.output, first.exit_code, first.error, first.signal, first.elapsed) == ("", 0, None, None, None)
    assert (second.output, second.exit_code, second.modified_params, second.block_reason) == (None, None, None, None)
    silent = gate_of_answer("PreToolUse", v1.TriggerResponse(verdict=pb.VERDICT_NONE)).decision
    assert (silent.id, silent.policy_revision, silent.event_output) == (None, None, None)
    unanswered = Decision(None)
    assert (unanswered.id, unanswered.results, unanswered.system_messages) == (None, (), ())


def test_a_gate_is_no_condition() -> None:
    gate: Gate = gate_of_answer("PreToolUse", response(BLOCK))
    with pytest.raises(TypeError, match="match it"):
        bool(gate)


def test_both_clients_agree_on_every_event() -> None:
    source = (CLIENT.parent / "rust" / "src" / "event.rs").read_text()
    table = source.split("match event {")[1].split("_ =>")[0]
    meanings = {
        "PreventsStop": Block.PREVENTS_STOP,
        "FeedbackOnResult": Block.FEEDBACK_ON_RESULT,
        "Feedback": Block.FEEDBACK,
        "Recorded": Block.RECORDED,
    }
    arms = re.findall(r'((?:"\w+"[\s|]*)+)=>\s*Self::(\w+)', table)
    expected = {name: meanings[meaning] for names, meaning in arms for name in re.findall(r'"(\w+)"', names)}
    assert len(expected) == 21
    assert {name: Block.on(name) for name in expected} == expected
    assert Block.on("PreToolUse") == Block.on("PreDeploy") == Block.PREVENTS

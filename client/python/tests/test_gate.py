"""What is special to gates in Python. What each answer makes the agent do is in `tests/conformance`."""

from __future__ import annotations

import re

import pytest
from hookd import Decision, Gate, gate_of_answer, v1
from hookd._event import Block
from hookd.v1 import hook_service_pb2 as pb
from support import CLIENT, response

NONE, ALLOW, ASK, DEFER, BLOCK = 1, 2, 3, 4, 5


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

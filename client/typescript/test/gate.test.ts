/** What each answer makes the agent do. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { create } from "@bufbuild/protobuf";
import { gateOfAnswer, proto } from "@hookd/client";

import { seen } from "./support/clients.js";
import { answer } from "./support/scripted.js";

const { NONE, ALLOW, ASK, DEFER, BLOCK } = proto.Verdict;
const PARAMS = '{"n":9007199254740993}';
const run = { kind: "run", approved: false };
const refused = { kind: "refuse", reason: "because" };

test("case_034 an allow and silence stay two things", () => {
  assert.deepEqual(seen(gateOfAnswer("PreToolUse", answer(NONE))), run);
  assert.deepEqual(seen(gateOfAnswer("PreToolUse", answer(ALLOW))), { ...run, approved: true });
});

test("each verdict has its gate", () => {
  const rewritten = { modifiedParamsJson: PARAMS };
  const redacted = { modifiedResultJson: '"***"' };
  const rows: [string, proto.TriggerResponse, object][] = [
    ["PreToolUse", answer(ALLOW, rewritten), { kind: "run", params: PARAMS, approved: true }],
    ["PreToolUse", answer(ASK, rewritten), { kind: "ask", reason: "because", params: PARAMS }],
    ["PreToolUse", answer(DEFER, rewritten), { kind: "suspend", reason: "because", params: PARAMS }],
    ["PreToolUse", answer(BLOCK, rewritten), refused],
    ["UserPromptSubmit", answer(BLOCK), refused],
    ["PreDeploy", answer(BLOCK), refused],
    ["PostToolUseFailure", answer(BLOCK), refused],
    ["SessionStart", answer(BLOCK), run],
    ["Stop", answer(BLOCK), { kind: "continue", reason: "because" }],
    ["SubagentStop", answer(BLOCK), { kind: "continue", reason: "because" }],
    ["TaskCompleted", answer(BLOCK), { kind: "continue", reason: "because" }],
    ["TeammateIdle", answer(BLOCK), { kind: "continue", reason: "because" }],
    ["PostToolUse", answer(NONE, redacted), { kind: "run", result: '"***"', approved: false }],
    ["PostToolUse", answer(BLOCK, redacted), { ...refused, result: '"***"' }],
  ];
  for (const [event, response, expected] of rows) {
    assert.deepEqual(seen(gateOfAnswer(event, response)), expected, `${event} ${response.verdict}`);
  }
});

test("what is not there is undefined", () => {
  const gate = gateOfAnswer("PreToolUse", answer(NONE));
  assert.ok(gate.kind === "run");
  assert.equal(gate.params, undefined);
  assert.equal(gate.result, undefined);
  assert.equal(gate.decision.eventOutputJson, undefined);
  assert.equal(gate.decision.error, undefined);
  assert.equal(gate.decision.answer?.decidedBy, undefined);
  assert.equal(gate.decision.answer?.modifiedParamsJson, undefined);
});

test("law_13 halt takes precedence", () => {
  for (const event of ["PreToolUse", "Stop", "SessionStart"]) {
    for (const verdict of [0, 1, 2, 3, 4, 5, 77]) {
      const halt = answer(verdict, { halt: true, haltReason: "enough" });
      assert.deepEqual(seen(gateOfAnswer(event, halt)), { kind: "halt", reason: "enough" });
    }
  }
  assert.deepEqual(seen(gateOfAnswer("PreToolUse", answer(BLOCK, { halt: true }))), {
    kind: "halt",
    reason: "because",
  });
});

test("law_11 case_033 what is not known takes the safe side", () => {
  for (const verdict of [0, 6, 77, -1]) {
    const reason = `the answer of hookd cannot be carried out: verdict ${verdict} is not known`;
    for (const event of ["PreToolUse", "UserPromptSubmit", "PreDeploy"]) {
      const gate = gateOfAnswer(event, answer(verdict));
      assert.equal(gate.decision.error?.kind, "not-understood");
      assert.equal(gate.decision.degraded, true);
      assert.equal(gate.decision.id, "d1");
      assert.deepEqual(seen(gate), { kind: "refuse", reason });
    }
    const hidden = JSON.stringify(`the result is not shown: ${reason}`);
    assert.deepEqual(seen(gateOfAnswer("PostToolUse", answer(verdict))), { kind: "refuse", reason, result: hidden });
    assert.deepEqual(seen(gateOfAnswer("Stop", answer(verdict))), run);
    assert.deepEqual(seen(gateOfAnswer("Notification", answer(verdict))), run);
  }
});

test("law_11 forms that cannot be carried out take the safe side", () => {
  for (const params of ["", "[]", '"ls"', '{"a":1', "{} {}", "null", '{"a":1,"a":2}', "1.5", "1e999"]) {
    for (const verdict of [NONE, ALLOW, ASK, DEFER]) {
      const gate = gateOfAnswer("PreToolUse", answer(verdict, { modifiedParamsJson: params }));
      assert.ok(gate.kind === "refuse" && gate.reason.includes("not a JSON object"), params);
    }
  }
  const garbled = { modifiedResultJson: "{" };
  const refusal = gateOfAnswer("PostToolUse", answer(NONE, garbled));
  assert.ok(refusal.kind === "refuse" && refusal.result?.text.includes("not shown"));
  assert.deepEqual(seen(gateOfAnswer("PostToolUse", answer(BLOCK, garbled))), {
    ...refused,
    result: '"the result is not shown: its replacement by hookd is not JSON"',
  });
});

test("the decision carries what hookd said", () => {
  const note = create(proto.NoteSchema, { text: "mind the gap", ruleId: "r", tier: proto.Tier.LOCAL });
  const sent = answer(NONE, {
    additionalContext: [note],
    systemMessages: [note],
    eventOutputJson: '{"a":1}',
    degraded: true,
  });
  const { decision } = gateOfAnswer("PreToolUse", sent);
  assert.equal(decision.answer, sent);
  assert.deepEqual([decision.id, decision.policyRevision, decision.degraded], ["d1", "r1", true]);
  assert.deepEqual(decision.additionalContext, [note]);
  assert.deepEqual(decision.systemMessages, [note]);
  assert.equal(decision.eventOutputJson, '{"a":1}');
});

test("this client and the Rust one agree on every event", () => {
  const source = readFileSync(new URL("../../../rust/src/event.rs", import.meta.url), "utf8");
  const table = source.slice(source.indexOf("match event {"), source.indexOf("_ => Self::Prevents"));
  const gates: Record<string, string> = {
    PreventsStop: "continue",
    FeedbackOnResult: "refuse with a result",
    Feedback: "refuse",
    Recorded: "run",
  };
  let events = 0;
  for (const [, names = "", block = ""] of table.matchAll(/((?:"\w+"[\s|]*)+)=> Self::(\w+)/g)) {
    for (const [, name = ""] of names.matchAll(/"(\w+)"/g)) {
      const gate = gateOfAnswer(name, answer(BLOCK, { modifiedResultJson: "1" }));
      const kind = gate.kind === "refuse" && gate.result !== undefined ? "refuse with a result" : gate.kind;
      assert.equal(kind, gates[block], name);
      events += 1;
    }
  }
  assert.equal(events, 21);
});

/** What is special to gates here. What each answer makes the agent do is in `tests/conformance`. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { create } from "@bufbuild/protobuf";
import { gateOfAnswer, proto } from "@hookd/client";

import { answer } from "./support/scripted.js";

const { NONE, BLOCK } = proto.Verdict;

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

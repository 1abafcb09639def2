/** A wrapped tool asks before and after. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { create } from "@bufbuild/protobuf";
import { proto, type ToolOptions, type ToolOutcome } from "@hookd/client";

import { client } from "./support/clients.js";
import { answer, ofHookd, Scripted, type Status } from "./support/scripted.js";

const { NONE, ALLOW, ASK, DEFER, BLOCK } = proto.Verdict;

interface Played {
  readonly outcome: ToolOutcome<string>;
  readonly ran: object[];
  readonly asked: proto.TriggerRequest[];
}

/** Calls a tool whose events are answered so. */
async function play(
  answers: Record<string, proto.TriggerResponse | Status>,
  options: ToolOptions & { given?: object | string; fails?: boolean } = {},
): Promise<Played> {
  const asked: proto.TriggerRequest[] = [];
  const ran: object[] = [];
  const server = await Scripted.answering((request) => {
    asked.push(request);
    return answers[request.event] ?? answer(NONE);
  });
  const tool = client(server.address, "allow", { rounds: 1 })
    .session("s")
    .wrapTool(
      "bash",
      (params: object) => {
        ran.push({ ...params });
        Object.assign(params, { changed: true });
        if (options.fails === true) {
          throw new Error("exit 1");
        }
        return "done";
      },
      options,
    );
  const outcome = await tool(options.given ?? { command: "ls" });
  await server.kill();
  return { outcome, ran, asked };
}

function said({ outcome }: Played): object {
  const { before: _before, after: _after, context: _context, ...rest } = outcome;
  return rest;
}

test("what nobody minds runs, and hookd sees the result", async () => {
  const played = await play({});
  assert.deepEqual(said(played), { kind: "ran", result: "done", replaced: false, feedback: undefined });
  assert.deepEqual(played.ran, [{ command: "ls" }]);
  assert.deepEqual(
    played.asked.map(({ event, toolCall }) => [event, toolCall?.paramsJson, toolCall?.resultJson]),
    [
      ["PreToolUse", '{"command":"ls"}', undefined],
      ["PostToolUse", '{"command":"ls"}', '"done"'],
    ],
  );
});

test("a rewrite reaches the tool, digits and all, and is what hookd hears of afterwards", async () => {
  const rewritten = '{"command":"ls","id":9007199254740993,"x":1.0}';
  const played = await play({ PreToolUse: answer(ALLOW, { modifiedParamsJson: rewritten }) });
  assert.deepEqual(played.ran, [{ command: "ls", id: 9007199254740993n, x: 1 }]);
  assert.equal(played.asked[1]?.toolCall?.paramsJson, rewritten);
});

test("parameters that come as text reach the tool as a value", async () => {
  const played = await play({}, { given: '{"id":9007199254740993}' });
  assert.deepEqual(played.ran, [{ id: 9007199254740993n }]);
  assert.equal(played.asked[1]?.toolCall?.paramsJson, '{"id":9007199254740993}');
  const broken = await play({}, { given: '{"id":' });
  assert.deepEqual(broken.ran, []);
  assert.equal(broken.outcome.kind, "refused");
  assert.deepEqual((await play({}, { given: "[1]" })).ran, []);
});

test("what may not run does not", async () => {
  const rows: [proto.TriggerResponse | Status, object][] = [
    [answer(BLOCK), { kind: "refused", reason: "because" }],
    [answer(ASK), { kind: "refused", reason: "because" }],
    [answer(DEFER), { kind: "suspended", reason: "because", params: undefined }],
    [answer(NONE, { halt: true, haltReason: "enough" }), { kind: "halted", reason: "enough" }],
    [answer(99), { kind: "refused", reason: "the answer of hookd cannot be carried out: verdict 99 is not known" }],
  ];
  for (const [before, expected] of rows) {
    const played = await play({ PreToolUse: before });
    assert.deepEqual(said(played), expected);
    assert.deepEqual([played.ran, played.asked.length, played.outcome.after], [[], 1, undefined]);
  }
});

test("a person who agrees lets it run, with what they were asked about", async () => {
  const before = answer(ASK, { modifiedParamsJson: '{"command":"ls -l"}' });
  const shown: object[] = [];
  const agreed = await play(
    { PreToolUse: before },
    { ask: (gate, params) => (shown.push([gate.reason, params]), true) },
  );
  assert.deepEqual(shown, [["because", { command: "ls -l" }]]);
  assert.deepEqual(agreed.ran, [{ command: "ls -l" }]);
  const refused = await play({ PreToolUse: before }, { ask: () => Promise.resolve(false) });
  assert.deepEqual([said(refused), refused.ran], [{ kind: "refused", reason: "because" }, []]);
});

test("what was changed while hookd was asked does not run", async () => {
  const given = { command: "ls" };
  const played = await play(
    { PreToolUse: answer(ASK) },
    {
      given,
      ask: () => {
        given.command = "rm -rf /";
        return true;
      },
    },
  );
  assert.deepEqual(said(played), {
    kind: "refused",
    reason: "the parameters were changed while hookd was asked about them",
  });
  assert.deepEqual(played.ran, []);
});

test("what the model sees of a result is what hookd says", async () => {
  const rows: [proto.TriggerResponse | Status, object][] = [
    [
      answer(NONE, { modifiedResultJson: '"***"' }),
      { kind: "ran", result: "***", replaced: true, feedback: undefined },
    ],
    [answer(BLOCK), { kind: "ran", result: "done", replaced: false, feedback: "because" }],
    [answer(BLOCK, { modifiedResultJson: "null" }), { kind: "ran", result: null, replaced: true, feedback: "because" }],
    [answer(ASK), { kind: "ran", result: "the result is not shown: because", replaced: true, feedback: "because" }],
    [answer(NONE, { halt: true }), { kind: "halted", reason: "because" }],
  ];
  for (const [after, expected] of rows) {
    assert.deepEqual(said(await play({ PostToolUse: after })), expected);
  }
  const { outcome } = await play({ PostToolUse: ofHookd(3) });
  assert.ok(outcome.kind === "ran" && outcome.replaced);
  assert.match(
    String(outcome.result),
    /^the result is not shown: hookd at .* refused the call: no \(INVALID_ARGUMENT\)$/,
  );
});

test("a tool that throws has failed, and hookd hears of it", async () => {
  const played = await play({ PostToolUseFailure: answer(BLOCK) }, { fails: true });
  assert.deepEqual(said(played), { kind: "failed", error: new Error("exit 1"), feedback: "because" });
  assert.deepEqual(
    played.asked.map(({ event, toolCall }) => [event, toolCall?.error]),
    [
      ["PreToolUse", undefined],
      ["PostToolUseFailure", "exit 1"],
    ],
  );
});

test("what the rules tell the model is gathered", async () => {
  const note = (text: string) => ({ additionalContext: [create(proto.NoteSchema, { text })] });
  const { outcome } = await play({ PreToolUse: answer(NONE, note("one")), PostToolUse: answer(NONE, note("two")) });
  assert.deepEqual(
    outcome.context.map(({ text }) => text),
    ["one", "two"],
  );
});

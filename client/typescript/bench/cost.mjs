// What a call of this client costs against a call of the bare stub of the same library, in turns, and the ratio. The goal
// is at most 1.2. Needs `npm run build` and target/release/hookd (or HOOKD_BIN).
//
//   node bench/cost.mjs [rounds] [calls per round]

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Client as Stub, credentials, Metadata } from "@grpc/grpc-js";
import { Client, proto } from "@hookd/client";

const [rounds = 15, calls = 400] = process.argv.slice(2).map(Number);
const params = JSON.stringify({
  file_path: "/home/me/project/src/main.rs",
  old_string: "x".repeat(100),
  new_string: "y",
});
const rules = [
  {
    event: "PreToolUse",
    when: "params.file_path.contains('node_modules')",
    handler: { type: "decide", verdict: "block" },
  },
  { event: "PreToolUse", matcher: "edit_file", handler: { type: "decide", verdict: "allow" } },
];

const folder = mkdtempSync(join(tmpdir(), "hookd-cost-"));
writeFileSync(join(folder, "rules.json"), JSON.stringify({ hooks: rules }));
const tiers = { managed: { sources: [{ path: join(folder, "rules.json") }] } };
const settings = { listen: "127.0.0.1:0", admin_listen: "127.0.0.1:0", tiers, log: { filter: "warn" } };
writeFileSync(join(folder, "hookd.json"), JSON.stringify(settings));
const binary = process.env.HOOKD_BIN ?? new URL("../../../target/release/hookd", import.meta.url).pathname;
const hookd = spawn(binary, ["--config", join(folder, "hookd.json")], { stdio: ["ignore", "pipe", "inherit"] });
const address = await new Promise((resolve) => {
  createInterface({ input: hookd.stdout }).on("line", (line) => {
    const [, ready] = /grpc=([\d.:]+)/.exec(line) ?? [];
    if (ready !== undefined) resolve(ready);
  });
});

const session = new Client(address, { onUnavailable: "block" }).session("session-1", { cwd: "/home/me/project" });
const ours = async () => {
  const gate = await session.preToolUse("edit_file", params);
  if (gate.kind !== "run" || !gate.approved) throw new Error(gate.kind);
};

const stub = new Stub(address, credentials.createInsecure());
const write = (message) => Buffer.from(toBinary(proto.TriggerRequestSchema, message));
const read = (bytes) => fromBinary(proto.TriggerResponseSchema, bytes);
const bare = async () => {
  const request = create(proto.TriggerRequestSchema, {
    event: "PreToolUse",
    sessionId: "session-1",
    cwd: "/home/me/project",
    toolCall: { tool: "edit_file", paramsJson: params },
  });
  const answer = await new Promise((resolve, reject) => {
    const done = (error, response) => (error ? reject(error) : resolve(response));
    const options = { deadline: Date.now() + 30_000 };
    stub.makeUnaryRequest("/hookd.v1.HookService/Trigger", write, read, request, new Metadata(), options, done);
  });
  if (answer.verdict !== proto.Verdict.ALLOW) throw new Error(String(answer.verdict));
};

/** Microseconds of time and of this process's CPU per call. */
async function measured(call, wide) {
  const cpu = process.cpuUsage();
  const begun = process.hrtime.bigint();
  for (let at = 0; at < calls; at += wide) await Promise.all(Array.from({ length: wide }, call));
  const elapsed = Number(process.hrtime.bigint() - begun) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return { time: elapsed / calls, cpu: (user + system) / calls };
}

const median = (values) => values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)];
for (const wide of [1, 16]) {
  const turns = [];
  for (let round = -2; round < rounds; round += 1) {
    const turn = { bare: await measured(bare, wide), ours: await measured(ours, wide) };
    if (round >= 0) turns.push(turn);
  }
  for (const unit of ["time", "cpu"]) {
    const [one, other] = [median(turns.map((turn) => turn.bare[unit])), median(turns.map((turn) => turn.ours[unit]))];
    const ratio = median(turns.map((turn) => turn.ours[unit] / turn.bare[unit]));
    const figures = `bare ${one.toFixed(0)} us, ours ${other.toFixed(0)} us, ratio ${ratio.toFixed(2)}`;
    console.log(`${wide} at a time, ${unit}: ${figures}`);
  }
}
hookd.kill();
rmSync(folder, { recursive: true });
process.exit();

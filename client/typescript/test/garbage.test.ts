/** Peers that are not hookd, or send what nobody should. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";

import { proto, type Gate } from "@hookd/client";

import { client } from "./support/clients.js";
import { answer, bytesOf, frame, Scripted } from "./support/scripted.js";

const GRPC = { "content-type": "application/grpc" };
const ALLOW = bytesOf(answer(proto.Verdict.ALLOW));

interface Raw {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  readonly body?: Uint8Array;
  readonly trailers?: Record<string, string>;
}

/** The gate on a tool call under the most lenient setting, and what the call met. */
async function gateOf({
  status = 200,
  headers = GRPC,
  body = Buffer.alloc(0),
  trailers,
}: Raw): Promise<[Gate, string?]> {
  const server = await Scripted.start((call) =>
    call.raw(body, { ":status": status, ...headers }, trailers ?? { "grpc-status": "0" }),
  );
  const gate = await client(server.address, "allow", { rounds: 1 }).session("s").preToolUse("bash", {});
  await server.kill();
  const kind = gate.decision.error?.kind;
  return kind === undefined ? [gate] : [gate, kind];
}

test("law_11 an answer that is no answer blocks", async () => {
  const bodies = [
    frame(Buffer.alloc(40, 0xff)),
    frame(ALLOW.subarray(0, ALLOW.length - 1)),
    Buffer.alloc(0),
    frame(Buffer.alloc(0)),
    Buffer.concat([frame(ALLOW), frame(ALLOW)]),
    // A text that is not UTF-8 is no text.
    frame(Buffer.from([0x08, 0x02, 0x12, 0x01, 0xff])),
  ];
  for (const body of bodies) {
    const [gate, kind] = await gateOf({ body });
    assert.equal(gate.kind, "refuse", body.toString("hex"));
    assert.equal(kind, "not-understood", gate.decision.error?.message);
  }
  const [gate, kind] = await gateOf({ body: frame(ALLOW) });
  assert.ok(gate.kind === "run" && gate.approved);
  assert.equal(kind, undefined);
});

test("an answer counts only with the status after it", async () => {
  const body = frame(ALLOW);
  const [, denied] = await gateOf({ body, trailers: { "grpc-status": "7", "grpc-message": "no" } });
  assert.equal(denied, "refused");
  const [gate, cut] = await gateOf({ body, trailers: {} });
  assert.ok(!(gate.kind === "run" && gate.approved));
  assert.equal(cut, "unavailable");
});

test("an answer that stops in the middle of a message is none", async () => {
  for (const trailers of [{ "grpc-status": "0" }, {}] as Record<string, string>[]) {
    const [gate] = await gateOf({ body: frame(ALLOW).subarray(0, 9), trailers });
    assert.ok(!(gate.kind === "run" && gate.approved));
  }
});

test("broken status details do not bring the agent down", async () => {
  const broken = {
    "grpc-status": "8",
    "grpc-message": "full",
    "grpc-status-details-bin": "!!!not base64!!!",
  };
  const garbage = { ...broken, "grpc-status-details-bin": Buffer.alloc(30, 0xff).toString("base64") };
  for (const trailers of [broken, garbage]) {
    for (const raw of [{ headers: { ...GRPC, ...trailers }, trailers: {} }, { trailers }]) {
      const [gate, kind] = await gateOf(raw);
      assert.equal(kind, "refused");
      assert.ok(gate.kind === "refuse" && gate.reason.endsWith("full (RESOURCE_EXHAUSTED)"), gate.kind);
    }
  }
});

test("a peer that is not hookd cannot be asked", async () => {
  const html = { headers: { "content-type": "text/html" }, body: Buffer.from("<html></html>"), trailers: {} };
  for (const status of [200, 502, 503, 504]) {
    const [gate, kind] = await gateOf({ ...html, status });
    assert.equal(kind, "unavailable", `${status}: ${gate.decision.error?.message}`);
    assert.ok(gate.kind === "run" && !gate.approved);
  }
  for (const status of [401, 403, 404]) {
    const [gate, kind] = await gateOf({ ...html, status });
    assert.equal(kind, "refused", `${status}: ${gate.decision.error?.message}`);
    assert.equal(gate.kind, "refuse");
  }
  // Even if it says what looks like an answer.
  const [gate, kind] = await gateOf({ headers: { "content-type": "text/html" }, body: frame(ALLOW) });
  assert.ok(gate.kind === "run" && !gate.approved);
  assert.equal(kind, "unavailable");
});

test("a peer that speaks no HTTP/2 cannot be asked", async (t) => {
  const junk = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.end("SSH-2.0-nothing\r\n\r\n");
  }).listen(0, "127.0.0.1");
  await once(junk, "listening");
  t.after(() => junk.close());
  const { port } = junk.address() as { port: number };
  const gate = await client(`127.0.0.1:${port}`, "allow", { rounds: 1 }).session("s").preToolUse("bash", {});
  assert.equal(gate.decision.error?.kind, "unavailable", gate.decision.error?.message);
  assert.ok(gate.kind === "run" && !gate.approved);
});

test("a stream that is reset is no answer, and one that was refused is tried again", async (t) => {
  const NGHTTP2_REFUSED_STREAM = 7;
  const NGHTTP2_INTERNAL_ERROR = 2;
  const server = await Scripted.start(async (call) => {
    await call.next();
    switch (server.calls) {
      case 1:
        return call.stream.close(NGHTTP2_REFUSED_STREAM);
      case 2:
        return call.stream.close(NGHTTP2_INTERNAL_ERROR);
      default:
        return call.answer(answer(proto.Verdict.BLOCK));
    }
  });
  t.after(() => server.kill());
  const gate = await client(server.address, "allow").session("s").preToolUse("bash", {});
  assert.ok(gate.kind === "refuse" && gate.decision.error === undefined);
  assert.equal(server.calls, 3);
});

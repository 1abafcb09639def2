/** TLS, client certificates and tokens, out of files that are replaced while the process runs. */

import assert from "node:assert/strict";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { proto, type Gate } from "@hookd/client";

import { authority } from "./support/certificates.js";
import { client } from "./support/clients.js";
import { answer, Scripted } from "./support/scripted.js";

async function folder(t: TestContext): Promise<(name: string, text: string) => Promise<string>> {
  const path = await mkdtemp(join(tmpdir(), "hookd-client-"));
  t.after(() => rm(path, { recursive: true }));
  return async (name, text) => {
    await writeFile(join(path, `${name}.new`), text);
    await rename(join(path, `${name}.new`), join(path, name));
    return join(path, name);
  };
}

/** Asks until the gate is as it has to be: files are read again after a second. */
async function eventually(ask: () => Promise<Gate>, is: (gate: Gate) => boolean): Promise<Gate> {
  const limit = performance.now() + 20_000;
  for (;;) {
    const gate = await ask();
    if (is(gate)) {
      return gate;
    }
    assert.ok(performance.now() < limit, gate.decision.error?.message);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const isApproved = (gate: Gate) => gate.kind === "run" && gate.approved;

test("a server is who its certificate says, and a client shows its own", async (t) => {
  const write = await folder(t);
  const ca = authority();
  const server = await Scripted.start((call) => call.answer(answer(proto.Verdict.ALLOW)), {
    tls: { ...ca.issue("localhost"), ca: ca.cert, requestCert: true },
  });
  t.after(() => server.kill());
  const mine = ca.issue("agent");
  const [caFile, certFile, keyFile] = [
    await write("ca.pem", ca.cert),
    await write("cert.pem", mine.cert),
    await write("key.pem", mine.key),
  ];
  const address = `https://127.0.0.1:${server.port}`;
  const ask = (tls: object, more: object = {}) =>
    client(address, "allow", { tls, rounds: 1, ...more })
      .session("s")
      .preToolUse("bash", {});
  assert.ok(isApproved(await ask({ caFile, certFile, keyFile, serverName: "localhost" })));
  // Another name than the certificate's, an authority that nobody knows: it is not hookd that would answer. And a client
  // without a certificate is no client.
  const others = [
    { caFile, certFile, keyFile },
    { certFile, keyFile, serverName: "localhost" },
  ];
  for (const tls of [...others, { caFile, serverName: "localhost" }]) {
    const gate = await ask(tls);
    assert.equal(gate.decision.error?.kind, "unavailable", gate.decision.error?.message);
    assert.ok(gate.kind === "run" && !gate.approved);
  }
  const gone = await ask({ caFile: "/nowhere/ca.pem" });
  assert.ok(gone.kind === "refuse", "a client that is not set up asks nobody, and that buys no allow");
  assert.equal(gone.reason, "the call cannot be sent: cannot read the certificates `/nowhere/ca.pem`: ENOENT");
});

test("certificates are read again, and used for new connections", async (t) => {
  const write = await folder(t);
  const [old, young] = [authority(), authority()];
  const caFile = await write("ca.pem", old.cert);
  const server = await Scripted.start((call) => call.answer(answer(proto.Verdict.ALLOW)), {
    tls: young.issue("localhost"),
  });
  t.after(() => server.kill());
  const tls = { caFile, serverName: "localhost" };
  const session = client(`https://127.0.0.1:${server.port}`, "block", { tls, rounds: 1 }).session("s");
  assert.equal((await session.preToolUse("bash", {})).kind, "refuse");
  await write("ca.pem", young.cert);
  await eventually(() => session.preToolUse("bash", {}), isApproved);
  const { connections } = server;
  assert.ok(isApproved(await session.preToolUse("bash", {})));
  assert.equal(server.connections, connections, "and kept");
});

test("a token goes with every call, and is read again", async (t) => {
  const write = await folder(t);
  const tokenFile = await write("token", "one\n");
  const tokens = new Set<string | undefined>();
  const server = await Scripted.start((call) => {
    tokens.add(call.headers.authorization);
    call.answer(answer(call.headers.authorization === "Bearer two" ? proto.Verdict.ALLOW : proto.Verdict.NONE));
  });
  t.after(() => server.kill());
  const session = client(server.address, "block", { tokenFile }).session("s");
  assert.equal(isApproved(await session.preToolUse("bash", {})), false);
  await write("token", "two");
  await eventually(() => session.preToolUse("bash", {}), isApproved);
  assert.deepEqual([...tokens], ["Bearer one", "Bearer two"]);
  const lost = await client(server.address, "allow", { tokenFile: "/nowhere/token" })
    .session("s")
    .preToolUse("bash", {});
  assert.ok(lost.kind === "refuse" && lost.reason.endsWith("cannot read the token file `/nowhere/token`: ENOENT"));
});

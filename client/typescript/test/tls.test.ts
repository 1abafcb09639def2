/** TLS, client certificates and tokens, out of files that are replaced while the process runs. */

import assert from "node:assert/strict";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { Client, proto, type Gate } from "@hookd/client";

import { authority } from "./support/certificates.js";
import { client, dead } from "./support/clients.js";
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
  // Another name than the certificate's, an authority that nobody knows: it is not hookd that would answer.
  const address2 = await dead();
  for (const tls of [
    { caFile, certFile, keyFile },
    { certFile, keyFile, serverName: "localhost" },
  ]) {
    for (const [list, tried] of [
      [address, ""],
      [`${address},${address2}`, `; tried ${address}, ${address2}`],
    ] as const) {
      const gate = await client(list, "allow", { tls, rounds: 2 }).session("s").preToolUse("bash", {});
      assert.ok(gate.kind === "refuse", "it buys no allow");
      assert.equal(gate.decision.error?.kind, "not-trusted", gate.reason);
      assert.ok(gate.reason.startsWith(`hookd at ${address} is not asked: `) && gate.reason.endsWith(tried), gate.reason);
    }
  }
  // A client without a certificate is no client. Whether its end hears why depends on who is faster.
  const stranger = await ask({ caFile, serverName: "localhost" });
  assert.ok(["unavailable", "not-trusted"].includes(stranger.decision.error?.kind ?? ""));
  assert.ok(!isApproved(stranger));
});

test("a server that does not speak TLS buys no allow", async (t) => {
  const server = await Scripted.start((call) => call.answer(answer(proto.Verdict.ALLOW)));
  t.after(() => server.kill());
  const gate = await client(`https://${server.address}`, "allow").session("s").preToolUse("bash", {});
  assert.ok(gate.kind === "refuse" && gate.decision.error?.kind === "not-trusted");
  assert.equal(gate.reason, `hookd at https://${server.address} is not asked: it does not speak TLS`);
});

test("files that cannot be used buy no allow", async (t) => {
  const write = await folder(t);
  const junk = await write("junk.pem", "junk");
  const address = `https://${await dead()}`;
  const reason = async (tls: object) => {
    const gate = await client(address, "allow", { tls, rounds: 1 }).session("s").preToolUse("bash", {});
    assert.ok(gate.kind === "refuse" && gate.decision.error?.kind === "not-trusted");
    return gate.reason;
  };
  const at = `hookd at ${address} is not asked: the`;
  assert.equal(await reason({ caFile: "/nowhere/ca.pem" }), `${at} CA file \`/nowhere/ca.pem\` cannot be read: ENOENT`);
  const unusable = `${at} CA file, or the certificate and its key, cannot be used: `;
  const said = await reason({ certFile: junk, keyFile: junk });
  assert.ok(said.startsWith(unusable), said);
});

test("certificates are read again when they change, and used for new connections", async (t) => {
  const write = await folder(t);
  const [old, young] = [authority(), authority()];
  const [stranger, mine] = [old.issue("agent"), young.issue("agent")];
  const caFile = await write("ca.pem", old.cert);
  const certFile = await write("cert.pem", stranger.cert);
  const keyFile = await write("key.pem", stranger.key);
  const server = await Scripted.start((call) => call.answer(answer(proto.Verdict.ALLOW)), {
    tls: { ...young.issue("localhost"), ca: young.cert, requestCert: true },
  });
  t.after(() => server.kill());
  const tls = { caFile, certFile, keyFile, serverName: "localhost" };
  const session = client(`https://127.0.0.1:${server.port}`, "block", { tls, rounds: 1 }).session("s");
  assert.equal((await session.preToolUse("bash", {})).decision.error?.kind, "not-trusted");
  await write("ca.pem", young.cert);
  assert.ok(!isApproved(await session.preToolUse("bash", {})), "its own certificate is still a stranger's");
  await write("cert.pem", mine.cert);
  await write("key.pem", mine.key);
  const approved = await session.preToolUse("bash", {});
  assert.ok(isApproved(approved), approved.decision.error?.message);
  const { connections } = server;
  await rm(caFile);
  assert.ok(isApproved(await session.preToolUse("bash", {})));
  assert.equal(server.connections, connections, "and kept, also where a file is not there for the moment");
});

test("a client is as the environment says", async (t) => {
  const write = await folder(t);
  const ca = authority();
  const mine = ca.issue("agent");
  const server = await Scripted.start(
    (call) =>
      call.answer(answer(call.headers.authorization === "Bearer secret" ? proto.Verdict.ALLOW : proto.Verdict.NONE)),
    { tls: { ...ca.issue("localhost"), ca: ca.cert, requestCert: true } },
  );
  const names = ["ADDRESS", "TOKEN_FILE", "CA_FILE", "CLIENT_CERT_FILE", "CLIENT_KEY_FILE"];
  const values = [
    `https://localhost:${server.port}`,
    await write("token", "secret\n"),
    await write("ca.pem", ca.cert),
    await write("cert.pem", mine.cert),
    await write("key.pem", mine.key),
  ];
  t.after(async () => {
    names.forEach((name) => delete process.env[`HOOKD_${name}`]);
    await server.kill();
  });
  names.forEach((name, at) => (process.env[`HOOKD_${name}`] = values[at]));
  const gate = await Client.fromEnvironment({ onUnavailable: "block" }).session("s").preToolUse("bash", {});
  assert.ok(isApproved(gate), gate.decision.error?.message);
  names.forEach((name) => (process.env[`HOOKD_${name}`] = ""));
  const nobody = Client.fromEnvironment({ onUnavailable: "allow", rounds: 1 });
  const { error } = (await nobody.trigger({ event: "PreToolUse" })).decision;
  assert.match(error?.message ?? "", /^hookd .*127\.0\.0\.1:50051/);
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
  assert.ok(isApproved(await session.preToolUse("bash", {})));
  assert.deepEqual([...tokens], ["Bearer one", "Bearer two"]);
  await write("token", "\n");
  const empty = await session.preToolUse("bash", {});
  assert.ok(empty.kind === "refuse" && empty.reason.endsWith("holds no token, expected one line of visible ASCII"));
  const lost = await client(server.address, "allow", { tokenFile: "/nowhere/token" })
    .session("s")
    .preToolUse("bash", {});
  assert.ok(lost.kind === "refuse" && lost.reason.endsWith("the token file `/nowhere/token` cannot be read: ENOENT"));
});

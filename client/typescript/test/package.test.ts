/** What is published works: packed, installed into an empty folder, and the README's loop run from there. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { promisify } from "node:util";

import { dead } from "./support/clients.js";
import { decide, Hookd } from "./support/hookd.js";

const PACKAGE = new URL("../..", import.meta.url).pathname;
const execute = promisify(execFile);

interface Lock {
  readonly packages: Record<string, { readonly version: string }>;
}

async function json<T>(path: string): Promise<T> {
  return JSON.parse(await readFile(path, "utf8")) as T;
}

/** Installs the packed package into an empty folder. */
async function installed(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "hookd-client-"));
  t.after(() => rm(folder, { recursive: true }));
  const npm = (args: string[], cwd: string) =>
    execute("npm", [...args, "--no-audit", "--no-fund", "--ignore-scripts"], { cwd });
  const packed = await npm(["pack", "--json", "--pack-destination", folder], PACKAGE);
  const [{ filename, files }] = JSON.parse(packed.stdout) as [{ filename: string; files: { path: string }[] }];
  const names = files.map(({ path }) => path);
  for (const name of ["LICENSE", "README.md", "package.json", "dist/index.js", "dist/index.d.ts"]) {
    assert.ok(names.includes(name), name);
  }
  assert.deepEqual(
    names.filter((name) => !/^(?:LICENSE|README\.md|ADAPTERS\.md|package\.json|dist\/.*\.(?:js|d\.ts))$/.test(name)),
    [],
  );
  // The versions that this commit was tested with.
  const { packages } = await json<Lock>(join(PACKAGE, "package-lock.json"));
  const pinned = ["@bufbuild/protobuf", "@grpc/grpc-js"].map(
    (name) => `${name}@${packages[`node_modules/${name}`]?.version}`,
  );
  await writeFile(join(folder, "package.json"), '{"private":true,"type":"module"}');
  await npm(["install", "--prefer-offline", `./${filename}`, ...pinned], folder);
  return folder;
}

test("the README's loop runs from the installed package", async (t) => {
  const folder = await installed(t);
  const readme = await readFile(join(folder, "node_modules/@hookd/client/README.md"), "utf8");
  const [, loop = ""] = /```js\n(.*?)```/s.exec(readme) ?? [];
  assert.ok(
    loop
      .split("\n")
      .slice(3)
      .filter((line) => line !== "").length <= 10,
    "ten lines after the imports",
  );
  await writeFile(join(folder, "loop.js"), loop);
  const hookd = await Hookd.start({
    rules: [
      decide("no-rm", "PreToolUse", "block", { when: "params.command.startsWith('rm ')" }, { reason: "no removing" }),
    ],
  });
  t.after(() => hookd.end());
  const run = async (address: string) =>
    (await execute(process.execPath, ["loop.js"], { cwd: folder, env: { ...process.env, HOOKD_ADDRESS: address } }))
      .stdout;
  assert.equal(await run(hookd.address), "hello\nrefuse: no removing\n");
  const gone = await dead();
  const refusal = `refuse: hookd cannot be reached at ${gone}: connection refused\n`;
  assert.equal(await run(gone), refusal + refusal);

  // Its types serve a strict caller, those of its dependencies included.
  await writeFile(join(folder, "loop.ts"), loop.replace("process.env.HOOKD_ADDRESS", 'process.env["HOOKD_ADDRESS"]'));
  const tsc = join(PACKAGE, "node_modules/typescript/bin/tsc");
  const options = [
    "--strict",
    "--noEmit",
    "--module",
    "nodenext",
    "--target",
    "es2022",
    "--exactOptionalPropertyTypes",
  ];
  const types = ["--typeRoots", join(PACKAGE, "node_modules/@types"), "--types", "node"];
  const checked = await execute(process.execPath, [tsc, ...options, ...types, "loop.ts"], { cwd: folder }).catch(
    (error: { stdout: string }) => error,
  );
  assert.equal(checked.stdout, "");
  // What is opt-in is there, and not loaded by the rest.
  const script = 'import("@hookd/client/agent-commands").then((all) => console.log(Object.keys(all).join()))';
  assert.equal(
    (await execute(process.execPath, ["-e", script], { cwd: folder })).stdout,
    "AgentSide,OfferedRules,nativeProgram\n",
  );
});

test("the package has the version of the workspace", async () => {
  const { version } = await json<{ version: string }>(join(PACKAGE, "package.json"));
  const workspace = await readFile(join(PACKAGE, "../../Cargo.toml"), "utf8");
  assert.equal(/^version = "(.*)"$/m.exec(workspace)?.[1], version);
});

/** A case that is left out does not type-check. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";

const PACKAGE = new URL("../..", import.meta.url).pathname;
const GATES = ["run", "ask", "suspend", "refuse", "continue", "halt"];
const OUTCOMES = ["ran", "failed", "refused", "suspended", "halted"];

/** The codes of the type checker's errors by file. The sources stand inside the package, to find it by its name. */
async function check(name: string, sources: Record<string, string>): Promise<Record<string, string[]>> {
  const folder = join(PACKAGE, "build", name);
  await mkdir(folder, { recursive: true });
  const compilerOptions = { strict: true, noEmit: true, module: "nodenext", target: "es2022", types: ["node"] };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions }));
  for (const [file, source] of Object.entries(sources)) {
    await writeFile(join(folder, `${file}.ts`), source);
  }
  const tsc = join(PACKAGE, "node_modules/typescript/bin/tsc");
  const said = await new Promise<string>((resolve) => {
    execFile(process.execPath, [tsc, "-p", folder], (_failed, stdout, stderr) => resolve(stdout + stderr));
  });
  await rm(folder, { recursive: true });
  const codes = Object.fromEntries(Object.keys(sources).map((file): [string, string[]] => [file, []]));
  for (const [line, file = "", code = ""] of said.matchAll(/^\S*?([\w-]+)\.ts\(\d+,\d+\): error (TS\d+).*$/gm)) {
    assert.ok(codes[file]?.push(code), line);
  }
  assert.equal(said.match(/error TS/g)?.length ?? 0, Object.values(codes).flat().length, said);
  return codes;
}

/** Two ways to go through all kinds: with a last resort, and without. */
function switches(type: string, kinds: string[]): string {
  const cases = kinds.map((kind) => `    case "${kind}": return 1;`).join("\n");
  const otherwise = type === "Gate" ? "return unhandled(it);" : "throw it satisfies never;";
  return `import { unhandled, type Gate, type ToolOutcome } from "@hookd/client";
export function withDefault(it: ${type}): number {
  switch (it.kind) {
${cases}
    default: ${otherwise}
  }
}
export function without(it: ${type}): number {
  switch (it.kind) {
${cases}
  }
}
export const unused = unhandled;
export type Unused = Gate | ToolOutcome<number>;
`;
}

test("a switch over all gates type-checks, and one that leaves any out does not", async () => {
  const sources: Record<string, string> = {};
  const expected: Record<string, string[]> = {};
  for (const [type, kinds, code] of [
    ["Gate", GATES, "TS2345"],
    ["ToolOutcome<number>", OUTCOMES, "TS1360"],
  ] as const) {
    const name = type.slice(0, 4);
    sources[`${name}-whole`] = switches(type, kinds);
    expected[`${name}-whole`] = [];
    for (const kind of kinds) {
      sources[`${name}-without-${kind}`] = switches(
        type,
        kinds.filter((other) => other !== kind),
      );
      // What is left is no `never`, and a function may not return.
      expected[`${name}-without-${kind}`] = [code, "TS2366"];
    }
  }
  assert.deepEqual(await check("types-of-gates", sources), expected);
});

test("`onUnavailable` is required, and is one of three", async () => {
  const start = 'import { Client } from "@hookd/client";\n';
  const codes = await check("types-of-options", {
    "left-out": `${start}new Client("h:1", {});`,
    unknown: `${start}new Client("h:1", { onUnavailable: "ask" });`,
    said: `${start}new Client("h:1", { onUnavailable: { blockExcept: ["grep"] } });`,
  });
  assert.deepEqual(codes, { "left-out": ["TS2741"], unknown: ["TS2322"], said: [] });
});

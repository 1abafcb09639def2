/** Programs of hookd's own rule files. @module */

import { statSync } from "node:fs";
import { dirname, isAbsolute, resolve } from "node:path";

import { parseJson } from "../json-parse.js";
import { JsonError, type JsonValue } from "../json-text.js";
import type { AgentProgram, OfferedCommand } from "./side.js";

/** What programs find of this process's environment; nothing else of it is passed on. */
const PASSED_ON = ["PATH", "HOME", "LANG", "TMPDIR"];
/** Longest value of a variable that holds something of the caller's. A longer one could keep a program from starting. */
const LONGEST_VALUE = 4096;

/** Variables of this process that every program finds. */
export function passedOn(): Record<string, string> {
  const env: Record<string, string> = {};
  for (const name of PASSED_ON) {
    const value = process.env[name];
    if (value !== undefined) {
      env[name] = value;
    }
  }
  return env;
}

/**
 * The program of a rule of a native rule file in JSON: a shell line or words, in the directory that the rule names or the
 * event's, with the variables of hookd and of the rule.
 *
 * @throws {@link JsonError} for files of other kinds (YAML, agents' own) and for rules that are no commands.
 */
export function nativeProgram({ file, index, ruleId, request }: OfferedCommand): AgentProgram {
  const rule = at(at(parsed(file.content, file.path), "hooks"), index);
  const handler = at(rule, "handler");
  if (at(handler, "type") !== "command") {
    throw new JsonError(`rule \`${ruleId}\` of ${file.path} is no command`);
  }
  if ((at(rule, "protocol") ?? "native") !== "native") {
    throw new JsonError(`rule \`${ruleId}\` of ${file.path} speaks a protocol that is not known here`);
  }
  const [command, words, shell, cwd] = ["command", "argv", "shell", "cwd"].map((key) => at(handler, key));
  const argv = Array.isArray(words) ? words : [shell ?? "sh", "-c", command];
  const added = at(handler, "env") ?? {};
  if (!argv.every(isText) || !Object.values(added).every(isText) || !(cwd === undefined || isText(cwd))) {
    throw new JsonError(`${file.path} has no command at ${index} that can be read`);
  }
  const said = {
    HOOKD_EVENT: request.event,
    HOOKD_TOOL: request.toolCall?.tool ?? "",
    HOOKD_SESSION_ID: request.sessionId,
    HOOKD_RULE_ID: ruleId,
    HOOKD_CWD: request.cwd,
  };
  // What is left out stands in the program's input anyway.
  const known = Object.entries(said).filter(([, value]) => value !== "" && !/\0/.test(value) && fits(value));
  const env = { ...passedOn(), ...Object.fromEntries(known), ...(added as Record<string, string>) };
  const folder =
    cwd === undefined ? [request.cwd, ...request.workspaceRoots].find(isFolder) : resolve(dirname(file.path), cwd);
  return { argv, env, ...(folder !== undefined && { cwd: folder }) };
}

function parsed(content: Uint8Array, path: string): JsonValue {
  try {
    return parseJson(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content));
  } catch (error) {
    throw new JsonError(`${path} is no rule file in JSON: ${(error as Error).message}`);
  }
}

/** What stands there, if anything does. */
function at(value: JsonValue | undefined, key: string | number): JsonValue | undefined {
  return typeof value === "object" && value !== null && Object.hasOwn(value, key)
    ? (value as Record<string, JsonValue>)[key]
    : undefined;
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function fits(value: string): boolean {
  return Buffer.byteLength(value) <= LONGEST_VALUE;
}

function isFolder(path: string): boolean {
  return isAbsolute(path) && statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** Writes values as JSON, and refuses what would not arrive as it is. @module */

import { JsonError, JsonNumber, JsonText } from "./json-text.js";

const MAX_DEPTH = 128;

/**
 * The JSON text of a value. Beside what JSON knows it takes `bigint`, {@link JsonNumber}, {@link JsonText} (as it is),
 * and objects with a `toJSON` of their own; properties that are `undefined` are left out.
 *
 * @throws {@link JsonError} for what JSON cannot say (`NaN`, functions, maps, …), and for an integer that is a `number`
 *   beyond 2^53: its last digits are lost already. Pass the text, or a `bigint`.
 */
export function writeJson(value: unknown): string {
  return written(value, "", 0) ?? fail("undefined", "");
}

function written(value: unknown, path: string, depth: number): string | undefined {
  switch (typeof value) {
    case "string":
    case "boolean":
      return JSON.stringify(value);
    case "number":
      return writtenNumber(value, path);
    case "bigint":
      return value.toString();
    case "undefined":
      return undefined;
    case "object":
      return value === null ? "null" : writtenObject(value, path, depth);
    case "function":
    case "symbol":
      return fail(`a ${typeof value}`, path);
  }
}

function writtenNumber(value: number, path: string): string {
  if (!Number.isFinite(value)) {
    return fail(String(value), path);
  }
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
    return fail(`${value}, whose last digits a number does not keep (pass JSON text or a bigint),`, path);
  }
  return Object.is(value, -0) ? "-0" : JSON.stringify(value);
}

function writtenObject(value: object, path: string, depth: number): string | undefined {
  if (depth >= MAX_DEPTH) {
    throw new JsonError(`nested deeper than ${MAX_DEPTH} levels`);
  }
  if (value instanceof JsonNumber || value instanceof JsonText) {
    return value.text;
  }
  if ("toJSON" in value && typeof value.toJSON === "function") {
    return written(value.toJSON(), path, depth + 1);
  }
  if (Array.isArray(value)) {
    const items = Array.from(value, (item: unknown, at) => written(item, `${path}[${at}]`, depth + 1) ?? "null");
    return `[${items.join(",")}]`;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== null && Object.prototype.toString.call(value) !== "[object Object]") {
    return fail(`a ${value.constructor.name}`, path);
  }
  const entries: string[] = [];
  for (const [key, item] of Object.entries(value)) {
    const text = written(item, `${path}.${key}`, depth + 1);
    if (text !== undefined) {
      entries.push(`${JSON.stringify(key)}:${text}`);
    }
  }
  return `{${entries.join(",")}}`;
}

function fail(what: string, path: string): never {
  throw new JsonError(`${what} ${path === "" ? "" : `at ${path} `}cannot be written as JSON`);
}

/**
 * JSON that keeps the digits of its numbers.
 *
 * A `number` holds 53 bits, and `JSON.parse` rounds what needs more without a word. What hookd judged and what runs
 * would then be two things. So JSON travels through this client as text, untouched, and {@link JsonText.value} is a
 * view of it in which nothing is rounded.
 *
 * @module
 */

import { parseJson } from "./json-parse.js";
import { writeJson } from "./json-write.js";

/** Any JSON value, as {@link parseJson} gives it and {@link writeJson} takes it. */
export type JsonValue = null | boolean | number | bigint | string | JsonNumber | JsonValue[] | JsonObject;

/** A JSON object. */
export interface JsonObject {
  [key: string]: JsonValue;
}

/** What is not JSON, or cannot be written as JSON. Its message is one line that says where and what. */
export class JsonError extends Error {
  override readonly name: string = "JsonError";
}

/** A number that neither a `number` nor a `bigint` can hold, such as `0.1000000000000000000001` or `1e400`. */
export class JsonNumber {
  /** The number as it was written. */
  readonly text: string;

  /**
   * @param text A number in JSON's form.
   * @throws {@link JsonError} for anything else.
   */
  constructor(text: string) {
    if (!/^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(text)) {
      throw new JsonError(`${JSON.stringify(text)} is not a JSON number`);
    }
    this.text = text;
  }

  toString(): string {
    return this.text;
  }
}

/** A JSON text, kept as it is. */
export class JsonText<V extends JsonValue = JsonValue> {
  /** The text, untouched. */
  readonly text: string;
  /** Only for the type checker. */
  declare private readonly holds: V;

  /** Takes the text as it is; whether it is JSON shows when somebody reads it. */
  constructor(text: string) {
    this.text = text;
  }

  /** The text of a value. See {@link writeJson} for what can be written. */
  static of<V extends JsonValue>(value: V): JsonText<V> {
    return new JsonText<V>(writeJson(value));
  }

  /**
   * A fresh value of this text. A number in it is a `number` where that is exactly the decimal that was written (an
   * integer: up to 2^53), else a `bigint` where it is written as an integer, else a {@link JsonNumber}.
   *
   * @throws {@link JsonError} for what is not JSON. Texts out of a gate always are.
   */
  value(): V {
    return parseJson(this.text) as V;
  }

  toString(): string {
    return this.text;
  }
}

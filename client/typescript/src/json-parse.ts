/** Reads JSON as the wire contract takes it: strictly, and without rounding. @module */

import { JsonError, JsonNumber, type JsonObject, type JsonValue } from "./json-text.js";

/** As deep as hookd reads. */
const MAX_DEPTH = 128;

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const WORDS = new Map<string, JsonValue>([
  ["true", true],
  ["false", false],
  ["null", null],
]);

/**
 * The value of a JSON text. Strict: no duplicate keys, no trailing data, no lone surrogates, at most 128 levels.
 * Numbers as {@link JsonText.value} says.
 *
 * @throws {@link JsonError} for anything else.
 */
export function parseJson(text: string): JsonValue {
  return new Reader(text).whole();
}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  whole(): JsonValue {
    if (!this.#text.isWellFormed()) {
      throw new JsonError("the text holds a lone surrogate");
    }
    const value = this.#value(0);
    this.#space();
    if (this.#at < this.#text.length) {
      throw this.#unexpected("the end");
    }
    return value;
  }

  #value(depth: number): JsonValue {
    if (depth > MAX_DEPTH) {
      throw new JsonError(`nested deeper than ${MAX_DEPTH} levels at offset ${this.#at}`);
    }
    this.#space();
    switch (this.#text[this.#at]) {
      case "{":
        return this.#object(depth);
      case "[":
        return this.#array(depth);
      case '"':
        return this.#string();
      default:
        return this.#wordOrNumber();
    }
  }

  #object(depth: number): JsonObject {
    const object: JsonObject = {};
    this.#at += 1;
    this.#space();
    if (this.#taken("}")) {
      return object;
    }
    for (;;) {
      this.#space();
      const key = this.#string();
      if (Object.hasOwn(object, key)) {
        throw new JsonError(`duplicate key ${JSON.stringify(key)} at offset ${this.#at}`);
      }
      this.#space();
      this.#take(":");
      const value = this.#value(depth + 1);
      if (key === "__proto__") {
        Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
      } else {
        object[key] = value;
      }
      this.#space();
      if (this.#taken("}")) {
        return object;
      }
      this.#take(",");
    }
  }

  #array(depth: number): JsonValue[] {
    const array: JsonValue[] = [];
    this.#at += 1;
    this.#space();
    if (this.#taken("]")) {
      return array;
    }
    for (;;) {
      array.push(this.#value(depth + 1));
      this.#space();
      if (this.#taken("]")) {
        return array;
      }
      this.#take(",");
    }
  }

  #string(): string {
    const start = this.#at;
    if (this.#text[start] !== '"') {
      throw this.#unexpected("a string");
    }
    // The common case by hand: an expression that matches megabytes costs a stack.
    const end = this.#text.indexOf('"', start + 1);
    const plain = this.#text.slice(start + 1, end);
    if (end > 0 && !/[\\\u0000-\u001f]/.test(plain)) {
      this.#at = end + 1;
      return plain;
    }
    const quoted = this.#quoted(start);
    this.#at = start + quoted.length;
    const text = JSON.parse(quoted) as string;
    if (!text.isWellFormed()) {
      throw new JsonError(`a lone surrogate at offset ${start}`);
    }
    return text;
  }

  /** The string at `start`, with its quotes and escapes. */
  #quoted(start: number): string {
    let end = start;
    do {
      end = this.#text.indexOf('"', end + 1);
      if (end < 0) {
        throw new JsonError(`a string without an end at offset ${start}`);
      }
    } while (this.#isEscaped(end));
    const quoted = this.#text.slice(start, end + 1);
    try {
      JSON.parse(quoted);
    } catch {
      throw new JsonError(`a broken string at offset ${start}`);
    }
    return quoted;
  }

  #isEscaped(at: number): boolean {
    let backslashes = 0;
    while (this.#text[at - 1 - backslashes] === "\\") {
      backslashes += 1;
    }
    return backslashes % 2 === 1;
  }

  #wordOrNumber(): JsonValue {
    NUMBER.lastIndex = this.#at;
    const number = NUMBER.exec(this.#text);
    if (number !== null) {
      this.#at = NUMBER.lastIndex;
      return numberOf(number[0], number[1] === undefined && number[2] === undefined);
    }
    for (const [word, value] of WORDS) {
      if (this.#text.startsWith(word, this.#at)) {
        this.#at += word.length;
        return value;
      }
    }
    throw this.#unexpected("a value");
  }

  #space(): void {
    SPACE.lastIndex = this.#at;
    SPACE.test(this.#text);
    this.#at = SPACE.lastIndex;
  }

  #taken(char: string): boolean {
    const taken = this.#text[this.#at] === char;
    this.#at += taken ? 1 : 0;
    return taken;
  }

  #take(char: string): void {
    if (!this.#taken(char)) {
      throw this.#unexpected(`\`${char}\``);
    }
  }

  #unexpected(expected: string): JsonError {
    const seen = this.#at < this.#text.length ? JSON.stringify(this.#text.charAt(this.#at)) : "the end";
    return new JsonError(`expected ${expected} at offset ${this.#at}, found ${seen}`);
  }
}

function numberOf(text: string, isInteger: boolean): number | bigint | JsonNumber {
  const number = Number(text);
  if (isInteger && text !== "-0") {
    return Number.isSafeInteger(number) ? number : BigInt(text);
  }
  const isKept = Number.isInteger(number) ? Number.isSafeInteger(number) : Number.isFinite(number);
  return isKept && sameDecimal(text, String(number)) ? number : new JsonNumber(text);
}

/** Whether two texts of numbers mean the same decimal. `-0` is no `0`. */
function sameDecimal(one: string, other: string): boolean {
  return one === other || canonical(one) === canonical(other);
}

/** Sign, digits without zeros around them, and the power of ten behind them. */
function canonical(text: string): string {
  const [, sign = "", whole = "", fraction = "", power = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  const digits = (whole + fraction).replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  if (significant === "") {
    return `${sign}0`;
  }
  const exponent = BigInt(power) - BigInt(fraction.length) + BigInt(digits.length - significant.length);
  return `${sign}${significant}e${exponent}`;
}

/** JSON keeps its digits, both ways. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { JsonError, JsonNumber, JsonText, parseJson, writeJson } from "@hookd/client";

test("case_045 numbers are never rounded", () => {
  const rows: [string, unknown][] = [
    ["0", 0],
    ["-7", -7],
    ["9007199254740991", 9007199254740991],
    ["9007199254740992", 9007199254740992n],
    ["9007199254740993", 9007199254740993n],
    ["-123456789012345678901234567890", -123456789012345678901234567890n],
    ["0.1", 0.1],
    ["-2.5e-3", -0.0025],
    ["1e400", new JsonNumber("1e400")],
    ["0.30000000000000004441", new JsonNumber("0.30000000000000004441")],
    ["3.141592653589793238462643383279", new JsonNumber("3.141592653589793238462643383279")],
    ["-0", new JsonNumber("-0")],
    ["-0.0", new JsonNumber("-0.0")],
    ["1e-400", new JsonNumber("1e-400")],
    ["5e-324", 5e-324],
    ["1.7976931348623157e308", new JsonNumber("1.7976931348623157e308")],
    ["1e21", new JsonNumber("1e21")],
  ];
  for (const [text, value] of rows) {
    assert.deepStrictEqual(parseJson(text), value, text);
    if (text !== "-2.5e-3") {
      assert.equal(writeJson(parseJson(text)), text);
    }
  }
  // The same decimal in other words.
  assert.deepStrictEqual(parseJson("[1.0, 1e3, 1E+2, 0.10, 0.0, 100e-2]"), [1, 1000, 100, 0.1, 0, 1]);
});

test("every value comes back as it went", () => {
  const texts = [
    '{"a":[1,2.5,null,true,false,""],"b":{"c":{}},"d":[]}',
    '"\\u0001 \\"quoted\\" \\\\ / 漢字 😀 é"',
    '{"":0,"__proto__":{"x":1},"constructor":2,"toString":3}',
    "[[[[]]]]",
  ];
  for (const text of texts) {
    assert.equal(writeJson(parseJson(text)), text);
    assert.deepEqual(JSON.parse(writeJson(parseJson(text))), JSON.parse(text));
  }
  assert.equal(Object.getPrototypeOf(parseJson('{"__proto__":{"x":1}}')), Object.prototype);
  assert.deepEqual(parseJson(' { "a" : [ 1 , "\\/\\u00e9\\ud83d\\ude00\\\\" ] } \n'), { a: [1, "/é😀\\"] });
});

test("what is not strict JSON is refused, and says where", () => {
  const rows: [string, RegExp][] = [
    ["", /expected a value at offset 0, found the end/],
    ["{", /expected a string at offset 1, found the end/],
    ['{"a":1,}', /expected a string at offset 7, found "}"/],
    ['{"a":1,"a":2}', /duplicate key "a"/],
    ["[1,]", /expected a value at offset 3/],
    ["[1 2]", /expected `,` at offset 3, found "2"/],
    ["01", /expected the end at offset 1/],
    ["+1", /expected a value/],
    ["1.", /expected the end at offset 1/],
    [".5", /expected a value/],
    ["NaN", /expected a value/],
    ["'a'", /expected a value/],
    ['"a', /a string without an end at offset 0/],
    ['"\\', /a string without an end/],
    ['"\\x"', /a broken string at offset 0/],
    ['"\n"', /a broken string at offset 0/],
    ['"\\ud800"', /a lone surrogate at offset 0/],
    ['"\ud800"', /the text holds a lone surrogate/],
    ["{} {}", /expected the end at offset 3/],
    ["nul", /expected a value/],
    ["\ufeff1", /expected a value/],
    ["[".repeat(200) + "]".repeat(200), /nested deeper than 128 levels/],
  ];
  for (const [text, message] of rows) {
    assert.throws(
      () => parseJson(text),
      (error) => error instanceof JsonError && message.test(error.message),
      text,
    );
  }
});

test("what would not arrive as it is cannot be written", () => {
  const circle: { self?: unknown } = {};
  circle.self = circle;
  const rows: [unknown, RegExp][] = [
    [NaN, /NaN cannot be written as JSON/],
    [{ a: [Infinity] }, /Infinity at \.a\[0\] cannot/],
    [{ id: 9007199254740993 }, /9007199254740992, whose last digits .* at \.id cannot/],
    [undefined, /undefined cannot/],
    [() => 1, /a function cannot/],
    [{ a: Symbol("s") }, /a symbol at \.a cannot/],
    [new Map([[1, 2]]), /a Map cannot/],
    [{ a: new Uint8Array(1) }, /a Uint8Array at \.a cannot/],
    [circle, /nested deeper than 128 levels/],
  ];
  for (const [value, message] of rows) {
    assert.throws(
      () => writeJson(value),
      (error) => error instanceof JsonError && message.test(error.message),
    );
  }
  class Point {
    x = 1;
    #y = 2;
    get y() {
      return this.#y;
    }
  }
  const value = {
    big: 123456789012345678901234567890n,
    exact: new JsonNumber("0.10000000000000000001"),
    text: new JsonText('{"n": 1.0}'),
    date: new Date(0),
    gone: undefined,
    list: [undefined, new Point()],
    minus: -0,
  };
  assert.equal(
    writeJson(value),
    '{"big":123456789012345678901234567890,"exact":0.10000000000000000001,"text":{"n": 1.0},' +
      '"date":"1970-01-01T00:00:00.000Z","list":[null,{"x":1}],"minus":-0}',
  );
  assert.throws(() => new JsonNumber("0x10"), JsonError);
});

test("what is JSON is what `JSON.parse` takes, strict rules apart", () => {
  // A fixed series of numbers: what fails fails again.
  let state = 1;
  const below = (limit: number) => (state = (state * 48271) % 0x7fffffff) % limit;
  const pieces = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"a"',
    '"b\\n"',
    '"',
    "\\",
    "1",
    "-",
    "0",
    ".5",
    "e3",
    "true",
    "null",
    " ",
    "\t",
    "é",
  ];
  let taken = 0;
  for (let round = 0; round < 30_000; round += 1) {
    const text = Array.from({ length: 1 + below(7) }, () => pieces[below(pieces.length)]).join("");
    let expected: string | undefined;
    try {
      expected = JSON.stringify(JSON.parse(text));
    } catch {
      expected = undefined;
    }
    let read: string | undefined;
    try {
      read = JSON.stringify(JSON.parse(writeJson(parseJson(text))));
    } catch (error) {
      assert.ok(error instanceof JsonError, text);
      read = error.message.startsWith("duplicate key") ? expected : undefined;
    }
    assert.equal(read, expected, text);
    taken += expected === undefined ? 0 : 1;
  }
  assert.ok(taken > 1000, `${taken}`);
});

test("a text of megabytes is read in no time and without a deep stack", () => {
  const text = JSON.stringify({ a: 'x"\\'.repeat(1_000_000), b: Array.from({ length: 100_000 }, (_, at) => at) });
  assert.equal(writeJson(parseJson(text)), text);
});

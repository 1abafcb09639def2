/** The client against the table of what every client does, and against the golden vectors: see `tests/conformance`. */

import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";

import type { Client, Gate, OnUnavailable } from "@hookd/client";
import type { JsonValue } from "@bufbuild/protobuf";

import { client } from "./support/clients.js";
import { Hookd } from "./support/hookd.js";
import {
  checkKeys,
  expected,
  holds,
  message,
  read,
  requestOf,
  ROOT,
  Scripts,
  seen,
  type Call,
  type ClientOf,
  type Expected,
  type Row,
  type ServerOf,
} from "./support/table.js";

/** How many callers there are under which a server goes away, and how many answers there are before it does. */
const [CALLERS, ENOUGH] = [4, 20];
const LIMIT_MS = 60_000;

const scripts = new Scripts();
const rows = read("table.json") as Row[];
const ran = new Set<string>();

after(() => scripts.close());

/** A row that is being run. */
class Running {
  readonly row: Row;
  readonly addresses: string[] = [];
  readonly #servers: (Hookd | undefined)[] = [];

  constructor(row: Row) {
    this.row = row;
  }

  async start(): Promise<void> {
    for (const server of this.row.servers ?? []) {
      await this.#start(server);
    }
  }

  async end(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server?.end()));
  }

  /** Starts the first server again, where it was. */
  async restart(): Promise<void> {
    const server = this.row.servers?.[0];
    assert.ok(typeof server === "object" && "hookd" in server);
    this.#servers[0] = await Hookd.start({ ...server.hookd, port: Number(this.addresses[0]?.split(":")[1]) });
  }

  get first(): Hookd {
    const [server] = this.#servers;
    assert.ok(server !== undefined);
    return server;
  }

  get calls(): readonly Call[] {
    return this.row.calls ?? [];
  }

  client(): Client {
    return clientOf(this.row.client, this.addresses);
  }

  check(call: Call, gate: Gate): void {
    check(expected(call), gate, this.addresses);
  }

  async #start(server: ServerOf): Promise<void> {
    if (server === "dead") {
      this.#servers.push(undefined);
      this.addresses.push(await scripts.order({ dead: true }));
    } else if ("scripted" in server) {
      this.#servers.push(undefined);
      this.addresses.push(await scripts.order({ serve: server.scripted }));
    } else {
      const hookd = await Hookd.start(server.hookd);
      this.#servers.push(hookd);
      this.addresses.push(hookd.address);
    }
  }
}

/** How each kind of row is run. */
const KINDS: Readonly<Record<string, (running: Running) => Promise<void>>> = {
  async calls(running) {
    for (let number = 0; number < (running.row.clients ?? 1); number += 1) {
      await eachCall(running, running.client());
    }
  },

  async each_status({ row }) {
    for (const { status, error, reason, gates } of row.statuses ?? []) {
      const addresses = [await scripts.order({ serve: [{ status }] })];
      const lines = gates.split(" ");
      assert.equal(lines.length, row.settings?.length);
      for (const [at, line] of lines.entries()) {
        const asks = clientOf(row.client, addresses, row.settings?.[at]);
        assert.equal(line.length, row.requests?.length);
        for (const [place, cell] of [...line].entries()) {
          assert.match(cell, /[RX]/);
          const gate = cell === "R" ? { kind: "run", approved: false } : { kind: "refuse", reason };
          check({ gate, error }, await asks.trigger(message(row.requests?.[place] as JsonValue)), addresses);
        }
      }
    }
  },

  async at_once(running) {
    const asks = running.client();
    const times = running.row.times ?? 0;
    const calls = Array.from({ length: times }, (_, at) => running.calls[at % running.calls.length] as Call);
    const gates = await Promise.all(calls.map((call) => asks.trigger(requestOf(call))));
    gates.forEach((gate, at) => running.check(calls[at] as Call, gate));
    assert.equal(new Set(gates.map((gate) => gate.decision.id)).size, times);
  },

  async killed_in_call(running) {
    const [call] = running.calls;
    assert.ok(call !== undefined);
    const asked = running.client().trigger(requestOf(call));
    await begun(running);
    await running.first.end("SIGKILL");
    running.check(call, await asked);
  },

  async while_busy(running) {
    const asks = running.client();
    const busy = asks.trigger(message(running.row.busy as JsonValue));
    await begun(running);
    await eachCall(running, asks);
    await running.first.end("SIGKILL");
    await busy;
  },

  async under_calls(running) {
    const { row } = running;
    const asks = running.client();
    const wanted = running.calls.map(expected);
    const [call] = running.calls;
    assert.ok(call !== undefined);
    let [isOver, answered, ended] = [false, 0, 0];
    const caller = async () => {
      try {
        while (!isOver) {
          const found = seen(await asks.trigger(requestOf(call)));
          assert.ok(
            wanted.some((one) => holds(one, found, running.addresses)),
            JSON.stringify(found),
          );
          answered += found.error === undefined ? 1 : 0;
        }
      } finally {
        ended += 1;
      }
    };
    const callers = Promise.allSettled(Array.from({ length: CALLERS }, caller));
    const more = () => {
      const enough = answered + ENOUGH;
      return until(() => answered >= enough || ended === CALLERS);
    };
    try {
      await pause(row.forMs ?? 0);
      for (let time = 0; time < (row.times ?? 0); time += 1) {
        await more();
        await running.first.end(row.signal);
        if (row.restart === true) {
          await running.restart();
        }
      }
      await more();
    } finally {
      isOver = true;
    }
    for (const end of await callers) {
      assert.equal(end.status, "fulfilled", end.status === "rejected" ? String(end.reason) : "");
    }
  },
};

for (const row of rows) {
  const without = row.without?.["typescript"];
  test(row.name, { skip: without === undefined ? false : `not in TypeScript: ${without}` }, async (t) => {
    ran.add(row.name);
    checkKeys(row);
    const run = KINDS[row.kind];
    assert.ok(run !== undefined, `no kind of rows is called ${row.kind}`);
    const running = new Running(row);
    t.after(() => running.end());
    await running.start();
    await run(running);
    if (row.asked !== undefined) {
      assert.equal(Number(await scripts.order({ asked: running.addresses[0] })), row.asked);
    }
  });
  if (without !== undefined) {
    ran.add(row.name);
  }
}

test("every row was run", () => {
  assert.deepEqual([...ran].sort(), rows.map(({ name }) => name).sort());
});

test("every golden vector", async () => {
  const vectors = new URL("tests/vectors/", ROOT);
  const gates = read("vectors.json") as (Expected & { vector: string })[];
  const files = readdirSync(vectors, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".json"));
  assert.equal(gates.length, files.length);
  const addresses = [await scripts.order({ replay: true })];
  const asks = clientOf({ onUnavailable: "block" }, addresses);
  for (const { vector, ...wanted } of gates) {
    const file = JSON.parse(readFileSync(new URL(`${vector}.json`, vectors), "utf8")) as { request: JsonValue };
    const found = seen(await asks.trigger(message(file.request)));
    assert.ok(holds(wanted, found, addresses), `${vector}: ${JSON.stringify(found)} is not ${JSON.stringify(wanted)}`);
  }
  assert.equal(Number(await scripts.order({ asked: addresses[0] })), gates.length);
});

function clientOf({ onUnavailable, ...more }: ClientOf, addresses: readonly string[], setting?: OnUnavailable): Client {
  const said = onUnavailable ?? setting;
  assert.ok(said !== undefined);
  return client(addresses.join(","), said, more);
}

async function eachCall(running: Running, asks: Client): Promise<void> {
  for (const call of running.calls) {
    running.check(call, await asks.trigger(requestOf(call)));
  }
}

function check(wanted: Expected, gate: Gate, addresses: readonly string[]): void {
  const found = seen(gate);
  assert.ok(holds(wanted, found, addresses), `${JSON.stringify(found)}\nis not\n${JSON.stringify(wanted)}`);
}

/** Waits until the handler of a call has begun: it makes that file. */
async function begun({ first }: Running): Promise<void> {
  await until(() => existsSync(join(first.folder, "begun")));
}

async function until(is: () => boolean): Promise<void> {
  const limit = performance.now() + LIMIT_MS;
  while (!is()) {
    assert.ok(performance.now() < limit, "in time");
    await pause(5);
  }
}

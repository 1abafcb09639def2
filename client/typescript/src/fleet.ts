/**
 * All replicas: who they are, whose turn it is, and how to get to one of them. The same as in the Rust client, whose
 * documentation says it in full. @module
 */

import { isIPv6 } from "node:net";

import { onAbort } from "./abort.js";
import type { Address } from "./address.js";
import { CallError, notTrusted, unreachable } from "./call-error.js";
import type { Failures } from "./failures.js";
import { isLoopback, type Resolve } from "./resolve.js";
import { Connection, type ConnectionOptions } from "./transport.js";

/** How old what is known of names may be. */
const RESOLVED_FOR_MS = 30_000;
/** After the loss of a replica, names are looked up again where what is known is older than this. */
const RESOLVED_FOR_AT_LEAST_MS = 1000;
/** How long a replica is left alone after it has failed once; it doubles with each further failure. */
const FIRST_REST_MS = 100;
const LONGEST_REST_MS = 10_000;
/** How long a replica may take to connect before another one is tried as well. */
const HEAD_START_MS = 250;

/** One hookd of several, and the connection to it. */
export class Replica {
  readonly address: Address;
  /** What the transport takes. */
  readonly target: string;
  /** The address as it was written, and what it stands for where it is a name. */
  readonly name: string;
  /** Made when its turn comes, and again whenever it is lost. */
  connection: Connection | undefined;
  /** It has failed: others have their turn until then. */
  restsUntil = 0;
  /** Since it last gave an answer. */
  failures = 0;

  constructor(address: Address, target: string, name: string) {
    this.address = address;
    this.target = target;
    this.name = name;
  }

  /** Its connection, if it has one and does not rest. */
  ready(now: number): Connection | undefined {
    if (this.connection?.isLost() === true) {
      this.retire(this.connection);
    }
    return this.restsUntil <= now && this.connection?.settled === "connected" ? this.connection : undefined;
  }

  /** It gave no answer over `connection`: others have their turn, and the connection is made anew. */
  hasFailed(connection: Connection): void {
    // Only the first of all the calls on it counts.
    if (this.retire(connection)) {
      this.rest();
    }
  }

  rest(): void {
    const longest = Math.min(FIRST_REST_MS * 2 ** this.failures, LONGEST_REST_MS);
    this.failures += 1;
    this.restsUntil = performance.now() + (longest * (1 + Math.random())) / 2;
  }

  /** Uses it no more; calls that are on it still end on it. Whether it was in use. */
  retire(connection: Connection): boolean {
    const isCurrent = this.connection === connection;
    if (isCurrent) {
      this.connection = undefined;
      connection.close();
    }
    return isCurrent;
  }
}

/** A replica and its connection, for one attempt. */
export interface Reached {
  readonly replica: Replica;
  readonly connection: Connection;
}

/** What is known of the replicas. */
export interface Known {
  readonly replicas: readonly Replica[];
  /** What names, of which nothing is known, could not be looked up for. */
  readonly unresolved: readonly CallError[];
  /** When the look-up of this was begun. */
  readonly resolvedAt: number | undefined;
}

/** The replicas behind the addresses of a client. */
export class Fleet {
  readonly addresses: readonly Address[];
  readonly #options: ConnectionOptions;
  readonly #resolve: Resolve;
  readonly #hasNames: boolean;
  #known: Known;
  #resolving: Promise<void> | undefined;
  /** Counts on, modulo; starts somewhere. */
  #turn = Math.floor(Math.random() * 2 ** 30);
  /** Whose turn it is among the others where one cannot take its own. */
  #standIn = this.#turn;

  constructor(addresses: readonly Address[], resolve: Resolve, options: ConnectionOptions) {
    this.addresses = addresses;
    this.#resolve = resolve;
    this.#options = options;
    this.#hasNames = addresses.some(({ isName }) => isName);
    const replicas = addresses.filter(({ isName }) => !isName).map((one) => new Replica(one, one.target, one.text));
    this.#known = { replicas, unresolved: [], resolvedAt: undefined };
  }

  /** What is known of the replicas; where there are names, by a look-up that was begun after `since`. */
  async known(since: number | undefined): Promise<Known> {
    const at = this.#known.resolvedAt;
    if (this.#hasNames && (at === undefined || (since !== undefined && at < since))) {
      await this.#lookUp();
    } else if (this.#hasNames && at !== undefined && performance.now() - at > RESOLVED_FOR_MS) {
      void this.#lookUp();
    }
    return this.#known;
  }

  /** A replica was lost: where it went may be known by now. */
  hasLost(): void {
    const at = this.#known.resolvedAt;
    if (this.#hasNames && (at === undefined || performance.now() - at > RESOLVED_FOR_AT_LEAST_MS)) {
      void this.#lookUp();
    }
  }

  /**
   * A replica that is not among `tried`: the next one of those that are ready, or else the first of the others whose
   * connection is made, or cannot be made: what it met is said by a call. `undefined`: there is none left, or no time.
   */
  async reach(
    known: Known,
    tried: Set<Replica>,
    failures: Failures,
    leftMs: () => number,
    signal: AbortSignal | undefined,
  ): Promise<Reached | undefined> {
    const ready = this.#ready(known, tried);
    if (ready !== undefined) {
      return ready;
    }
    const begun: Reached[] = [];
    const candidates = this.#candidates(known, tried);
    for (const [place, replica] of candidates.entries()) {
      try {
        begun.push({ replica, connection: this.#connect(replica) });
      } catch (error) {
        failures.add(notTrusted((error as Error).message, replica.name));
        tried.add(replica);
      }
      if (begun.length > 0) {
        const isLast = place + 1 === candidates.length;
        const ends = begun.map(({ connection }) => connection.whenSettled);
        await within(isLast ? leftMs() : Math.min(HEAD_START_MS, leftMs()), ends, signal);
        // One that is made comes before one that failed.
        const end =
          begun.find(({ connection }) => connection.settled === "connected") ??
          begun.find(({ connection }) => connection.settled === "failed");
        if (end !== undefined) {
          return end;
        }
      }
    }
    return undefined;
  }

  /** The names of all replicas, and of the addresses that none is known of. */
  names({ replicas }: Known): string[] {
    const ofNone = this.addresses.filter((one) => !replicas.some(({ address }) => address === one));
    return [...replicas.map(({ name }) => name), ...ofNone.map(({ text }) => text)];
  }

  /** Closes all connections once their calls have ended. */
  close(): void {
    for (const replica of this.#known.replicas) {
      if (replica.connection !== undefined) {
        replica.retire(replica.connection);
      }
    }
  }

  /** The replica whose turn it is, if it is ready; else one of the others that are, in turn: the share of one goes to all. */
  #ready({ replicas }: Known, tried: ReadonlySet<Replica>): Reached | undefined {
    const now = performance.now();
    this.#turn += 1;
    const inTurn = replicas[this.#turn % replicas.length];
    if (inTurn === undefined) {
      return undefined;
    }
    const own = tried.has(inTurn) ? undefined : inTurn.ready(now);
    if (own !== undefined) {
      return { replica: inTurn, connection: own };
    }
    const ready: Reached[] = [];
    for (const replica of replicas) {
      const connection = tried.has(replica) ? undefined : replica.ready(now);
      if (connection !== undefined) {
        ready.push({ replica, connection });
      }
    }
    if (ready.length === 0) {
      return undefined;
    }
    if (!tried.has(inTurn) && inTurn.connection === undefined && inTurn.restsUntil <= now) {
      // For its next turn.
      this.hasLost();
      try {
        this.#connect(inTurn);
      } catch {
        // Of its files; the call is made at another one.
        inTurn.rest();
      }
    }
    this.#standIn += 1;
    return ready[this.#standIn % ready.length];
  }

  /** Those that are not among `tried`, each call from another one on; those that rest come last, the longest rest at the end. */
  #candidates({ replicas }: Known, tried: ReadonlySet<Replica>): Replica[] {
    const now = performance.now();
    this.#standIn += 1;
    const start = this.#standIn % Math.max(replicas.length, 1);
    const inOrder = [...replicas.slice(start), ...replicas.slice(0, start)].filter((replica) => !tried.has(replica));
    const rests = ({ restsUntil }: Replica) => (restsUntil > now ? restsUntil : 0);
    return inOrder.sort((one, other) => rests(one) - rests(other));
  }

  /** The connection that calls share; begins to make it if there is none. Throws where a file cannot be used. */
  #connect(replica: Replica): Connection {
    if (replica.connection !== undefined && !replica.connection.isLost()) {
      return replica.connection;
    }
    const connection = new Connection(replica.address, replica.target, replica.name, this.#options);
    replica.connection = connection;
    void connection.whenSettled.then(() => {
      if (connection.settled === "connected") {
        replica.restsUntil = 0;
      } else {
        replica.hasFailed(connection);
        this.hasLost();
      }
    });
    return connection;
  }

  /** Looks all names up; whoever wants it meanwhile waits for the same. */
  #lookUp(): Promise<void> {
    this.#resolving ??= this.#lookedUp(this.#known, performance.now()).then((known) => {
      this.#known = known;
      this.#resolving = undefined;
    });
    return this.#resolving;
  }

  async #lookedUp(before: Known, resolvedAt: number): Promise<Known> {
    const replicas: Replica[] = [];
    const unresolved: CallError[] = [];
    for (const address of this.addresses) {
      const there = before.replicas.filter((replica) => replica.address === address);
      try {
        replicas.push(...(address.isName ? await this.#places(address, there) : there));
      } catch (error) {
        const failure = error as CallError;
        // Better those that were there a moment ago than none.
        if (failure.kind === "not-trusted" || there.length === 0) {
          unresolved.push(failure);
        } else {
          replicas.push(...there);
        }
      }
    }
    for (const gone of before.replicas) {
      if (gone.connection !== undefined && !replicas.includes(gone)) {
        gone.retire(gone.connection);
      }
    }
    return { replicas, unresolved, resolvedAt };
  }

  /** The replicas behind a name. Those that were known stay what they are. Rejects with a {@link CallError}. */
  async #places(address: Address, there: readonly Replica[]): Promise<Replica[]> {
    const { host, port, text } = address;
    let places: Awaited<ReturnType<Resolve>>;
    try {
      places = await this.#resolve(host, port);
    } catch (error) {
      throw unreachable(`the name cannot be looked up: ${(error as Error).message}`, text);
    }
    if (places.length === 0) {
      throw unreachable("the name has no address", text);
    }
    if (address.onThisMachine && !address.tls && !places.every(({ ip }) => isLoopback(ip))) {
      // What is plain for being local must be so: a name says nothing.
      throw notTrusted("it is not on this machine, and there is no TLS", text);
    }
    const at = new Set(places.map(({ ip, port: of }) => (isIPv6(ip) ? `[${ip}]:${of}` : `${ip}:${of}`)));
    return Array.from(at, (place) => {
      const target = `dns:///${place}`;
      return there.find((replica) => replica.target === target) ?? new Replica(address, target, `${text} (${place})`);
    });
  }
}

/** Waits for the first of these, at most so long. Rejects with the reason of an aborted signal. */
export async function within<T>(
  ms: number,
  what: readonly Promise<T>[],
  signal: AbortSignal | undefined,
): Promise<T | undefined> {
  let stop: (() => void) | undefined;
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
    stop = signal && onAbort(signal, () => resolve(undefined));
  });
  try {
    return await Promise.race([over, ...what]);
  } finally {
    clearTimeout(timer);
    stop?.();
    signal?.throwIfAborted();
  }
}

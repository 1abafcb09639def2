/** The caller's side of rules whose commands run where the agent is. @module */

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";

import type { CallOptions } from "../asker.js";
import { gateBy, inside, type Client, type TriggerInit } from "../client.js";
import type { Gate } from "../gate.js";
import type { OwnRules } from "../session.js";
import { Tier, type OfferedFile, type TriggerRequest, type TriggerResponse } from "../gen/hookd/v1/hook_service_pb.js";
import { nativeProgram } from "./native.js";
import { Places } from "./places.js";
import { askWithCommands } from "./stream.js";

/** How long {@link AgentSide.shutdown} waits for killed groups to be gone. */
const REAP_LIMIT_MS = 5000;

/** A tier that a caller can bring rules of: a plugin's, a project's (`shared`), a person's (`local`). */
export type OfferTier = "plugin" | "shared" | "local";

const TIERS: Readonly<Record<OfferTier, Tier>> = { plugin: Tier.PLUGIN, shared: Tier.SHARED, local: Tier.LOCAL };

/** Knows the commands of offered files. */
export interface AgentCommands {
  /**
   * The program of a rule, out of this side's own copy of its file. What it throws says why there is none to run, in
   * one line; the rule then fails with `FAILURE_NOT_PERMITTED`.
   */
  program(command: OfferedCommand): AgentProgram | Promise<AgentProgram>;

  /**
   * Takes a program that nobody waits for (an async rule), and says so. One that is not taken runs in the background of
   * this process, under its time limit, and is killed if the process ends first.
   */
  detach?(program: DetachedProgram): boolean;
}

/** A command that hookd asks for. */
export interface OfferedCommand {
  /** The file, as it was offered. */
  readonly file: OfferedRules;
  /**
   * The rule's place among all entries of the file, in their order there, those that are not in force included; from 0.
   */
  readonly index: number;
  /** The rule's id as hookd has it, for messages. */
  readonly ruleId: string;
  /** The event. */
  readonly request: TriggerRequest;
}

/** A program to run, without its input. */
export interface AgentProgram {
  /** The program and its arguments. A program without a slash is looked up in the `PATH` of `env`. */
  readonly argv: readonly string[];
  /** The whole environment: nothing of this process is inherited. */
  readonly env: Readonly<Record<string, string>>;
  /** The directory to run in. Absent: the event's `cwd`, or this process's own where it has none. */
  readonly cwd?: string;
}

/** A program that nobody waits for. */
export interface DetachedProgram {
  /** The program, with its directory. */
  readonly program: AgentProgram;
  /** What it reads on stdin, to its end. */
  readonly stdin: Uint8Array;
  /** How long it may run, in milliseconds. */
  readonly timeoutMs: number;
}

/** How an {@link AgentSide} runs. */
export interface AgentSideOptions {
  /**
   * Lets hookd run programs of its *own* rules with `runOn: agent` here: it sends the command line. `false` unless set,
   * and to be set only where the server may run anything on this machine.
   */
  readonly serverPrograms?: boolean;
}

/** A rule file to offer. */
export class OfferedRules {
  readonly tier: OfferTier;
  /** Absolute; hookd names it in results and never opens it. */
  readonly path: string;
  /** `hookd`, `claude-code`, or empty: by its shape. */
  readonly format: string;
  readonly content: Uint8Array;
  /** SHA-256 of the content, lowercase hex. */
  readonly sha256: string;

  constructor(tier: OfferTier, path: string, format: string, content: Uint8Array | string) {
    this.tier = tier;
    this.path = path;
    this.format = format;
    this.content = typeof content === "string" ? Buffer.from(content) : content;
    this.sha256 = createHash("sha256").update(this.content).digest("hex");
  }

  /** The file as it lies on the disk. Rejects where it cannot be read. */
  static async read(tier: OfferTier, path: string, format = ""): Promise<OfferedRules> {
    const absolute = resolve(path);
    return new OfferedRules(tier, absolute, format, await readFile(absolute));
  }

  /** As it is offered on the wire. */
  toMessage(): Pick<OfferedFile, "sha256" | "tier" | "path" | "format"> {
    return { sha256: this.sha256, tier: TIERS[this.tier], path: this.path, format: this.format };
  }
}

/**
 * What a caller brings to a call beside the event: rule files of its own, and what runs their commands on this machine.
 * Make one and keep it: files are hashed once, and all calls share the cap on programs at a time (48, and 192 that
 * wait).
 *
 * hookd is sent the hashes, and a file's content only where it does not know it yet. What it asks to run it names by
 * file and place: the program comes from this side's own copy, never from the server.
 */
export class AgentSide implements OwnRules {
  readonly offers: readonly OfferedRules[];
  readonly commands: AgentCommands;
  readonly serverPrograms: boolean;
  /** The programs that run here. */
  readonly places = new Places();
  /** Nothing starts any more, and what runs is ended. */
  readonly closing = new AbortController();
  /** What is being ended gets no more grace. */
  readonly killing = new AbortController();

  /**
   * Files of one tier are evaluated in the order in which they are offered, after the server's own of that tier. Unless
   * `commands` are given, native rule files in JSON are understood ({@link nativeProgram}).
   *
   * @throws TypeError on Windows, which has no process groups.
   */
  constructor(
    offers: readonly OfferedRules[],
    commands: AgentCommands = { program: nativeProgram },
    options: AgentSideOptions = {},
  ) {
    if (process.platform === "win32") {
      throw new TypeError("commands on the agent's side need process groups, which Windows does not have");
    }
    this.offers = offers;
    this.commands = commands;
    this.serverPrograms = options.serverPrograms ?? false;
  }

  /**
   * There is nothing that hookd could want from this side: `Client.trigger` is enough, and cheaper. (`trigger` of this
   * side sees to that.)
   */
  get isEmpty(): boolean {
    return this.offers.length === 0 && !this.serverPrograms;
  }

  /**
   * Asks about one event and says what to do now, as `Client.trigger` does, with the rules of this side: it runs their
   * commands on this machine while hookd evaluates.
   *
   * Commands run under the process rules of hookd itself: in a group of their own, with one timer, capped outputs, and
   * no survivors. Those that are still running when the answer comes, when hookd cancels them, or when the call is
   * aborted, are killed. The call is tried again only where there was no answer and nothing was run yet.
   */
  async trigger(client: Client, request: TriggerInit, options: CallOptions = {}): Promise<Gate> {
    return gateBy(client, request, () => this.call(client, request, options));
  }

  /** As {@link AgentSide.trigger}, but gives the bare answer, as `Client.call` does. */
  async call(client: Client, request: TriggerInit, options: CallOptions = {}): Promise<TriggerResponse> {
    return this.isEmpty ? client.call(request, options) : askWithCommands(inside(client).asker, request, this, options);
  }

  /**
   * Ends every program that still runs here, for good: SIGTERM, after `graceMs` SIGKILL. Resolves when all are gone, at
   * most 5 s after the grace, with how many are not.
   */
  async shutdown(graceMs: number): Promise<number> {
    this.closing.abort();
    await withinMs(graceMs, this.places.idle());
    this.killing.abort();
    await withinMs(REAP_LIMIT_MS, this.places.idle());
    return this.places.live;
  }
}

async function withinMs(ms: number, done: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([done, new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)))]);
  clearTimeout(timer);
}

/** Process groups: signals to all of one, and who is still in it. @module */

import type { ChildProcess } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";

import { aborted } from "./stops.js";

const FIRST_PAUSE_MS = 1;
const LONGEST_PAUSE_MS = 100;

/** Groups that this process has to end before it is gone. */
const live = new Set<Group>();

let isWatching = false;

/**
 * The process group of one program.
 *
 * Signals go to the group's number, which is its leader's. The kernel gives that number to no stranger as long as the
 * leader is not collected or a member lives. Node collects a leader the moment it learns of its exit, and never before;
 * so this signals while there was no exit, and after it only where a look at the process table has just found a member.
 */
export class Group {
  readonly #leader: ChildProcess;
  readonly #pid: number;

  /** For a child that was started as the leader of a group of its own. */
  constructor(leader: ChildProcess, pid: number) {
    this.#leader = leader;
    this.#pid = pid;
    live.add(this);
    watchExit();
  }

  /** Leaves the members alone: what a leader that ended by itself has detached lives on. */
  leave(): void {
    live.delete(this);
  }

  /**
   * Ends all members: SIGTERM now, and SIGKILL once the grace is over or `hurry` is aborted. Resolves when none is
   * left.
   */
  async end(graceMs: number, hurry: AbortSignal): Promise<void> {
    if (this.#leaderLives || (await this.#hasMembers())) {
      this.#signal("SIGTERM");
      const timer = new AbortController();
      const grace = pause(graceMs, undefined, { signal: timer.signal }).catch(() => undefined);
      await Promise.race([this.#emptied(timer.signal), grace, aborted([hurry], timer.signal)]);
      timer.abort();
      await this.#killAll();
    }
    live.delete(this);
  }

  /** Ends all members at once, without a look: for a process that is about to end. */
  killNow(): void {
    this.#signal("SIGKILL");
  }

  get #leaderLives(): boolean {
    return this.#leader.exitCode === null && this.#leader.signalCode === null;
  }

  #signal(signal: NodeJS.Signals): void {
    try {
      process.kill(-this.#pid, signal);
    } catch {
      // Nobody is left, or members run as someone else; those are found as members that stay.
    }
  }

  async #emptied(stopped: AbortSignal): Promise<void> {
    let rest = FIRST_PAUSE_MS;
    while (!stopped.aborted && (this.#leaderLives || (await this.#hasMembers()))) {
      await pause(rest);
      rest = Math.min(rest * 2, LONGEST_PAUSE_MS);
    }
  }

  /** Sends SIGKILL until no member is left: one that was being forked at the first is met by the next. */
  async #killAll(): Promise<void> {
    let rest = FIRST_PAUSE_MS;
    while (this.#leaderLives || (await this.#hasMembers())) {
      this.#signal("SIGKILL");
      await pause(rest);
      rest = Math.min(rest * 2, LONGEST_PAUSE_MS);
    }
  }

  async #hasMembers(): Promise<boolean> {
    if (process.platform !== "linux") {
      try {
        return process.kill(-this.#pid, 0);
      } catch {
        return false;
      }
    }
    const table = (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry));
    for (const pid of table) {
      if (await this.#isMember(pid)) {
        return true;
      }
    }
    return false;
  }

  async #isMember(pid: string): Promise<boolean> {
    const stat = await readFile(`/proc/${pid}/stat`, "latin1").catch(() => "");
    // The name, in parentheses, can hold anything; what follows the last one is plain.
    const [state = "", , group, session] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    // A leader of ours leads a session too: a stranger's group with a number used again has another.
    return !/^[ZXx]?$/.test(state) && group === String(this.#pid) && session === String(this.#pid);
  }
}

/** A process that ends leaves no programs behind. (One that is killed by a signal cannot see to that.) */
function watchExit(): void {
  if (isWatching) {
    return;
  }
  isWatching = true;
  process.on("exit", () => {
    for (const group of live) {
      group.killNow();
    }
  });
}

/** The real hookd, on a free port, with a folder of its own. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";

import { writeJson } from "@hookd/client";

const BINARY = process.env["HOOKD_BIN"] ?? new URL("../../../../../target/debug/hookd", import.meta.url).pathname;

export interface Setup {
  /** Managed rules. */
  readonly rules?: readonly object[];
  readonly settings?: object;
  /** A port that was used before. */
  readonly port?: number;
}

export class Hookd {
  readonly address: string;
  readonly socket: string;
  readonly folder: string;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, address: string, folder: string) {
    this.#child = child;
    this.address = address;
    this.folder = folder;
    this.socket = join(folder, "hookd.sock");
  }

  static async start({ rules = [], settings = {}, port = 0 }: Setup = {}): Promise<Hookd> {
    const folder = await mkdtemp(join(tmpdir(), "hookd-client-"));
    const write = async (name: string, value: object) => {
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await writeFile(join(folder, name), writeJson(value));
    };
    await write("managed/rules.json", { hooks: rules });
    await write("hookd.json", {
      listen: [`127.0.0.1:${port}`, `unix:${join(folder, "hookd.sock")}`],
      admin_listen: "127.0.0.1:0",
      tiers: { managed: { sources: [{ path: "managed" }] } },
      drain: { min_delay: "0s" },
      ...settings,
    });
    const child = spawn(BINARY, ["--config", join(folder, "hookd.json")], {
      cwd: folder,
      stdio: ["ignore", "pipe", "pipe"],
      // Handlers find its folder there.
      env: { ...process.env, TMPDIR: folder },
    });
    let log = "";
    child.stderr.on("data", (chunk: Buffer) => (log += chunk.toString()));
    for await (const line of createInterface({ input: child.stdout })) {
      const [, address] = /^hookd is ready: grpc=(127\.0\.0\.1:\d+)/.exec(line) ?? [];
      if (address !== undefined) {
        return new Hookd(child, address, folder);
      }
    }
    throw new Error(`hookd did not start: ${log}`);
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  /** Ends it with this signal and waits for that. */
  async end(signal: "SIGTERM" | "SIGKILL" = "SIGKILL"): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const exited = once(this.#child, "exit");
      this.#child.kill(signal);
      await exited;
    }
    await rm(this.folder, { recursive: true, force: true });
  }
}

export function decide(
  id: string,
  event: string,
  verdict: string | undefined,
  more: object = {},
  handler: object = {},
): object {
  return { id, event, handler: { type: "decide", verdict, ...handler }, ...more };
}

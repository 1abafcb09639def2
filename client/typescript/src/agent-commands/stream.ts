/** Calls in which this side runs commands. @module */

import { create, toBinary, type MessageInitShape } from "@bufbuild/protobuf";

import { decoded, type Asker, type CallOptions } from "../asker.js";
import { notUnderstood } from "../call-error.js";
import type { TriggerInit } from "../client.js";
import {
  TriggerRequestSchema,
  TriggerStreamRequestSchema,
  TriggerStreamResponseSchema,
  type TriggerRequest,
  type TriggerResponse,
  type TriggerStreamResponse,
} from "../gen/hookd/v1/hook_service_pb.js";
import type { Attempt, Connection, Opened } from "../transport.js";
import { runAsked, runDetached } from "./run.js";
import type { AgentSide } from "./side.js";

const PATH = "/hookd.v1.HookService/TriggerStream";
/** What hookd takes of one file and of all together, in bytes. Of larger ones it needs no content to refuse them. */
const MAX_FILE_BYTES = 256 * 1024;
const MAX_FILES_BYTES = 1024 * 1024;

type Sent = NonNullable<MessageInitShape<typeof TriggerStreamRequestSchema>["message"]>;

/** Asks about one event, and runs what hookd asks for meanwhile. Rejects as `Client.call`. */
export async function askWithCommands(
  asker: Asker,
  init: TriggerInit,
  side: AgentSide,
  { signal }: CallOptions,
): Promise<TriggerResponse> {
  const trigger = create(TriggerRequestSchema, init);
  const offered = side.offers.map((file) => file.toMessage());
  const start = create(TriggerStreamRequestSchema, { message: { case: "start", value: { trigger, offered } } });
  const first = asker.encoded(TriggerStreamRequestSchema, start);
  // Once something was run, another attempt would run it again.
  let hasRun = false;
  return asker.ask(
    signal,
    () => !hasRun,
    (connection, attempt) => {
      const call = new Call(side, trigger, performance.now() + attempt.leftMs, () => (hasRun = true));
      return call.attempt(connection, attempt, first);
    },
  );
}

/** One attempt of a call. */
class Call {
  readonly #side: AgentSide;
  readonly #request: TriggerRequest;
  readonly #deadline: number;
  readonly #noteRun: () => void;
  /** What ends the commands that run, by their ids. */
  readonly #running = new Map<number, AbortController>();
  /** Nothing is done any more of what still comes. */
  #isOver = false;

  constructor(side: AgentSide, request: TriggerRequest, deadline: number, noteRun: () => void) {
    this.#side = side;
    this.#request = request;
    this.#deadline = deadline;
    this.#noteRun = noteRun;
  }

  async attempt(connection: Connection, attempt: Attempt, first: Uint8Array): Promise<TriggerResponse> {
    const opened = await connection.open(PATH, attempt);
    opened.stream.write(first);
    try {
      return await this.#answer(connection, opened);
    } finally {
      // Nobody waits for them any more.
      this.#isOver = true;
      this.#endAll();
      opened.stream.cancel();
    }
  }

  /** The answer, which counts only with the status that follows it. */
  #answer(connection: Connection, { stream, ended }: Opened): Promise<TriggerResponse> {
    return new Promise((resolve, reject) => {
      let answer: TriggerResponse | undefined;
      stream.on("data", (bytes: Uint8Array) => {
        if (this.#isOver) {
          return;
        }
        try {
          if (answer !== undefined) {
            throw notUnderstood("the stream goes on after it");
          }
          answer = this.#take(decoded(TriggerStreamResponseSchema, bytes, connection), stream);
          if (answer !== undefined) {
            this.#endAll();
            stream.end();
          }
        } catch (error) {
          this.#isOver = true;
          reject(error as Error);
        }
      });
      void ended.then((error) => {
        if (error !== undefined) {
          reject(error);
        } else if (answer === undefined) {
          reject(notUnderstood("the stream ended without one"));
        } else {
          resolve(answer);
        }
      });
    });
  }

  /** Does what a message says. The answer, if it is one. */
  #take({ message }: TriggerStreamResponse, stream: Opened["stream"]): TriggerResponse | undefined {
    switch (message.case) {
      case "response":
        return message.value;
      case "needFiles":
        send(stream, { case: "files", value: { files: this.#files(new Set(message.value.sha256)) } });
        return undefined;
      case "cancelCommand":
        this.#end(message.value.commandId);
        return undefined;
      case "runCommand": {
        this.#noteRun();
        const asked = { message: message.value, request: this.#request, deadline: this.#deadline };
        if (message.value.detached) {
          void runDetached(this.#side, asked);
        } else {
          void this.#run(asked, stream);
        }
        return undefined;
      }
      case undefined:
        throw notUnderstood("a message that this client does not know");
    }
  }

  async #run(asked: Parameters<typeof runAsked>[1], stream: Opened["stream"]): Promise<void> {
    const { commandId } = asked.message;
    const cancelled = new AbortController();
    // An id is never used twice; where it is all the same, what ran under it must not be forgotten.
    this.#end(commandId);
    this.#running.set(commandId, cancelled);
    const result = await runAsked(this.#side, asked, cancelled.signal);
    // The one of a command that was cancelled is nobody's.
    if (!cancelled.signal.aborted) {
      this.#running.delete(commandId);
      send(stream, { case: "commandResult", value: result });
    }
  }

  #end(commandId: number): void {
    this.#running.get(commandId)?.abort();
    this.#running.delete(commandId);
  }

  #endAll(): void {
    for (const commandId of [...this.#running.keys()]) {
      this.#end(commandId);
    }
  }

  /** Those of the files that hookd does not know which were offered, as far as it takes them. */
  #files(needed: Set<string>): { sha256: string; content: Uint8Array }[] {
    const files = new Map<string, Uint8Array>();
    let room = MAX_FILES_BYTES;
    for (const { sha256, content } of this.#side.offers) {
      if (needed.has(sha256) && !files.has(sha256) && content.length <= Math.min(MAX_FILE_BYTES, room)) {
        room -= content.length;
        files.set(sha256, content);
      }
    }
    return Array.from(files, ([sha256, content]) => ({ sha256, content }));
  }
}

function send(stream: Opened["stream"], message: Sent): void {
  // Fails where the stream has broken, which its other side then says.
  if (stream.writable) {
    stream.write(toBinary(TriggerStreamRequestSchema, create(TriggerStreamRequestSchema, { message })));
  }
}

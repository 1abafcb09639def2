/** A server in the place of a model's: says what a test wrote, one turn after the other, and keeps what it was sent. */

import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** What the model says in one turn: a text, or a call of a tool. */
export type Turn = string | { readonly name: string; readonly input: object };

export interface Message {
  readonly role: string;
  readonly content: string | readonly Block[];
}

export interface Block {
  readonly type: string;
  readonly text?: string;
  readonly content?: string | readonly Block[];
  readonly is_error?: boolean;
}

export class ModelServer {
  /** The messages of each request. */
  readonly seen: (readonly Message[])[] = [];
  readonly #turns: readonly Turn[];
  readonly #server: Server;

  private constructor(turns: readonly Turn[]) {
    this.#turns = turns;
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  static async start(...turns: Turn[]): Promise<ModelServer> {
    const model = new ModelServer(turns);
    model.#server.listen(0, "127.0.0.1");
    await once(model.#server, "listening");
    return model;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async end(): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  /** The blocks of this kind in the last request, and those within them. */
  blocks(type: string): Block[] {
    const messages = this.seen.at(-1) ?? [];
    return messages.flatMap(({ content }) =>
      typeof content === "string" ? [] : content.filter((one) => one.type === type),
    );
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) {
      chunks.push(chunk as Buffer);
    }
    const turn = this.#turns[this.seen.length];
    if (request.method !== "POST" || !/^\/v1\/messages(?:\?|$)/.test(request.url ?? "") || turn === undefined) {
      response.writeHead(400, { "content-type": "application/json" });
      response.end('{"type":"error","error":{"type":"invalid_request_error","message":"it is not written"}}');
      return;
    }
    const { model, messages } = JSON.parse(Buffer.concat(chunks).toString()) as { model: string; messages: Message[] };
    this.seen.push(messages);
    const said = this.seen.length;
    const call = { type: "tool_use", id: `toolu_${said}`, input: {} };
    const [start, delta, stop_reason] =
      typeof turn === "string"
        ? [{ type: "text", text: "" }, { type: "text_delta", text: turn }, "end_turn"]
        : [
            { ...call, name: turn.name },
            { type: "input_json_delta", partial_json: JSON.stringify(turn.input) },
            "tool_use",
          ];
    const usage = { input_tokens: 1, output_tokens: 1 };
    const message = { id: `msg_${said}`, type: "message", role: "assistant", model, content: [], usage };
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const event of [
      { type: "message_start", message: { ...message, stop_reason: null, stop_sequence: null } },
      { type: "content_block_start", index: 0, content_block: start },
      { type: "content_block_delta", index: 0, delta },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage },
      { type: "message_stop" },
    ]) {
      response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    }
    response.end();
  }
}

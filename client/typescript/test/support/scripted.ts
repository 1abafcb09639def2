/** A server in hookd's place that does as a test says, frame by frame, and that can be killed for real. */

import {
  createServer,
  createSecureServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import { once } from "node:events";
import type { AddressInfo, Socket } from "node:net";

import {
  create,
  fromBinary,
  toBinary,
  type DescMessage,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import { proto } from "@hookd/client";

const GRPC = { ":status": 200, "content-type": "application/grpc" } as const;

export type Script = (call: ScriptedCall) => void | Promise<void>;

export interface Status {
  readonly code: number;
  readonly message?: string;
  /** As hookd's own statuses have it. */
  readonly id?: string;
  /** `grpc-status-details-bin`, in base64. */
  readonly details?: string;
}

/** One call, from the server's side. */
export class ScriptedCall {
  readonly headers: IncomingHttpHeaders;
  readonly stream: ServerHttp2Stream;
  readonly #messages: (Buffer | undefined)[] = [];
  #waiting: (() => void) | undefined;

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders) {
    this.stream = stream;
    this.headers = headers;
    let rest = Buffer.alloc(0);
    stream.on("error", () => undefined);
    stream.on("data", (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk]);
      while (rest.length >= 5 && rest.length >= 5 + rest.readUInt32BE(1)) {
        const end = 5 + rest.readUInt32BE(1);
        this.#put(rest.subarray(5, end));
        rest = rest.subarray(end);
      }
    });
    stream.on("close", () => this.#put(undefined));
    stream.on("end", () => this.#put(undefined));
  }

  /** The next message. */
  async receive<S extends DescMessage>(schema: S): Promise<MessageShape<S>> {
    const bytes = await this.next();
    if (bytes === undefined) {
      throw new Error("there is none");
    }
    return fromBinary(schema, bytes);
  }

  /** The bytes of the next message. `undefined`: there will be none. */
  async next(): Promise<Buffer | undefined> {
    while (this.#messages.length === 0) {
      await new Promise<void>((resolve) => (this.#waiting = resolve));
    }
    return this.#messages.shift();
  }

  async trigger(): Promise<proto.TriggerRequest> {
    return this.receive(proto.TriggerRequestSchema);
  }

  /** Answers a plain call. */
  answer(response: proto.TriggerResponse): void {
    this.raw(frame(toBinary(proto.TriggerResponseSchema, response)));
  }

  /** Says one message of a stream. */
  say(message: MessageInitShape<typeof proto.TriggerStreamResponseSchema>["message"] | undefined): void {
    const init = message === undefined ? {} : { message };
    this.open();
    this.stream.write(
      frame(toBinary(proto.TriggerStreamResponseSchema, create(proto.TriggerStreamResponseSchema, init))),
    );
  }

  /** Sends the headers, and at the end the status, unless that is done already. */
  open(status: Status = { code: 0 }): void {
    if (!this.stream.headersSent) {
      this.stream.respond(GRPC, { waitForTrailers: true });
      this.stream.on("wantTrailers", () => this.stream.sendTrailers(trailersOf(this.#status ?? status)));
    }
  }

  #status: Status | undefined;

  /** Ends a stream. */
  end(status: Status = { code: 0 }): void {
    this.#status = status;
    this.open();
    this.stream.end();
  }

  /** Ends a call with a status and nothing else. */
  fail(status: Status): void {
    this.stream.respond({ ...GRPC, ...trailersOf(status) }, { endStream: true });
  }

  /** Answers with these bytes. */
  raw(
    body: Uint8Array,
    headers: Record<string, string | number> = GRPC,
    trailers: Record<string, string> = { "grpc-status": "0" },
  ): void {
    const hasTrailers = Object.keys(trailers).length > 0;
    if (!hasTrailers && body.length === 0) {
      this.stream.respond({ ":status": 200, ...headers }, { endStream: true });
      return;
    }
    this.stream.respond({ ":status": 200, ...headers }, { waitForTrailers: hasTrailers });
    if (hasTrailers) {
      this.stream.on("wantTrailers", () => this.stream.sendTrailers(trailers));
    }
    this.stream.end(body);
  }

  #put(message: Buffer | undefined): void {
    this.#messages.push(message);
    this.#waiting?.();
  }
}

export class Scripted {
  /** How often it was asked. */
  calls = 0;
  /** How many connections were made. */
  connections = 0;
  readonly #server: Http2Server;
  readonly #sockets = new Set<Socket>();
  readonly #sessions = new Set<ServerHttp2Session>();

  private constructor(
    script: Script,
    tls: { key: string; cert: string; ca?: string; requestCert?: boolean } | undefined,
  ) {
    this.#server = tls === undefined ? createServer() : (createSecureServer(tls) as unknown as Http2Server);
    this.#server.on(tls === undefined ? "connection" : "secureConnection", (socket: Socket) => {
      this.connections += 1;
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
    this.#server.on("session", (session) => {
      this.#sessions.add(session);
      session.on("error", () => undefined);
      session.on("close", () => this.#sessions.delete(session));
    });
    this.#server.on("stream", (stream, headers) => {
      this.calls += 1;
      void Promise.resolve(script(new ScriptedCall(stream, headers))).catch(() => stream.destroy());
    });
    this.#server.on("sessionError", () => undefined);
  }

  static async start(
    script: Script,
    where: {
      port?: number;
      path?: string;
      tls?: { key: string; cert: string; ca?: string; requestCert?: boolean };
    } = {},
  ): Promise<Scripted> {
    const server = new Scripted(script, where.tls);
    if (where.path === undefined) {
      server.#server.listen(where.port ?? 0, "127.0.0.1");
    } else {
      server.#server.listen(where.path);
    }
    await once(server.#server, "listening");
    return server;
  }

  /** Answers every call with this. */
  static answering(answer: (request: proto.TriggerRequest) => proto.TriggerResponse | Status): Promise<Scripted> {
    return Scripted.start(async (call) => {
      const answered = answer(await call.trigger());
      if ("$typeName" in answered) {
        call.answer(answered);
      } else {
        call.fail(answered);
      }
    });
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** Sends GOAWAY on every connection; calls in flight go on. */
  goAway(): void {
    for (const session of this.#sessions) {
      session.close();
    }
  }

  /** Breaks every connection at once, and is gone. */
  async kill(): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of this.#sockets) {
      socket.destroy();
    }
    await closed;
  }
}

export function frame(message: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

export function answer(
  verdict: number,
  more: Exclude<MessageInitShape<typeof proto.TriggerResponseSchema>, proto.TriggerResponse> = {},
): proto.TriggerResponse {
  return create(proto.TriggerResponseSchema, {
    verdict,
    reason: "because",
    decisionId: "d1",
    policyRevision: "r1",
    ...more,
  });
}

/** A status as hookd sends it. */
export function ofHookd(code: number, message = "no", more: Partial<Status> = {}): Status {
  return { code, message, id: "d9", ...more };
}

function trailersOf({ code, message, id, details }: Status): Record<string, string> {
  return {
    "grpc-status": String(code),
    ...(message !== undefined && { "grpc-message": encodeURIComponent(message) }),
    ...(id !== undefined && { "hookd-decision-id": id }),
    ...(details !== undefined && { "grpc-status-details-bin": details }),
  };
}

/** One call over one connection: bytes out, bytes or a {@link CallError} back. @module */

import { getSystemErrorMap } from "node:util";

import {
  Client as GrpcClient,
  connectivityState,
  credentials,
  Metadata,
  status as Status,
  type ChannelCredentials,
  type ClientDuplexStream,
  type ClientReadableStream,
  type StatusObject,
} from "@grpc/grpc-js";

import { onAbort } from "./abort.js";
import type { Address } from "./address.js";
import { CallError, errorOfStatus, garbled, notTrusted, unreachable } from "./call-error.js";
import { FreshFile } from "./fresh-file.js";
import { retryDelayMs } from "./status-details.js";

/** Metadata that every status of hookd itself carries; a status without it comes from the transport. */
const DECISION_ID = "hookd-decision-id";
/** Carries the details of a status. */
const DETAILS = "grpc-status-details-bin";
/** How long a connection may take to be made before another address has its turn. */
const CONNECT_TIMEOUT_MS = 5000;
/** How Node says that the two ends did not trust each other. */
const UNTRUSTED = /\bcertificates?\b|\baltnames\b|\bSSL routines\b|\bSSL alert\b|\bEPROTO\b/i;
/** How it says that what answers is no TLS. */
const NO_TLS = /\bwrong version number\b|\bpacket length too long\b/i;
/** The package's own; a test holds the two together. */
const VERSION = "0.1.0";

/** How connections over TLS are made. Each file is read again when it changes. */
export interface TlsOptions {
  /** Path of the certificates (PEM) of who may have signed hookd's. Absent: those that Node brings. */
  readonly caFile?: string;
  /** Path of this client's own certificate (PEM), with `keyFile`. */
  readonly certFile?: string;
  /** Path of the key (PEM) to `certFile`. */
  readonly keyFile?: string;
  /** The name that hookd's certificate has to bear. Absent: the host of the address. */
  readonly serverName?: string;
}

/** When a connection with calls in flight is given up, in milliseconds. */
export interface KeepAlive {
  /** How long nothing may come before a sign of life is asked for. */
  readonly intervalMs: number;
  /** How long that may take. */
  readonly timeoutMs: number;
}

/** What all connections of a client have in common. */
export interface ConnectionOptions {
  readonly messageBytes: number;
  readonly tls: TlsOptions | undefined;
  readonly token: FreshFile | undefined;
  readonly keepAlive: KeepAlive;
}

/** An attempt's own limits. */
export interface Attempt {
  /** How long it may take, in milliseconds. */
  readonly leftMs: number;
  /** Ends it. */
  readonly signal: AbortSignal | undefined;
}

/** A stream that is open, and what ends it. */
export interface Opened {
  readonly stream: ClientDuplexStream<Uint8Array, Buffer>;
  /** Settles when it has ended: with nothing if its status is OK, else with the error. Comes after the last message. */
  readonly ended: Promise<CallError | undefined>;
}

/** One connection to one replica. It begins to connect at once, and is made anew as another one. */
export class Connection {
  /** Of the replica, for errors. */
  readonly name: string;
  /** Resolves when it is known whether it can be made. */
  readonly whenSettled: Promise<void>;
  readonly #address: Address;
  readonly #token: FreshFile | undefined;
  readonly #client: GrpcClient;
  #settled: "connected" | "failed" | undefined;
  #isOverdue = false;
  #inFlight = 0;
  #isLeft = false;
  #isClosed = false;

  /** Throws where a file cannot be used. */
  constructor(address: Address, target: string, name: string, { messageBytes, tls, token, keepAlive }: ConnectionOptions) {
    this.name = name;
    this.#address = address;
    this.#token = token;
    const serverName = tls?.serverName ?? (address.isName ? address.host : undefined);
    this.#client = new GrpcClient(target, credentialsOf(address, tls), {
      "grpc.primary_user_agent": `hookd-client-typescript/${VERSION}`,
      "grpc.max_send_message_length": -1,
      "grpc.max_receive_message_length": messageBytes,
      // Only while calls are in flight, and a connection without any does not keep the process alive.
      "grpc.keepalive_time_ms": keepAlive.intervalMs,
      "grpc.keepalive_timeout_ms": keepAlive.timeoutMs,
      "grpc.keepalive_permit_without_calls": 0,
      // What the environment says of proxies is for the web, not for the way to one's own guard.
      "grpc.enable_http_proxy": 0,
      // Rules for retries are this client's own.
      "grpc.service_config_disable_resolution": 1,
      // A new channel is to begin anew, not with what another one knows of the address.
      "grpc.use_local_subchannel_pool": 1,
      "grpc.enable_channelz": 0,
      // Not the IP address that the name has just now.
      ...(address.isName && { "grpc.default_authority": `${address.host}:${address.port}` }),
      ...(address.tls && serverName !== undefined && { "grpc.ssl_target_name_override": serverName }),
    });
    this.whenSettled = this.#connected();
  }

  /** Whether it could be made. `undefined`: it is being made. */
  get settled(): "connected" | "failed" | undefined {
    return this.#settled;
  }

  /** It was connected, and is not now. */
  isLost(): boolean {
    return this.#settled === "connected" && this.#state(false) !== connectivityState.READY;
  }

  /** Sends `request` to the method at `path` and gives the bytes of its one answer, or throws a {@link CallError}. */
  async call(path: string, request: Uint8Array, attempt: Attempt): Promise<Buffer> {
    const metadata = this.#metadata();
    const options = { deadline: Date.now() + attempt.leftMs };
    const stream = this.#client.makeServerStreamRequest(path, asBuffer, asIs, request, metadata, options);
    let answer: Buffer | undefined;
    let extra: CallError | undefined;
    stream.on("data", (message: Buffer) => {
      if (answer === undefined) {
        answer = message;
      } else {
        extra = garbled("there is more than one", this.name);
        stream.cancel();
      }
    });
    const error = await this.#ended(stream, attempt);
    if (extra !== undefined || error !== undefined) {
      throw extra ?? error;
    }
    // The answer counts only with the status that follows it.
    if (answer === undefined) {
      throw garbled("it is empty", this.name);
    }
    return answer;
  }

  /** Opens a stream to the method at `path`. */
  async open(path: string, attempt: Attempt): Promise<Opened> {
    const metadata = this.#metadata();
    const options = { deadline: Date.now() + attempt.leftMs };
    const stream = this.#client.makeBidiStreamRequest(path, asBuffer, asIs, metadata, options);
    return { stream, ended: this.#ended(stream, attempt) };
  }

  /** Closes it once the calls on it have ended, those too of callers who are being told of it now. */
  close(): void {
    this.#isLeft = true;
    setImmediate(() => this.#closeIfIdle());
  }

  #closeIfIdle(): void {
    if (this.#isLeft && this.#inFlight === 0 && !this.#isClosed) {
      this.#isClosed = true;
      this.#client.close();
    }
  }

  #metadata(): Metadata {
    const metadata = new Metadata();
    try {
      if (this.#token !== undefined) {
        metadata.set("authorization", `Bearer ${this.#token.readToken()}`);
      }
    } catch (error) {
      throw notTrusted((error as Error).message, this.name);
    }
    if (this.#isClosed) {
      throw unreachable("the connection was closed", this.name);
    }
    if (this.#isOverdue) {
      throw unreachable(`no connection within ${CONNECT_TIMEOUT_MS / 1000}s`, this.name);
    }
    return metadata;
  }

  #state(connect: boolean): connectivityState {
    return this.#client.getChannel().getConnectivityState(connect);
  }

  #connected(): Promise<void> {
    return new Promise((resolve) => {
      const settle = (end: "connected" | "failed") => {
        clearTimeout(overdue);
        this.#settled ??= end;
        resolve();
      };
      const overdue = setTimeout(() => {
        this.#isOverdue = true;
        settle("failed");
      }, CONNECT_TIMEOUT_MS);
      // Whoever waits for it has a timer of its own.
      overdue.unref();
      const look = () => {
        const state = this.#state(true);
        if (this.#settled !== undefined) {
          return;
        }
        if (state === connectivityState.READY) {
          settle("connected");
        } else if (state === connectivityState.TRANSIENT_FAILURE || state === connectivityState.SHUTDOWN) {
          settle("failed");
        } else {
          this.#client.getChannel().watchConnectivityState(state, Infinity, look);
        }
      };
      look();
    });
  }

  /** Waits for the end of `stream`, and looks after the connection meanwhile. */
  #ended(
    stream: ClientReadableStream<Buffer> | ClientDuplexStream<Uint8Array, Buffer>,
    { signal }: Attempt,
  ): Promise<CallError | undefined> {
    return new Promise((resolve) => {
      let headers: Metadata | undefined;
      let isOk = false;
      let hasEnded = false;
      let stopListening: (() => void) | undefined;
      this.#inFlight += 1;
      let isOver = false;
      const settle = (error: CallError | undefined) => {
        stopListening?.();
        if (!isOver) {
          isOver = true;
          this.#inFlight -= 1;
          this.#closeIfIdle();
        }
        resolve(error);
      };
      stream.on("metadata", (metadata) => (headers = metadata));
      // Says nothing that the status does not.
      stream.on("error", () => undefined);
      stream.on("end", () => {
        hasEnded = true;
        if (isOk) {
          settle(undefined);
        }
      });
      stream.on("status", (status: StatusObject) => {
        isOk = status.code === Status.OK && !isForeign(headers);
        if (!isOk) {
          settle(this.#error(status, headers));
        } else if (hasEnded) {
          settle(undefined);
        }
      });
      stopListening = signal && onAbort(signal, () => stream.cancel());
    });
  }

  #error(status: StatusObject, headers: Metadata | undefined): CallError {
    const { code, details } = plain(status, headers);
    const id = status.metadata.get(DECISION_ID)[0] ?? headers?.get(DECISION_ID)[0];
    if (this.#address.tls && id === undefined && code === Status.UNAVAILABLE && UNTRUSTED.test(details)) {
      return notTrusted(NO_TLS.test(details) ? "it does not speak TLS" : details, this.name);
    }
    const statusDetails = status.metadata.get(DETAILS)[0];
    return errorOfStatus(
      {
        code,
        details,
        decisionId: typeof id === "string" ? id : undefined,
        retryAfterMs: statusDetails instanceof Buffer ? retryDelayMs(statusDetails) : undefined,
      },
      this.name,
    );
  }
}

/** The status, without what the library makes of a peer that does not speak gRPC, and with the root cause alone. */
function plain(status: StatusObject, headers: Metadata | undefined): { code: Status; details: string } {
  if (isForeign(headers) && (status.code === Status.OK || status.code === Status.RESOURCE_EXHAUSTED)) {
    // It takes a page for a message.
    return { code: Status.UNKNOWN, details: "what answers there is not hookd" };
  }
  return { code: status.code, details: rootCause(status.details) };
}

/** Whether these are the headers of something other than gRPC. */
function isForeign(headers: Metadata | undefined): boolean {
  return headers !== undefined && !String(headers.get("content-type")[0]).startsWith("application/grpc");
}

/** The innermost error, which says the most, in words: `connection refused` rather than a whole history. */
function rootCause(details: string): string {
  const [, cause = details] =
    /^No connection established\. Last error: (.*?)\.? Resolution note: /s.exec(details) ?? [];
  const [code = ""] = UNTRUSTED.test(cause) ? [] : (/\bE[A-Z0-9]{3,}\b/.exec(cause) ?? []);
  for (const [name, words] of code === "" ? [] : getSystemErrorMap().values()) {
    if (name === code) {
      return words;
    }
  }
  return cause.replace(/^Error(?: \[\w+\])?: /, "");
}

/** What TLS needs, as the files say now. Throws, naming them, where they cannot be used. */
function credentialsOf(address: Address, tls: TlsOptions | undefined): ChannelCredentials {
  if (!address.tls) {
    return credentials.createInsecure();
  }
  const read = (what: string, path: string | undefined) =>
    path === undefined ? null : new FreshFile(what, path).read();
  const ca = read("CA file", tls?.caFile);
  const [key, cert] = [read("client key", tls?.keyFile), read("client certificate", tls?.certFile)];
  try {
    return credentials.createSsl(ca, key, cert);
  } catch (error) {
    throw new Error(`the CA file, or the certificate and its key, cannot be used: ${(error as Error).message}`);
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function asIs(bytes: Buffer): Buffer {
  return bytes;
}

/** One call over one connection: bytes out, bytes or a {@link CallError} back. @module */

import { getSystemErrorMap } from "node:util";

import {
  Client as GrpcClient,
  connectivityState,
  credentials,
  Metadata,
  status as Status,
  type ChannelCredentials,
  type ChannelOptions,
  type ClientDuplexStream,
  type ClientReadableStream,
  type StatusObject,
} from "@grpc/grpc-js";

import { onAbort } from "./abort.js";
import type { Address } from "./address.js";
import { CallError, errorOfStatus, garbled, notTrusted } from "./call-error.js";
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

/** What all connections of a client have in common. */
export interface ConnectionOptions {
  readonly messageBytes: number;
  readonly tls: TlsOptions | undefined;
  readonly tokenFile: string | undefined;
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

/** What the material of a channel is. */
interface Material {
  readonly ca: Buffer | null;
  readonly cert: Buffer | null;
  readonly key: Buffer | null;
}

/** A connection to one address, made when it is first needed and again whenever it is lost. */
export class Connection {
  readonly address: Address;
  readonly #options: ChannelOptions;
  readonly #files: { readonly ca?: FreshFile; readonly cert?: FreshFile; readonly key?: FreshFile } | undefined;
  readonly #token: FreshFile | undefined;
  #client: GrpcClient | undefined;
  #material: Material | undefined;

  constructor(address: Address, { messageBytes, tls, tokenFile }: ConnectionOptions) {
    this.address = address;
    const file = (what: string, path: string | undefined) => (path === undefined ? undefined : new FreshFile(what, path));
    if (address.tls) {
      const [ca, cert] = [file("CA file", tls?.caFile), file("client certificate", tls?.certFile)];
      const key = file("client key", tls?.keyFile);
      this.#files = { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) };
    }
    this.#token = file("token file", tokenFile);
    this.#options = {
      "grpc.primary_user_agent": `hookd-client-typescript/${VERSION}`,
      "grpc.max_send_message_length": -1,
      "grpc.max_receive_message_length": messageBytes,
      // Only while calls are in flight, and a connection without any does not keep the process alive.
      "grpc.keepalive_time_ms": 20_000,
      "grpc.keepalive_timeout_ms": 10_000,
      "grpc.keepalive_permit_without_calls": 0,
      // What the environment says of proxies is for the web, not for the way to one's own guard.
      "grpc.enable_http_proxy": 0,
      // Rules for retries are this client's own.
      "grpc.service_config_disable_resolution": 1,
      // A new channel is to begin anew, not with what another one knows of the address.
      "grpc.use_local_subchannel_pool": 1,
      "grpc.enable_channelz": 0,
      ...(address.tls && tls?.serverName !== undefined && { "grpc.ssl_target_name_override": tls.serverName }),
    };
  }

  /** Sends `request` to the method at `path` and gives the bytes of its one answer, or throws a {@link CallError}. */
  async call(path: string, request: Uint8Array, attempt: Attempt): Promise<Buffer> {
    const [client, metadata] = this.#ready();
    const options = { deadline: Date.now() + attempt.leftMs };
    const stream = client.makeServerStreamRequest(path, asBuffer, asIs, request, metadata, options);
    let answer: Buffer | undefined;
    let extra: CallError | undefined;
    stream.on("data", (message: Buffer) => {
      if (answer === undefined) {
        answer = message;
      } else {
        extra = garbled("there is more than one", this.address.text);
        stream.cancel();
      }
    });
    const error = await this.#ended(client, stream, attempt);
    if (extra !== undefined || error !== undefined) {
      throw extra ?? error;
    }
    // The answer counts only with the status that follows it.
    if (answer === undefined) {
      throw garbled("it is empty", this.address.text);
    }
    return answer;
  }

  /** Opens a stream to the method at `path`. */
  async open(path: string, attempt: Attempt): Promise<Opened> {
    const [client, metadata] = this.#ready();
    const options = { deadline: Date.now() + attempt.leftMs };
    const stream = client.makeBidiStreamRequest(path, asBuffer, asIs, metadata, options);
    return { stream, ended: this.#ended(client, stream, attempt) };
  }

  /** Closes it. Calls in flight end, and another one connects again. */
  close(): void {
    this.#client?.close();
    this.#client = undefined;
  }

  #ready(): [GrpcClient, Metadata] {
    const metadata = new Metadata();
    try {
      if (this.#token !== undefined) {
        metadata.set("authorization", `Bearer ${this.#token.readToken()}`);
      }
      return [this.#channel(), metadata];
    } catch (error) {
      throw notTrusted((error as Error).message, this.address.text);
    }
  }

  /** What the files say now. Throws where one of them cannot be read. */
  #read(): Material | undefined {
    if (this.#files === undefined) {
      return undefined;
    }
    const { ca, cert, key } = this.#files;
    return { ca: ca?.read() ?? null, cert: cert?.read() ?? null, key: key?.read() ?? null };
  }

  #channel(): GrpcClient {
    let material: Material | undefined;
    try {
      material = this.#read();
    } catch (error) {
      // In the middle of a rotation, perhaps: a connection that stands is left alone.
      if (this.#client !== undefined) {
        return this.#client;
      }
      throw error;
    }
    if (this.#client !== undefined && sameMaterial(material, this.#material)) {
      return this.#client;
    }
    let made: ChannelCredentials;
    try {
      made = credentialsOf(material);
    } catch (error) {
      throw new Error(`the CA file, or the certificate and its key, cannot be used: ${(error as Error).message}`);
    }
    const client = new GrpcClient(this.address.target, made, this.#options);
    // Calls in flight end on the old connection.
    this.#client?.close();
    this.#client = client;
    this.#material = material;
    return client;
  }

  /** Waits for the end of `stream`, and looks after the connection meanwhile. */
  #ended(
    client: GrpcClient,
    stream: ClientReadableStream<Buffer> | ClientDuplexStream<Uint8Array, Buffer>,
    { signal }: Attempt,
  ): Promise<CallError | undefined> {
    return new Promise((resolve) => {
      let headers: Metadata | undefined;
      let isOk = false;
      let hasEnded = false;
      let isOverdue = false;
      const channel = client.getChannel();
      const connecting =
        channel.getConnectivityState(false) === connectivityState.READY
          ? undefined
          : setTimeout(() => {
              if (channel.getConnectivityState(false) !== connectivityState.READY) {
                isOverdue = true;
                stream.cancel();
              }
            }, CONNECT_TIMEOUT_MS);
      let stopListening: (() => void) | undefined;
      const settle = (error: CallError | undefined) => {
        clearTimeout(connecting);
        stopListening?.();
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
          if (isOverdue || channel.getConnectivityState(false) === connectivityState.TRANSIENT_FAILURE) {
            // A new channel tries at once; this one would wait out a back-off of its own.
            this.#drop(client);
          }
          settle(this.#error(status, headers, isOverdue));
        } else if (hasEnded) {
          settle(undefined);
        }
      });
      stopListening = signal && onAbort(signal, () => stream.cancel());
    });
  }

  #drop(client: GrpcClient): void {
    if (this.#client === client) {
      this.close();
    }
  }

  #error(status: StatusObject, headers: Metadata | undefined, isOverdue: boolean): CallError {
    const { code, details } = isOverdue
      ? { code: Status.UNAVAILABLE, details: `no connection within ${CONNECT_TIMEOUT_MS / 1000}s` }
      : plain(status, headers);
    const id = status.metadata.get(DECISION_ID)[0] ?? headers?.get(DECISION_ID)[0];
    if (this.address.tls && id === undefined && code === Status.UNAVAILABLE && UNTRUSTED.test(details)) {
      return notTrusted(details, this.address.text);
    }
    const statusDetails = status.metadata.get(DETAILS)[0];
    return errorOfStatus(
      {
        code,
        details,
        decisionId: typeof id === "string" ? id : undefined,
        retryAfterMs: statusDetails instanceof Buffer ? retryDelayMs(statusDetails) : undefined,
      },
      this.address.text,
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

function credentialsOf(material: Material | undefined): ChannelCredentials {
  return material === undefined
    ? credentials.createInsecure()
    : credentials.createSsl(material.ca, material.key, material.cert);
}

function sameMaterial(one: Material | undefined, other: Material | undefined): boolean {
  if (one === undefined || other === undefined) {
    return one === other;
  }
  return sameBytes(one.ca, other.ca) && sameBytes(one.cert, other.cert) && sameBytes(one.key, other.key);
}

function sameBytes(one: Buffer | null, other: Buffer | null): boolean {
  return one === other || (one !== null && other !== null && one.equals(other));
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function asIs(bytes: Buffer): Buffer {
  return bytes;
}

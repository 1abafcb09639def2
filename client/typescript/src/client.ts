/** Calls with a deadline, over reused connections, tried again only where nobody answered. @module */

import { create, type MessageInitShape } from "@bufbuild/protobuf";

import { parseAddresses } from "./address.js";
import { Asker, type CallOptions } from "./asker.js";
import { CallError } from "./call-error.js";
import { ofEnvironment } from "./environment.js";
import { FreshFile } from "./fresh-file.js";
import { gateOfAnswer, gateOfError, type Gate, type OnUnavailable } from "./gate.js";
import {
  ExplainRequestSchema,
  ExplainResponseSchema,
  GetStatusRequestSchema,
  GetStatusResponseSchema,
  ListRulesRequestSchema,
  ListRulesResponseSchema,
  ReloadRequestSchema,
  ReloadResponseSchema,
  type ExplainResponse,
  type GetStatusResponse,
  type ListRulesResponse,
  type ReloadResponse,
} from "./gen/hookd/v1/admin_service_pb.js";
import { TriggerRequestSchema, TriggerResponseSchema, type TriggerResponse } from "./gen/hookd/v1/hook_service_pb.js";
import { resolveBySystem, type Resolve } from "./resolve.js";
import { Session, type SessionOptions } from "./session.js";
import type { KeepAlive, TlsOptions } from "./transport.js";

const DEFAULT_DEADLINE_MS = 30_000;
/** What a timer of Node holds. */
const LONGEST_DEADLINE_MS = 2 ** 31 - 1;
const DEFAULT_MESSAGE_BYTES = 4 * 1024 * 1024;
const DEFAULT_ROUNDS = 5;
const DEFAULT_KEEP_ALIVE = { intervalMs: 10_000, timeoutMs: 5_000 };

/** An event to ask about: the fields of the wire's `TriggerRequest`, `event` at least. */
export type TriggerInit = MessageInitShape<typeof TriggerRequestSchema>;

/** How a {@link Client} asks. */
export interface ClientOptions {
  /** What happens where hookd cannot be asked. There is no default on purpose. */
  readonly onUnavailable: OnUnavailable;
  /**
   * How long a call may take, tries and waits included, in milliseconds. It is also what hookd shares out among
   * handlers (up to its own `limits.max_deadline`). 30,000 unless set.
   */
  readonly deadlineMs?: number;
  /**
   * How often all replicas are asked at most while nobody answers, within the deadline; from 1. The wait
   * between two rounds starts at 50 ms and doubles up to 1 s. 5 unless set.
   */
  readonly rounds?: number;
  /**
   * Limit on the size of a request and of an answer, in bytes. A larger one blocks where the event can. 4 MiB unless
   * set, which is also what hookd takes unless it is set otherwise.
   */
  readonly messageBytes?: number;
  /** For `https://` addresses. Other addresses must then be on this machine. */
  readonly tls?: TlsOptions;
  /**
   * Path of a file with a token, which goes to hookd with every call as `authorization: Bearer …`. Read again when it
   * changes. Only for addresses where nobody else can read it: `https://`, `unix:`, and this machine.
   */
  readonly tokenFile?: string;
  /**
   * A connection with calls in flight on which nothing has come for `intervalMs` is asked for a sign of life, and is given
   * up where none comes within `timeoutMs`; its calls go to other replicas while they have time. 10,000 and 5,000 unless
   * set. Too short a time gives up servers that are merely busy.
   */
  readonly keepAlive?: KeepAlive;
  /** Who looks up the names among the addresses. The system unless set. */
  readonly resolve?: Resolve;
}

/** Options of a client that make no sense. Its message is one line. */
export class OptionError extends Error {
  override readonly name: string = "OptionError";
}

/** What is behind a client, for the rest of this package. */
export let inside: (client: Client) => { readonly asker: Asker; readonly onUnavailable: OnUnavailable };

/**
 * A client of one hookd, or of several that have the same rules. Make one and keep it: its calls go round all replicas
 * that are connected and have not just failed (README, "A fleet"). They share their connections, which are made when they are first needed, and do not keep the process alive.
 */
export class Client {
  readonly #asker: Asker;
  readonly #onUnavailable: OnUnavailable;

  static {
    inside = (client) => ({ asker: client.#asker, onUnavailable: client.#onUnavailable });
  }

  /**
   * @param addresses `host:port`, `http://host:port`, `https://host:port`, `unix:/path`, or several with commas between
   *   them or in a list. A name stands for as many replicas as it has addresses. Does not connect yet.
   * @throws {@link AddressError} for what is not an address, {@link OptionError} for options that make no sense.
   */
  constructor(addresses: string | readonly string[], options: ClientOptions) {
    const parsed = parseAddresses(addresses);
    checkOnUnavailable((options as ClientOptions | undefined)?.onUnavailable);
    const { onUnavailable, deadlineMs, rounds, messageBytes, tls, tokenFile, keepAlive, resolve } = options;
    if ((tls?.certFile === undefined) !== (tls?.keyFile === undefined)) {
      throw new OptionError("`tls.certFile` and `tls.keyFile` are only of use together");
    }
    const open = parsed.find((address) => !address.tls && !address.onThisMachine);
    if ((tls?.caFile !== undefined || tls?.certFile !== undefined) && open !== undefined) {
      throw new OptionError(`\`tls\` is of no use at \`${open.text}\`, expected \`https://host:port\``);
    }
    if (tokenFile !== undefined && open !== undefined) {
      throw new OptionError(`a token would travel to \`${open.text}\` in the clear, expected \`https://host:port\``);
    }
    this.#onUnavailable = onUnavailable;
    this.#asker = new Asker({
      addresses: parsed,
      deadlineMs: Math.min(count("deadlineMs", deadlineMs, DEFAULT_DEADLINE_MS), LONGEST_DEADLINE_MS),
      rounds: count("rounds", rounds, DEFAULT_ROUNDS),
      messageBytes: count("messageBytes", messageBytes, DEFAULT_MESSAGE_BYTES),
      tls,
      token: tokenFile === undefined ? undefined : new FreshFile("token file", tokenFile),
      keepAlive: {
        intervalMs: count("keepAlive.intervalMs", keepAlive?.intervalMs, DEFAULT_KEEP_ALIVE.intervalMs),
        timeoutMs: count("keepAlive.timeoutMs", keepAlive?.timeoutMs, DEFAULT_KEEP_ALIVE.timeoutMs),
      },
      resolve: resolve ?? resolveBySystem,
    });
  }

  /**
   * A client as the environment says it: where hookd listens (`HOOKD_ADDRESS`, not set: `127.0.0.1:50051`), and the files
   * named by `HOOKD_TOKEN_FILE`, `HOOKD_CA_FILE`, `HOOKD_CLIENT_CERT_FILE` and `HOOKD_CLIENT_KEY_FILE`. Set to nothing is
   * not set. Nothing else reads the environment.
   *
   * @throws as the constructor.
   */
  static fromEnvironment(options: Omit<ClientOptions, "tls" | "tokenFile">): Client {
    const { addresses, ...files } = ofEnvironment(process.env);
    return new Client(addresses, { ...options, ...files });
  }

  /** The everyday calls of one agent session. */
  session(id: string, options: SessionOptions = {}): Session {
    return new Session(this, id, options);
  }

  /** Asks about one event and says what to do now. Rejects only with the reason of an aborted signal. */
  async trigger(request: TriggerInit, options: CallOptions = {}): Promise<Gate> {
    return gateBy(this, request, () => this.call(request, options));
  }

  /**
   * Asks about one event and gives the bare answer, to look at. To act on it, take {@link Client.trigger}: it knows
   * what to do with verdicts that are not known and answers that do not come.
   *
   * Rejects with a {@link CallError} where there is no answer, or with the reason of an aborted signal.
   */
  async call(request: TriggerInit, options: CallOptions = {}): Promise<TriggerResponse> {
    const methods = [TriggerRequestSchema, TriggerResponseSchema] as const;
    return this.#asker.unary("/hookd.v1.HookService/Trigger", methods, create(TriggerRequestSchema, request), options);
  }

  /** Says what runs: version, revision, sources and their state. Rejects as {@link Client.call}. */
  async status(options: CallOptions = {}): Promise<GetStatusResponse> {
    const methods = [GetStatusRequestSchema, GetStatusResponseSchema] as const;
    return this.#asker.unary("/hookd.v1.AdminService/GetStatus", methods, create(GetStatusRequestSchema), options);
  }

  /** Lists the rules of `event`, or every rule if it is empty, in evaluation order. Rejects as {@link Client.call}. */
  async listRules(event = "", options: CallOptions = {}): Promise<ListRulesResponse> {
    const methods = [ListRulesRequestSchema, ListRulesResponseSchema] as const;
    const request = create(ListRulesRequestSchema, { event });
    return this.#asker.unary("/hookd.v1.AdminService/ListRules", methods, request, options);
  }

  /**
   * Says for every rule of the event whether it would run, and why. Starts no handler. Rejects as {@link Client.call}.
   */
  async explain(trigger: TriggerInit, options: CallOptions = {}): Promise<ExplainResponse> {
    const methods = [ExplainRequestSchema, ExplainResponseSchema] as const;
    const request = create(ExplainRequestSchema, { trigger });
    return this.#asker.unary("/hookd.v1.AdminService/Explain", methods, request, options);
  }

  /** Makes hookd read its rules again. What was refused is in the answer. Rejects as {@link Client.call}. */
  async reload(options: CallOptions = {}): Promise<ReloadResponse> {
    const methods = [ReloadRequestSchema, ReloadResponseSchema] as const;
    return this.#asker.unary("/hookd.v1.AdminService/Reload", methods, create(ReloadRequestSchema), options);
  }

  /** Closes the connections once their calls have ended. Another call opens them again. */
  close(): void {
    this.#asker.close();
  }
}

/** What to do now on the event of `request`, where `ask` gives hookd's answer or rejects with a {@link CallError}. */
export async function gateBy(client: Client, request: TriggerInit, ask: () => Promise<TriggerResponse>): Promise<Gate> {
  const event = request.event ?? "";
  try {
    return gateOfAnswer(event, await ask());
  } catch (error) {
    if (!(error instanceof CallError)) {
      throw error;
    }
    return gateOfError(event, request.toolCall?.tool, error, inside(client).onUnavailable);
  }
}

/** For callers whose types nobody checks. */
function checkOnUnavailable(value: unknown): void {
  const isList =
    typeof value === "object" && value !== null && "blockExcept" in value && Array.isArray(value.blockExcept);
  if (value !== "block" && value !== "allow" && !isList) {
    throw new OptionError(
      "`onUnavailable` has to say what happens where hookd cannot be asked: `block`, `allow` or `{ blockExcept: [tools] }`",
    );
  }
}

function count(name: string, value: unknown, otherwise: number): number {
  if (value === undefined) {
    return otherwise;
  }
  if (typeof value !== "number" || !(value >= 1)) {
    const seen = typeof value === "string" ? JSON.stringify(value) : String(value);
    throw new OptionError(`\`${name}\` is ${seen}, expected a number from 1`);
  }
  return Math.floor(value);
}

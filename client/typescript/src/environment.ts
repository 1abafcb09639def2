/** What the environment says of the way to hookd, the same for the clients of all languages. @module */

import type { TlsOptions } from "./transport.js";

const DEFAULT_ADDRESS = "127.0.0.1:50051";

/** Where hookd listens, and the files of a client. */
export interface Environment {
  readonly addresses: string;
  readonly tls?: TlsOptions;
  readonly tokenFile?: string;
}

/** What `variables` say. One that is set to nothing is not set. */
export function ofEnvironment(variables: Readonly<Record<string, string | undefined>>): Environment {
  const value = (name: string) => variables[name] || undefined;
  const caFile = value("HOOKD_CA_FILE");
  const certFile = value("HOOKD_CLIENT_CERT_FILE");
  const keyFile = value("HOOKD_CLIENT_KEY_FILE");
  const tokenFile = value("HOOKD_TOKEN_FILE");
  const hasTls = caFile !== undefined || certFile !== undefined || keyFile !== undefined;
  const tls = { ...(caFile && { caFile }), ...(certFile && { certFile }), ...(keyFile && { keyFile }) };
  return {
    addresses: value("HOOKD_ADDRESS") ?? DEFAULT_ADDRESS,
    ...(hasTls && { tls }),
    ...(tokenFile !== undefined && { tokenFile }),
  };
}

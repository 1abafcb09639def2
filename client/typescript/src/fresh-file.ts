/** Files that are replaced while this process runs: tokens, certificates, keys. @module */

import { readFileSync, statSync } from "node:fs";

/** A file that is read again whenever it has changed. */
export class FreshFile {
  readonly #what: string;
  readonly #path: string;
  #state = "";
  #content: Buffer = Buffer.alloc(0);

  /** `what` it is, for errors. */
  constructor(what: string, path: string) {
    this.#what = what;
    this.#path = path;
  }

  /** Its bytes, the same buffer while it has not changed. Throws, naming it, where it cannot be read. */
  read(): Buffer {
    try {
      const { ino, size, mtimeNs } = statSync(this.#path, { bigint: true });
      const state = `${ino} ${size} ${mtimeNs}`;
      if (state !== this.#state) {
        this.#content = readFileSync(this.#path);
        this.#state = state;
      }
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? String(error);
      throw new Error(`the ${this.#what} \`${this.#path}\` cannot be read: ${code}`);
    }
    return this.#content;
  }

  /** The one line of visible ASCII in it. Throws, naming it, where there is none. */
  readToken(): string {
    const token = this.read().toString("latin1").trim();
    if (!/^[\x21-\x7e]+$/.test(token)) {
      throw new Error(`the ${this.#what} \`${this.#path}\` holds no token, expected one line of visible ASCII`);
    }
    return token;
  }
}

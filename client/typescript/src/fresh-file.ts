/** Files that are replaced while this process runs: tokens, certificates, keys. @module */

import { readFile } from "node:fs/promises";

/** How old what was read may be. */
const FRESH_MS = 1000;

/** A file that is read again when it is needed and what was read is a second old. */
export class FreshFile {
  readonly #path: string;
  #content: Promise<Buffer> | undefined;
  #readAt = 0;

  constructor(path: string) {
    this.#path = path;
  }

  /** Its bytes. Rejects, naming `what` it is for, where it cannot be read. */
  read(what: string): Promise<Buffer> {
    const now = performance.now();
    if (this.#content === undefined || now - this.#readAt > FRESH_MS) {
      this.#readAt = now;
      this.#content = readFile(this.#path).catch((error: unknown) => {
        this.#content = undefined;
        const code = (error as NodeJS.ErrnoException).code ?? String(error);
        throw new Error(`cannot read the ${what} \`${this.#path}\`: ${code}`);
      });
    }
    return this.#content;
  }
}

/** The cap on programs that run at a time, and the queue for it. @module */

/** How many programs may be alive at the same time: as many as hookd's own lower tiers may have. */
const CHILDREN = 48;
/** How many may wait for one of those places. */
const QUEUE = 192;
/** How many may be alive that nobody waits for, counted apart. */
const BACKGROUND = 256;

/** No place, and none to wait for. */
export class Overloaded extends Error {
  override readonly name: string = "Overloaded";
}

/** Gives a place back. */
export type Release = () => void;

/** All places of one side. */
export class Places {
  #children = 0;
  #background = 0;
  readonly #queue: (() => void)[] = [];
  readonly #idle: (() => void)[] = [];

  /** How many programs run, or are being ended. */
  get live(): number {
    return this.#children + this.#background;
  }

  /**
   * Waits for a place, first come first served. `undefined`: `givenUp` came first.
   *
   * @throws {@link Overloaded}, at once, if the queue is full.
   */
  async child(givenUp: Promise<unknown>): Promise<Release | undefined> {
    if (this.#children >= CHILDREN) {
      if (this.#queue.length >= QUEUE) {
        const most = `${CHILDREN} children are alive and the queue of ${QUEUE} is full`;
        throw new Overloaded(`too many commands at once: ${most}`);
      }
      let take: () => void = () => undefined;
      const turn = new Promise<"turn">((resolve) => {
        take = () => resolve("turn");
        this.#queue.push(take);
      });
      if ((await Promise.race([turn, givenUp])) !== "turn") {
        const place = this.#queue.indexOf(take);
        if (place >= 0) {
          this.#queue.splice(place, 1);
        } else {
          // Its turn has come meanwhile: on to the next one.
          this.#release();
        }
        return undefined;
      }
      // The place was handed over, and counts already.
      return once(() => this.#release());
    }
    this.#children += 1;
    return once(() => this.#release());
  }

  /**
   * Takes a place in the background.
   *
   * @throws {@link Overloaded} if all are taken.
   */
  background(): Release {
    if (this.#background >= BACKGROUND) {
      throw new Overloaded(`too many background commands at once: all ${BACKGROUND} places are taken`);
    }
    this.#background += 1;
    return once(() => {
      this.#background -= 1;
      this.#tellIdle();
    });
  }

  /** Waits until nothing runs and everything that was ended is gone. */
  async idle(): Promise<void> {
    while (this.live > 0) {
      await new Promise<void>((resolve) => this.#idle.push(resolve));
    }
  }

  #release(): void {
    const next = this.#queue.shift();
    if (next === undefined) {
      this.#children -= 1;
      this.#tellIdle();
    } else {
      next();
    }
  }

  #tellIdle(): void {
    if (this.live === 0) {
      for (const tell of this.#idle.splice(0)) {
        tell();
      }
    }
  }
}

function once(release: Release): Release {
  let isGiven = false;
  return () => {
    if (!isGiven) {
      isGiven = true;
      release();
    }
  };
}

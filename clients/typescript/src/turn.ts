import { type Body, type Connection, numberIn, textIn } from "./connection.js";
import { FleetpaceError, UnknownLimit } from "./errors.js";
import { now, persist, sleep } from "./time.js";

/** A turn: the call may be made now. It holds its slots until they are released or their lease ends. */
export class Turn {
  /** The server's name for the turn. */
  readonly turn: string;
  readonly waitedMs: number;
  /** How long the turn keeps its slots without renewal, in ms; 0: it has none. */
  readonly leaseMs: number;
  /** A limit is stopped, and this call probes whether the API serves calls again. If it does, settle the turn as served. */
  readonly probes: boolean;
  /** Fires if the slots are lost while keep() renews them; other calls may have them then. It does not end the call. */
  readonly lost: AbortSignal;
  readonly #lose = new AbortController();
  readonly #released = new AbortController();
  #until: number;
  #kept = false;

  constructor(private readonly connection: Connection, body: Body) {
    this.turn = textIn(body, "turn");
    this.waitedMs = numberIn(body, "waited_ms");
    this.leaseMs = numberIn(body, "lease_ms", 0);
    this.probes = body["probes"] === true;
    this.lost = this.#lose.signal;
    this.#until = now() + this.leaseMs;
  }

  /** Renews the lease in the background until release(). Limiter.turn does it. */
  keep(): this {
    if (this.leaseMs > 0 && !this.#kept) void this.#renew(this.leaseMs);
    this.#kept = true;
    return this;
  }

  async #renew(lease: number): Promise<void> {
    const signal = this.#released.signal;
    const renew = () => this.connection.ask("/v1/renew", { turn: this.turn }, { signal, timeout: Math.max(this.#until - now(), 1) });
    try {
      for (;;) {
        await sleep(Math.max(lease / 3, 10), signal);
        const asked = now();
        lease = numberIn((await persist(renew, this.#until, signal)).body, "lease_ms");
        this.#until = asked + lease;
      }
    } catch (error) {
      if (!(error instanceof UnknownLimit)) await sleep(this.#until - now(), signal).catch(() => undefined);
      if (!signal.aborted) this.#lose.abort(error);
    }
  }

  /**
   * Reports how many permits the call used of each limit, in their order; undefined: unknown. With served, the API has
   * served the call: if its turn probes a hard stop, the stop ends.
   */
  async settle(used: readonly (number | undefined)[], served = false): Promise<void> {
    const ends = served && this.probes && { served };
    await this.connection.ask("/v1/settle", { turn: this.turn, used: used.map((permits) => permits ?? -1), ...ends });
  }

  /** Releases the slots when the call is done. If this request is lost, they are free when the lease ends. */
  async release(): Promise<void> {
    if (this.leaseMs === 0 || this.#released.signal.aborted) return;
    this.#released.abort();
    const release = () => this.connection.ask("/v1/release", { turn: this.turn }, { timeout: 5_000 });
    await persist(release, now() + 5_000).catch((error: unknown) => {
      if (!(error instanceof FleetpaceError)) throw error;
    });
  }
}

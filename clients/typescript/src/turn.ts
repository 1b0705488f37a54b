import { type Body, type Connection, numberIn, textIn } from "./connection.js";
import { FleetpaceError, UnknownLimit } from "./errors.js";
import { now, persist, sleep } from "./time.js";

/** A call may be made now. Slots are held until they are released, or their lease is over. */
export class Turn {
  /** The server's name of it. */
  readonly turn: string;
  readonly waitedMs: number;
  /** For how long slots are held without being renewed; 0: the turn has none. */
  readonly leaseMs: number;
  /** Fires when the slots are lost while keep() renews them: others may have them. It ends nothing by itself. */
  readonly lost: AbortSignal;
  readonly #lose = new AbortController();
  readonly #released = new AbortController();
  #until: number;
  #kept = false;

  constructor(private readonly connection: Connection, body: Body) {
    this.turn = textIn(body, "turn");
    this.waitedMs = numberIn(body, "waited_ms");
    this.leaseMs = numberIn(body, "lease_ms", 0);
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

  /** Tells what the call used in truth: permits of each limit in their order, undefined where that is not known. */
  async settle(used: readonly (number | undefined)[]): Promise<void> {
    await this.connection.ask("/v1/settle", { turn: this.turn, used: used.map((permits) => permits ?? -1) });
  }

  /** The call is done, its slots are free. If the server does not hear it, they are when the lease is over. */
  async release(): Promise<void> {
    if (this.leaseMs === 0 || this.#released.signal.aborted) return;
    this.#released.abort();
    const release = () => this.connection.ask("/v1/release", { turn: this.turn }, { timeout: 5_000 });
    await persist(release, now() + 5_000).catch((error: unknown) => {
      if (!(error instanceof FleetpaceError)) throw error;
    });
  }
}

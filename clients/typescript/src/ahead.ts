import type { Allowed, Limiter } from "./limiter.js";
import { now } from "./time.js";

/** Prefetched turns of one limit and key. */
class Stock {
  asking: Promise<Allowed> | undefined;
  #answer: Allowed | undefined;
  #since = 0;
  #used = 0;

  fill(answer: Allowed, since: number): void {
    [this.#answer, this.#since, this.#used] = [answer, since, 1];
  }

  /** Turns that may still be used. They expire evenly over their time. */
  get left(): number {
    const { taken = 0, validMs = 0 } = this.#answer ?? {};
    const part = validMs > 0 ? Math.max(0, 1 - (now() - this.#since) / validMs) : 0;
    return Math.min(taken - this.#used, Math.floor(taken * part));
  }

  /** Uses a turn. Leaves out the header RateLimit, which is from the time at which the turns were taken. */
  draw(): Allowed | undefined {
    if (this.left < 1) return undefined;
    this.#used++;
    const headers = new Headers(this.#answer!.headers);
    headers.delete("ratelimit");
    return { ...this.#answer!, headers };
  }
}

/**
 * Prefetches turns for the next calls. At most one request per limit and key is in flight, and calls
 * that come meanwhile share its response.
 */
export class Ahead {
  readonly #stocks = new Map<string, Stock>(); // the least recently used one first

  /** Turns per request (1: no prefetch), and the most keys with turns; the least recently used key loses its turns. */
  constructor(private readonly ahead: number, private readonly timeout: number, private readonly keys = 10_000) {}

  /** Takes a turn if one is available now. */
  async allow(limiter: Limiter): Promise<Allowed> {
    const key = JSON.stringify(limiter.request);
    for (;;) {
      const stock = this.#stock(key);
      const turn = stock.draw();
      if (turn) return turn;
      if (!stock.asking) return await (stock.asking = this.#ask(limiter, key, stock));
      const answer = await stock.asking;
      if (!answer.allowed) return answer;
    }
  }

  /** How many keys are known. */
  get size(): number {
    return this.#stocks.size;
  }

  async #ask(limiter: Limiter, key: string, stock: Stock): Promise<Allowed> {
    const since = now();
    try {
      const answer = await limiter.allow({ timeout: this.timeout, ...(this.ahead > 1 && { ahead: this.ahead }) });
      stock.fill(answer, since);
      return answer;
    } finally {
      stock.asking = undefined;
      if (stock.left < 1 && this.#stocks.get(key) === stock) this.#stocks.delete(key);
    }
  }

  #stock(key: string): Stock {
    const stock = this.#stocks.get(key) ?? new Stock();
    this.#stocks.delete(key);
    this.#stocks.set(key, stock);
    for (const [oldest, { asking }] of this.#stocks) {
      if (this.#stocks.size <= this.keys) break;
      if (!asking && oldest !== key) this.#stocks.delete(oldest);
    }
    return stock;
  }
}

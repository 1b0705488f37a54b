import type { Allowed, Limiter } from "./limiter.js";
import { now } from "./time.js";

/** Turns of one limit and key that were taken ahead of their calls. */
class Stock {
  asking: Promise<Allowed> | undefined;
  #answer: Allowed | undefined;
  #since = 0;
  #used = 0;

  fill(answer: Allowed, since: number): void {
    [this.#answer, this.#since, this.#used] = [answer, since, 1];
  }

  /** Turns that may be used. Of those that were taken, no more are left than of their time. */
  get left(): number {
    const { taken = 0, validMs = 0 } = this.#answer ?? {};
    const part = validMs > 0 ? Math.max(0, 1 - (now() - this.#since) / validMs) : 0;
    return Math.min(taken - this.#used, Math.floor(taken * part));
  }

  /** Uses a turn. RateLimit told how many were left when they were taken, and is left out. */
  draw(): Allowed | undefined {
    if (this.left < 1) return undefined;
    this.#used++;
    const headers = new Headers(this.#answer!.headers);
    headers.delete("ratelimit");
    return { ...this.#answer!, headers };
  }
}

/**
 * Asks for turns ahead and keeps them for the next calls: of each limit and key one request is
 * under way at most, and calls that come meanwhile share its answer.
 */
export class Ahead {
  readonly #stocks = new Map<string, Stock>(); // the least recently used one first

  /** Turns per request; 1 takes none ahead. So many keys have turns; then those not used for longest lose theirs. */
  constructor(private readonly ahead: number, private readonly timeout: number, private readonly keys = 10_000) {}

  /** Takes a turn if there is one now. */
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

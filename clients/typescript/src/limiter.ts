import { type Connection, numberIn, textIn } from "./connection.js";
import { InvalidRequest, stopIn, TooLate } from "./errors.js";
import { duration, now, persist, sleep } from "./time.js";
import { Turn } from "./turn.js";
import { useOf } from "./way.js";

/** A limit of the server's file, with the key and the cost of a call. */
export interface Limit {
  name: string;
  /** For a limit with a key: its value, or a value for each name of its template. */
  key?: string | Record<string, string> | undefined;
  /** Permits. Default 1. */
  cost?: number | undefined;
}

/** The flow of the calls. */
export interface Whose {
  /** Whose calls they are, such as a tenant. While calls wait, turns are divided among the flows by weight. */
  flow?: string | undefined;
  /** @deprecated The earlier name of flow. It goes with v0.4. */
  share?: string | undefined;
  /** Default 1. */
  weight?: number | undefined;
  /** The call goes ahead of all waiting calls. */
  urgent?: boolean | undefined;
}

export interface WaitOptions {
  /** How many ms the call may wait for its turn. Default: any time. */
  maxWait?: number | undefined;
  /** An id for this call alone. If this process ends, the place is kept for a while; ask again with the id. */
  id?: string | undefined;
  /** Ends the wait at once. With an id of yours, the place is kept, unless you leave() it. */
  signal?: AbortSignal | undefined;
}

export interface AskOptions {
  /** How many ms to wait for the turn before the call is booked. Default 0. */
  poll?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** A hard stop, for a caller that does not wait. Its fields are those of Exhausted. */
export interface Stop {
  scope: string;
  reason: string;
  until?: Date;
}

/** Whose rules say what a refusal means. APIs that are compatible with OpenAI have its rules. */
export type Api = "anthropic" | "openai" | "azure" | "gemini" | "bedrock" | "shopify" | "github";

/** A response that refuses a call, or a failure that a body of status 200 reports. */
export interface Refusal {
  api: Api;
  status: number;
  headers: Headers;
  /** The body, if it is short; with a status below 400 the event or document that reports the failure. */
  body: string;
  host: string;
  /** How many ms ago the call was sent. */
  ago: number;
}

/** The call is booked. Ask again with its id after retryAfter ms, from any process; its turn comes after about forecast ms. */
export interface Later {
  retryAfter: number;
  forecast: number;
  /** The limit that delays the call most. */
  heldBy?: string | undefined;
  /** The limit is stopped. */
  stop?: Stop;
}

export interface AllowOptions {
  /** The most turns to take, also for the next calls. It needs one paced limit or one quota. */
  ahead?: number | undefined;
  signal?: AbortSignal | undefined;
  /** How many ms the response may take. Default 10 s. */
  timeout?: number | undefined;
}

export interface Allowed {
  allowed: boolean;
  /** How many turns were taken, including this call's. */
  taken: number;
  /** Unused turns expire evenly over this time, in ms. */
  validMs: number;
  /** The permits that are left of the limit with the fewest. */
  remaining?: number;
  /** That limit. */
  limit: string;
  /** After how many ms a turn would be available; 0 if the call is allowed. */
  retryAfter: number;
  /** The limit is stopped. */
  stop?: Stop;
  /** The headers of the response, with Retry-After, RateLimit-Policy and RateLimit. */
  headers: Headers;
}

/** One limit or several, and what each call needs of them. It holds no resources: make as many as you like. */
export class Limiter {
  /** The fields of its requests. */
  readonly request: Readonly<{ limits: readonly Limit[] } & Whose>;

  /** Use Fleetpace.limiter. */
  constructor(private readonly connection: Connection, limits: readonly Limit[], { flow, share, weight, urgent }: Whose) {
    if (flow !== undefined && share !== undefined) throw new InvalidRequest(`share is ${share}: it is the earlier name of flow: give one of them`, { field: "share", value: share });
    this.request = JSON.parse(JSON.stringify({ limits, flow: flow ?? share, weight, urgent })); // a copy, without undefined values
  }

  /** The same limits with other costs of a call, in their order: each is at least 1; undefined: as it was. */
  costing(costs: readonly (number | undefined)[]): Limiter {
    const { limits, ...whose } = this.request;
    if (costs.length !== limits.length) throw new InvalidRequest(`costs are ${costs}: must be one for each of ${limits.length} limits`, { field: "costs", value: costs });
    return new Limiter(this.connection, limits.map((limit, i) => ({ ...limit, cost: costs[i] === undefined ? limit.cost : Math.max(1, costs[i]) })), whose);
  }

  /**
   * Waits for a turn, and returns one that comes too late to the limit. Make the call at once: later delays are not
   * noticed. Slots of the turn must be renewed: see Turn.keep, or use turn().
   */
  async wait(options: WaitOptions = {}): Promise<Turn> {
    return (await this.#wait(options)) as Turn;
  }

  /**
   * Asks for the turn of the call with this id. If it comes after the poll, the call is booked. Make the call at once;
   * if the limits have slots, keep() and release() the turn.
   */
  async ask(id: string, { poll = 0, signal }: AskOptions = {}): Promise<Turn | Later> {
    if (!(poll >= 0)) throw new InvalidRequest(`poll is ${poll}: must be 0 ms or more`, { field: "poll", value: poll });
    return await this.#wait({ id, signal }, poll);
  }

  /** Waits for a turn; with a poll, no longer than that. */
  async #wait({ maxWait, id, signal }: WaitOptions, once?: number): Promise<Turn | Later> {
    const field = "maxWait";
    if (maxWait !== undefined && !(maxWait >= 0)) throw new InvalidRequest(`maxWait is ${maxWait}: must be 0 ms or more`, { field, value: maxWait });
    const until = maxWait === undefined ? undefined : now() + maxWait;
    const restMs = () => Math.max(0, (until ?? Infinity) - now());
    const { ways } = this.connection;
    let place = id;
    let sent = 0;
    const attempts: string[] = []; // random names of this request and of those before it that had no response
    let late: { turn?: string | undefined; way: number } | undefined; // of the last turn, which was not used
    const poll = () => {
      const way = Math.max(ways.least, late?.way ?? 0);
      const rest = restMs();
      const pollMs = Math.min(rest, once ?? 25_000);
      const most = maxWait !== undefined && { max_wait: duration(place === undefined ? rest : maxWait) }; // with an id the server counts the time
      const again = late && { late: true, turn: late.turn };
      const body = { ...this.request, ...most, poll: duration(pollMs), id: place, ...again, ...(way >= 1 && { way: duration(way) }) };
      sent = now();
      const name = globalThis.crypto?.randomUUID?.(); // Node 18 has none: a name that can be guessed would be worse
      if (name) attempts.unshift(name);
      attempts.splice(4);
      return this.connection.ask("/v1/wait", body, { signal, timeout: pollMs + 10_000, attempts });
    };
    try {
      for (let slow = 0; ; ) {
        const { status, body } = await persist(poll, until, signal, () => place !== undefined && (late = { way: 0, ...late, turn: undefined }));
        const heard = now();
        attempts.length = 0;
        const onTheWay = "held_ms" in body ? ways.heard(heard - sent - numberIn(body, "held_ms")) : 0;
        if (status !== 202) {
          const turn = new Turn(this.connection, body);
          const use = useOf(body, sent, heard, ways.least);
          if (use.from > heard) await sleep(use.from - heard, signal);
          if (now() <= use.until) return turn;
          // That may happen once, for example if the event loop was blocked. From the second time on the next request sends way.
          const way = slow && Math.min(slow, onTheWay);
          slow = slow ? way : onTheWay;
          place = typeof body["id"] === "string" ? body["id"] : id;
          late = place === undefined ? undefined : { turn: turn.turn, way };
          continue;
        }
        late = undefined;
        const [retryAfter, forecast] = [numberIn(body, "retry_after_ms"), numberIn(body, "forecast_ms")];
        if (once !== undefined) return { retryAfter, forecast, ...("held_by" in body && { heldBy: textIn(body, "held_by") }), ...stopIn(body) };
        place = textIn(body, "id");
        if (restMs() === 0) throw new TooLate(`no turn in ${maxWait} ms`, { retryAfter: forecast });
        await sleep(Math.min(Math.max(retryAfter, 10), restMs()), signal);
      }
    } catch (error) {
      const kept = id !== undefined && !(error instanceof TooLate); // the caller may ask again with its id
      if (place !== undefined && !kept) void this.leave(place).catch(() => undefined);
      throw error;
    }
  }

  /** Waits for a turn and runs the function. It renews the slots of the turn meanwhile, and releases them at the end. */
  async turn<T>(run: (turn: Turn) => T | Promise<T>, options: WaitOptions = {}): Promise<T> {
    const turn = (await this.wait(options)).keep();
    try {
      return await run(turn);
    } finally {
      await turn.release();
    }
  }

  /** Gives up the place of an id of yours: its call will not be made. */
  async leave(id: string): Promise<void> {
    await this.connection.ask("/v1/leave", { limits: this.request.limits, id });
  }

  /** Takes a turn if one is available now. With ahead it takes up to that many, for the next calls. */
  async allow({ ahead, ...terms }: AllowOptions = {}): Promise<Allowed> {
    const { headers, body } = await this.connection.ask("/v1/allow", { ...this.request, ahead }, terms);
    return {
      allowed: body["allowed"] === true,
      taken: numberIn(body, "taken"),
      validMs: numberIn(body, "valid_ms", 0),
      ...("remaining" in body && { remaining: numberIn(body, "remaining") }),
      limit: textIn(body, "limit"),
      retryAfter: numberIn(body, "retry_after", 0) * 1000,
      ...stopIn(body),
      headers,
    };
  }

  /** Pauses the limits for so many ms, for the whole fleet. The reason is for operators. */
  async pause(ms: number, reason?: string): Promise<void> {
    await this.connection.ask("/v1/pause", { limits: this.request.limits, for: duration(ms), reason: reason?.slice(0, 256) });
  }

  /**
   * Says that the API has refused a call. The server pauses or stops the limits for the whole fleet, by the rules of the
   * API. It returns headers that tell an SDK whether to repeat the request.
   */
  async refused({ api, status, headers, body, host, ago }: Refusal): Promise<Record<string, string>> {
    const telling = [...headers].filter(([name]) => /^date$|retry|ratelimit|errortype/.test(name));
    const about = { api, status, headers: Object.fromEntries(telling), body, host, ago: duration(ago) };
    const advice = (await this.connection.ask("/v1/refused", { limits: this.request.limits, ...about })).body;
    if (advice["retry"] === false) return { "x-should-retry": "false" };
    return "retry_after_ms" in advice ? { "retry-after-ms": String(numberIn(advice, "retry_after_ms")) } : {};
  }

  /** Ends a pause. */
  async resume(): Promise<void> {
    await this.connection.ask("/v1/resume", { limits: this.request.limits });
  }
}

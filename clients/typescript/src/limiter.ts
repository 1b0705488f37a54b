import { type Connection, numberIn, textIn } from "./connection.js";
import { InvalidRequest, TooLate } from "./errors.js";
import { duration, now, persist, sleep } from "./time.js";
import { Turn } from "./turn.js";
import { useOf } from "./way.js";

/** A limit of the server's file, and what a call needs of it. */
export interface Limit {
  name: string;
  /** For a limit with a key: its value, or a value for each name of its template. */
  key?: string | Record<string, string> | undefined;
  /** Permits. Default 1. */
  cost?: number | undefined;
}

/** Whose calls they are. */
export interface Whose {
  /** Such as a tenant. Where calls wait, each share has its turns by its weight. */
  share?: string | undefined;
  /** Default 1. */
  weight?: number | undefined;
  /** Goes before all others that wait. */
  urgent?: boolean | undefined;
}

export interface WaitOptions {
  /** How many ms the call may wait for its turn in all. Default: any time. */
  maxWait?: number | undefined;
  /** Of this call alone. Its place is kept for a while where this process ends, and asked for again under it. */
  id?: string | undefined;
  /** Ends the wait at once. The place under an id of yours is kept, unless you leave() it. */
  signal?: AbortSignal | undefined;
}

export interface AllowOptions {
  /** How many turns to take at most, for the next calls, too. Of one paced limit or one quota. */
  ahead?: number | undefined;
  signal?: AbortSignal | undefined;
  /** How many ms the answer may take. Default 10 s. */
  timeout?: number | undefined;
}

export interface Allowed {
  allowed: boolean;
  /** How many turns were taken, this call's too. */
  taken: number;
  /** In how many ms those that are not used lapse, evenly. */
  validMs: number;
  /** Permits that are left, of the limit that has least. */
  remaining?: number;
  /** The text of that limit. */
  limit: string;
  /** In how many ms a turn would come; 0 of a call that is allowed. */
  retryAfter: number;
  /** Retry-After, RateLimit-Policy and RateLimit are among them. */
  headers: Headers;
}

/** One limit or several, and what each call needs of them. It holds nothing: make as many as you like. */
export class Limiter {
  /** What is asked for. */
  readonly request: Readonly<{ limits: readonly Limit[] } & Whose>;

  /** Use Fleetpace.limiter. */
  constructor(private readonly connection: Connection, limits: readonly Limit[], { share, weight, urgent }: Whose) {
    this.request = JSON.parse(JSON.stringify({ limits, share, weight, urgent })); // a copy, without what is undefined
  }

  /**
   * Waits for a turn, and hands back one that comes too late. Make the call at once: what passes until then this cannot
   * see. Slots of the turn have to be renewed: see Turn.keep, or use turn().
   */
  async wait({ maxWait, id, signal }: WaitOptions = {}): Promise<Turn> {
    const field = "maxWait";
    if (maxWait !== undefined && !(maxWait >= 0)) throw new InvalidRequest(`maxWait is ${maxWait}: must be 0 ms or more`, { field, value: maxWait });
    const until = maxWait === undefined ? undefined : now() + maxWait;
    const restMs = () => Math.max(0, (until ?? Infinity) - now());
    const { ways } = this.connection;
    let place = id;
    let sent = 0;
    let late: { turn?: string | undefined; way: number } | undefined; // of the last turn, which was not used
    const poll = () => {
      const way = Math.max(ways.least, late?.way ?? 0);
      const rest = restMs();
      const pollMs = Math.min(rest, 25_000);
      const most = maxWait !== undefined && { max_wait: duration(place === undefined ? rest : maxWait) }; // under an id the server counts
      const again = late && { late: true, turn: late.turn };
      const body = { ...this.request, ...most, poll: duration(pollMs), id: place, ...again, ...(way >= 1 && { way: duration(way) }) };
      sent = now();
      return this.connection.ask("/v1/wait", body, { signal, timeout: pollMs + 10_000 });
    };
    try {
      for (let slow = 0; ; ) {
        const { status, body } = await persist(poll, until, signal, () => place !== undefined && (late = { way: 0, ...late, turn: undefined }));
        const heard = now();
        const onTheWay = "held_ms" in body ? ways.heard(heard - sent - numberIn(body, "held_ms")) : 0;
        if (status !== 202) {
          const turn = new Turn(this.connection, body);
          const use = useOf(body, sent, heard, ways.least);
          if (use.from > heard) await sleep(use.from - heard, signal);
          if (now() <= use.until) return turn;
          // Once is chance, such as a loop that stood still. From the second time on the next turn has such a way before it.
          const way = slow && Math.min(slow, onTheWay);
          slow = slow ? way : onTheWay;
          place = typeof body["id"] === "string" ? body["id"] : id;
          late = place === undefined ? undefined : { turn: turn.turn, way };
          continue;
        }
        late = undefined;
        place = textIn(body, "id");
        if (restMs() === 0) throw new TooLate(`no turn in ${maxWait} ms`, { retryAfter: numberIn(body, "forecast_ms") });
        await sleep(Math.min(Math.max(numberIn(body, "retry_after_ms"), 10), restMs()), signal);
      }
    } catch (error) {
      const kept = id !== undefined && !(error instanceof TooLate); // who gave the id may come back
      if (place !== undefined && !kept) void this.leave(place).catch(() => undefined);
      throw error;
    }
  }

  /** Waits for a turn and runs the function. Meanwhile it renews the slots of the turn, and then releases them. */
  async turn<T>(run: (turn: Turn) => T | Promise<T>, options: WaitOptions = {}): Promise<T> {
    const turn = (await this.wait(options)).keep();
    try {
      return await run(turn);
    } finally {
      await turn.release();
    }
  }

  /** Gives up the place that is kept under an id of yours: its call will not be made. */
  async leave(id: string): Promise<void> {
    await this.connection.ask("/v1/leave", { limits: this.request.limits, id });
  }

  /** Takes a turn if there is one now. With ahead, up to so many, for the next calls. */
  async allow({ ahead, ...terms }: AllowOptions = {}): Promise<Allowed> {
    const { headers, body } = await this.connection.ask("/v1/allow", { ...this.request, ahead }, terms);
    return {
      allowed: body["allowed"] === true,
      taken: numberIn(body, "taken"),
      validMs: numberIn(body, "valid_ms", 0),
      ...("remaining" in body && { remaining: numberIn(body, "remaining") }),
      limit: textIn(body, "limit"),
      retryAfter: numberIn(body, "retry_after", 0) * 1000,
      headers,
    };
  }

  /** Nobody has a turn for so many ms, in the whole fleet. The reason is for people. */
  async pause(ms: number, reason?: string): Promise<void> {
    await this.connection.ask("/v1/pause", { limits: this.request.limits, for: duration(ms), reason: reason?.slice(0, 256) });
  }

  /** Ends a pause. */
  async resume(): Promise<void> {
    await this.connection.ask("/v1/resume", { limits: this.request.limits });
  }
}

import { Connection, type Options } from "./connection.js";
import { FleetpaceError } from "./errors.js";
import { type Limit, Limiter, type Whose } from "./limiter.js";

/** A limit of the server's file: its name, its text, and the templates of its keys and flows; share is the earlier name of flow. */
export type LimitInfo = { name: string; limit: string; key?: string; flow?: string; share?: string };

/** The state of a limit. */
export interface State {
  name: string;
  /** The limit in force. */
  limit: string;
  /** Whether the limit in force is an override. */
  set: boolean;
  setForMs?: number;
  /** Permits that are available. */
  stored: number;
  /** How long a call of one permit would wait. It is absent while all slots are in use, as nobody knows it. */
  waitMs?: number;
  waiting: number;
  booked: number;
  processes: number;
  pausedMs: number;
  pauseReason?: string;
  holders?: { process?: string; doing?: string; slots?: number; since?: string }[];
}

/** A server that grants turns, `fleetpace serve`. It need not be closed. All times are in ms. */
export class Fleetpace {
  readonly #connection: Connection;

  constructor(options: Options = {}) {
    this.#connection = new Connection(options);
  }

  /** One limit, or up to eight in one turn: a call gets the permits of all or of none. */
  limiter(name: string, options?: Omit<Limit, "name"> & Whose): Limiter;
  limiter(limits: readonly Limit[], whose?: Whose): Limiter;
  limiter(limits: string | readonly Limit[], { key, cost, ...whose }: Partial<Limit> & Whose = {}): Limiter {
    const one = typeof limits === "string" && { name: limits, ...(key !== undefined && { key }), ...(cost !== undefined && { cost }) };
    return new Limiter(this.#connection, one ? [one] : (limits as readonly Limit[]), whose);
  }

  /** The limits of the server's file. */
  async limits(): Promise<LimitInfo[]> {
    const { limits } = (await this.#connection.ask("/v1/limits")).body;
    if (!Array.isArray(limits)) throw new FleetpaceError("the answer's limits are no list", { field: "limits", value: limits });
    return limits as LimitInfo[];
  }

  /** The state of a limit, or of one of its keys. */
  async state(name: string, key?: string): Promise<State> {
    const query = key === undefined ? "" : `?key=${encodeURIComponent(key)}`;
    const { body } = await this.#connection.ask(`/v1/limits/${encodeURIComponent(name)}${query}`);
    const camel = (field: string) => field.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
    return Object.fromEntries(Object.entries(body).map(([field, value]) => [camel(field), value])) as unknown as State;
  }
}

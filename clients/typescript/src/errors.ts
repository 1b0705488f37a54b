interface Details {
  /** The status of the response, if there was one. */
  status?: number;
  /** After how many ms to ask again, if the server said so. */
  retryAfter?: number | undefined;
  /** The field that is wrong, and its value. */
  field?: string;
  value?: unknown;
  cause?: unknown;
}

/** The base of all errors of this package. A signal that fires throws its own reason. */
export class FleetpaceError extends Error {
  override name = "FleetpaceError";

  constructor(text: string, details: Details = {}) {
    super(text);
    Object.assign(this, details);
  }
}
export interface FleetpaceError extends Details {}

/** The turn would come after maxWait. No permit was used, and no place is kept. */
export class TooLate extends FleetpaceError { override name = "TooLate"; }
/** A limit is stopped, for example because the account is used up. No permit was used, and no place is kept. */
export class Exhausted extends TooLate {
  override name = "Exhausted";
  /** The limit that is stopped, as the command fleetpace takes it. */
  scope = "";
  /** Why it is stopped. */
  reason = "";
  /** When the stop ends, if that is known. */
  until?: Date;
}
/** The server or its Redis is unreachable, and no turn was granted. Ask again. */
export class Unavailable extends FleetpaceError { override name = "Unavailable"; }
/** The request is wrong: asking again does not help. */
export class InvalidRequest extends FleetpaceError { override name = "InvalidRequest"; }
/** The server requires a token, or one with another right. */
export class Unauthorized extends FleetpaceError { override name = "Unauthorized"; }
/** The server does not know the limit or the turn. */
export class UnknownLimit extends FleetpaceError { override name = "UnknownLimit"; }
/** Another request with the same id has taken the place. */
export class Conflict extends FleetpaceError { override name = "Conflict"; }

const byStatus = { 400: InvalidRequest, 401: Unauthorized, 403: Unauthorized, 404: UnknownLimit, 409: Conflict, 413: InvalidRequest, 415: InvalidRequest, 429: TooLate };

/** The error of a response: its status, and its problem document (RFC 9457), if it has one. */
export function errorOf(status: number, problem: Record<string, unknown>, retryAfter?: number): FleetpaceError {
  const { title, detail, field, value } = problem;
  const said = [detail, title].find((text) => typeof text === "string" && text !== "") ?? "no problem document says why";
  const known = typeof field === "string" ? { field, value } : {};
  const wrong = known.field === undefined ? "" : ` ${field} is ${JSON.stringify(value)?.slice(0, 100)}:`;
  const kind = status >= 500 ? Unavailable : byStatus[status as keyof typeof byStatus] ?? FleetpaceError;
  const text = `${status}:${wrong} ${String(said).slice(0, 500)}`;
  const { stop } = stopIn(problem);
  if (kind !== TooLate || !stop) return new kind(text, { status, retryAfter, ...known });
  return Object.assign(new Exhausted(text, { status, retryAfter }), stop);
}

/** What a document says of a hard stop, if it does. */
export function stopIn(body: Record<string, unknown>): { stop?: { scope: string; reason: string; until?: Date } } {
  if (typeof body["scope"] !== "string") return {};
  const until = new Date(String(body["until"]));
  return { stop: { scope: body["scope"], reason: String(body["reason"] ?? ""), ...(until.getTime() > 0 && { until }) } };
}

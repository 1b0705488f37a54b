import { errorOf, FleetpaceError, InvalidRequest, Unavailable } from "./errors.js";
import { longest, retryAfterOf } from "./time.js";
import { Ways } from "./way.js";

export interface Options {
  /** Where the server is. Default http://localhost:9467. For a unix socket see fleetpace/unix. */
  url?: string | undefined;
  /** The server's bearer token, if it requires one. */
  token?: string | undefined;
  /** The name of this process, for operators. Default: its host and PID; in a browser there is none. */
  caller?: string | undefined;
  /** Default: the global fetch. */
  fetch?: Fetch | undefined;
}

type Fetch = (url: string, init?: RequestInit) => Promise<Response>;

export type Body = Record<string, unknown>;

interface Terms {
  signal?: AbortSignal | undefined;
  /** How many ms the response may take. Default 10 s. */
  timeout?: number | undefined;
  /** The name of the request, and those of the ones before it that had no response. */
  attempts?: readonly string[] | undefined;
}

interface OwnProcess { pid?: number; getBuiltinModule?: (name: string) => { hostname(): string } | undefined }

function ownName(): string | undefined {
  const { process } = globalThis as { process?: OwnProcess };
  return process?.pid === undefined ? undefined : `${process.getBuiltinModule?.("node:os")?.hostname() ?? "node"}/${process.pid}`;
}

/** Sends one request to the server. Failures become errors. */
export class Connection {
  /** The round-trip times of requests that wait. */
  readonly ways = new Ways();
  readonly #url: string;
  readonly #headers: Record<string, string> = { accept: "application/json" };
  readonly #fetch: Fetch;

  constructor({ url = "http://localhost:9467", token, fetch, caller = ownName() }: Options) {
    if (!/^https?:\/\/[^/?#@\s]+(\/[^?#\s]*)?$/.test(url)) {
      const text = `url is ${url}: must be like http://host:port; for a unix socket give fetch: unixFetch(path) of fleetpace/unix`;
      throw new InvalidRequest(text, { field: "url", value: url });
    }
    this.#url = url.replace(/\/+$/, "");
    this.#fetch = fetch ?? ((asked, init) => globalThis.fetch(asked, init)); // a browser's fetch must be called as a method of globalThis
    if (caller) this.#headers["fleetpace-caller"] = caller.replace(/[^!-~]/g, "_").slice(0, 64);
    if (token !== undefined) this.#headers["authorization"] = new Headers([["authorization", `Bearer ${token}`]]).get("authorization")!;
  }

  /** Sends POST with the body, or GET without one. A 429 with the field `allowed` is not an error. */
  async ask(path: string, body?: object, { signal, timeout = 10_000, attempts }: Terms = {}): Promise<{ status: number; headers: Headers; body: Body }> {
    const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    const headers = { ...this.#headers, ...(body && { "content-type": "application/json" }), ...(attempts?.length && { "fleetpace-attempt": attempts.join(" ") }) };
    signal?.throwIfAborted();
    const end = new AbortController(); // closes the connection, so that the server notices
    const hangUp = () => end.abort(signal?.reason);
    signal?.addEventListener("abort", hangUp, { once: true });
    const timer = setTimeout(() => end.abort(new Error(`no answer in ${Math.round(timeout)} ms`)), Math.min(timeout, longest));
    try {
      const answer = await this.#fetch(this.#url + path, { ...init, headers, redirect: "manual", signal: end.signal });
      return { status: answer.status, headers: answer.headers, body: read(this.#url + path, answer, await answer.text()) };
    } catch (error) {
      if (error instanceof FleetpaceError) throw error;
      signal?.throwIfAborted();
      const { message, cause } = error as Error;
      throw new Unavailable(`${this.#url} does not answer: ${(cause instanceof Error && cause.message) || message}`, { cause: error });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", hangUp);
    }
  }
}

function read(url: string, { ok, status, type, headers }: Response, text: string): Body {
  if (type === "opaqueredirect" || (status >= 300 && status < 400)) {
    throw new FleetpaceError(`${url} redirects to ${headers.get("location") ?? "another one"}, which is not followed: correct the url`, { status });
  }
  const body = status === 204 ? {} : objectOf(text);
  if (!ok && !(status === 429 && body && "allowed" in body)) throw errorOf(status, body ?? {}, retryAfterOf(headers));
  if (!body) throw new FleetpaceError(`${url} answers with what is no JSON object: ${text.slice(0, 80)}`, { status });
  return body;
}

function objectOf(text: string): Body | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Body) : undefined;
  } catch {
    return undefined;
  }
}

/** A string of a response. */
export function textIn(body: Body, field: string): string {
  const value = body[field];
  if (typeof value === "string" && value !== "") return value;
  throw new FleetpaceError(`the answer's ${field} is ${JSON.stringify(value)}: must be a text`, { field, value });
}

/** A number of a response, or a default if it is missing. */
export function numberIn(body: Body, field: string, missing?: number): number {
  const value = body[field] ?? missing;
  if (typeof value === "number" && value >= 0) return value;
  throw new FleetpaceError(`the answer's ${field} is ${JSON.stringify(value)}: must be a number of 0 or above`, { field, value });
}

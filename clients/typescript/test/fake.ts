import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { Fleetpace, type Options } from "fleetpace";
import { unixFetch } from "fleetpace/unix";
import { breach } from "./contract.js";

export interface Asked {
  method: string;
  path: string;
  query: URLSearchParams;
  body: Record<string, unknown>;
  headers: IncomingMessage["headers"];
  /** When it came, in ms. */
  at: number;
  response: ServerResponse;
  /** Resolves when the caller has closed the connection. */
  hungUp: Promise<void>;
}

export interface Reply {
  status?: number;
  headers?: Record<string, string>;
  /** An object, which becomes JSON, or a text as it is. */
  body?: unknown;
  /** Ends the connection after so many bytes of the body. */
  cut?: number;
}

/** What a path answers; undefined: nothing, ever. */
export type Handler = (asked: Asked) => Reply | undefined | Promise<Reply | undefined>;

export const problem = (status: number, more: object = {}, headers: Record<string, string> = {}): Reply => ({
  status,
  headers: { "content-type": "application/problem+json", ...headers },
  body: { title: "Problem", status, detail: "it is so", ...more },
});

export const given: Reply = { body: { turn: "t1", waited_ms: 1 } };
export const done: Reply = { status: 204 };
export const later = (id: string, retryAfterMs = 0, forecastMs = retryAfterMs): Reply => ({
  status: 202,
  headers: { "retry-after": String(Math.ceil(retryAfterMs / 1000)) },
  body: { id, forecast_ms: forecastMs, retry_after_ms: retryAfterMs },
});

/** A server that follows the contract, and answers what a test wants. */
export class Fake {
  readonly asked: Asked[] = [];
  readonly socketPath: string | undefined;
  #server: Server;
  #port = 0;
  /** What broke the contract; a test fails of it in the end. */
  readonly breaches: string[] = [];

  constructor(private readonly handlers: Record<string, Handler>, folder?: string) {
    this.socketPath = folder && join(folder, "s");
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  async listen(): Promise<this> {
    this.#server.listen(this.socketPath ? { path: this.socketPath } : { port: this.#port, host: "127.0.0.1" });
    await once(this.#server, "listening");
    if (!this.socketPath) this.#port = (this.#server.address() as AddressInfo).port;
    return this;
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  /** Of a client of this server. */
  get options(): Options {
    return this.socketPath ? { fetch: unixFetch(this.socketPath) } : { url: `http://127.0.0.1:${this.#port}` };
  }

  client(more: Options = {}): Fleetpace {
    return new Fleetpace({ ...this.options, ...more });
  }

  of(path: string): Asked[] {
    return this.asked.filter((asked) => asked.path === path);
  }

  /** Waits until a path was asked so many times. */
  async seen(path: string, times = 1): Promise<Asked> {
    for (let i = 0; this.of(path).length < times; i++) {
      assert.ok(i < 2_000, `${path} was asked ${this.of(path).length} times, not ${times}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return this.of(path)[times - 1]!;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const hungUp = new Promise<void>((resolve) => response.once("close", () => response.writableFinished || resolve()));
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const url = new URL(request.url ?? "/", "http://fake");
    const { method = "", headers } = request;
    const path = url.pathname;
    let body: unknown;
    try {
      body = method === "GET" ? {} : JSON.parse(Buffer.concat(chunks).toString());
    } catch {
      body = undefined;
    }
    const field = method === "POST" && headers["content-type"] !== "application/json" ? "Content-Type" : breach(method, path, body);
    const asked: Asked = { method, path, query: url.searchParams, body: body as Asked["body"], headers, at: performance.now(), response, hungUp };
    this.asked.push(asked);
    let reply: Reply | undefined;
    if (field !== undefined) {
      this.breaches.push(`${method} ${path}: ${field}: ${JSON.stringify(body)}`);
      reply = problem(field === "Content-Type" ? 415 : 400, { field });
    } else {
      const handler = this.handlers[path];
      reply = handler ? await handler(asked) : problem(404);
    }
    if (!reply || response.destroyed) return;
    const text = reply.body === undefined ? "" : typeof reply.body === "string" ? reply.body : JSON.stringify(reply.body);
    response.writeHead(reply.status ?? 200, { "content-type": "application/json", ...(text && { "content-length": Buffer.byteLength(text) }), ...reply.headers });
    if (reply.cut === undefined) response.end(text);
    else response.write(text.slice(0, reply.cut), () => response.destroy());
  }
}

/** A fake server that listens until the test ends, which fails if a request broke the contract. */
export async function fake(t: TestContext, handlers: Record<string, Handler>, over: "tcp" | "unix" = "tcp"): Promise<Fake> {
  const folder = over === "unix" ? mkdtempSync(join(tmpdir(), "fp-")) : undefined;
  const server = await new Fake(handlers, folder).listen();
  t.after(async () => {
    await server.close();
    if (folder) rmSync(folder, { recursive: true, force: true });
    assert.deepEqual(server.breaches, []);
  });
  return server;
}

/** One reply after the other; the last one again and again. */
export function inTurn(...replies: (Reply | undefined)[]): Handler {
  let next = 0;
  return () => replies[Math.min(next++, replies.length - 1)];
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Lets what was sent arrive. */
export async function calm(): Promise<void> {
  for (let i = 0; i < 20; i++) await sleep(5);
}

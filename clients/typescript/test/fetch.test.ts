import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, test } from "node:test";
import { pacedFetch } from "fleetpace/fetch";
import { done, fake, given, inTurn, problem } from "./fake.js";

const slots = { body: { turn: "t1", waited_ms: 0, lease_ms: 60_000 } };

describe("pacedFetch", { concurrency: true }, () => {
  test("takes a turn before each request, and passes it on as it is", async (t) => {
    const server = await fake(t, { "/v1/wait": () => given });
    const requests: unknown[][] = [];
    const paced = pacedFetch(server.client().limiter("openai"), async (...request) => {
      requests.push([...request, server.of("/v1/wait").length]);
      return new Response("hello", { status: 201 });
    });
    const init = { method: "POST", body: "x" };
    const answer = await paced("http://api.example/a", init);
    await paced(new URL("http://api.example/b"));
    assert.deepEqual([answer.status, await answer.text()], [201, "hello"]);
    assert.deepEqual(requests, [["http://api.example/a", init, 1], [new URL("http://api.example/b"), undefined, 2]]);
  });

  test("the global fetch is its default", async (t) => {
    const api = createServer((_, response) => response.end("hello")).listen(0, "127.0.0.1");
    await new Promise((resolve) => api.once("listening", resolve));
    t.after(() => api.close());
    const server = await fake(t, { "/v1/wait": () => slots, "/v1/release": () => done });
    const url = `http://127.0.0.1:${(api.address() as AddressInfo).port}/`;
    const answer = await pacedFetch(server.client().limiter("slots"))(new Request(url));
    assert.deepEqual([answer.url, await answer.text(), answer.headers.get("content-length")], [url, "hello", "5"]);
    await server.seen("/v1/release");
  });

  test("an answer that says Retry-After pauses the fleet before it is returned", async (t) => {
    const server = await fake(t, { "/v1/wait": () => given, "/v1/pause": () => done });
    const date = new Date(Date.now() + 60_000).toUTCString();
    for (const [status, retryAfter, least, most] of [[429, "7", 7_000, 7_000], [503, date, 30_000, 60_000]] as const) {
      const paced = pacedFetch(server.client().limiter("openai", { key: "k" }), async () => new Response("slow down", { status, headers: { "Retry-After": retryAfter } }));
      const before = server.of("/v1/pause").length;
      const answer = await paced("http://api.example/");
      assert.deepEqual([answer.status, await answer.text()], [status, "slow down"]);
      assert.equal(server.of("/v1/pause").length, before + 1);
      const { limits, for: pause, reason } = server.of("/v1/pause").at(-1)!.body;
      const ms = Number.parseInt(pause as string);
      assert.ok(ms >= least && ms <= most, `${pause}`);
      assert.deepEqual([limits, reason], [[{ name: "openai", key: "k" }], `${status} of the API`]);
    }
  });

  test("what asks for no pause is none", async (t) => {
    const server = await fake(t, { "/v1/wait": () => given });
    const answers: [status: number, retryAfter?: string][] = [
      [200, "7"], [301, "7"], [429], [503, "0"], [429, "soon"], [429, "-7"], [429, "1.5"], [429, "2999-01-01"], [503, "Sun, 06 Nov 1994 08:49:37 GMT"], [503, "Sun Nov  6 08:49:37 1994"],
    ];
    for (const [status, retryAfter] of answers) {
      const headers = retryAfter === undefined ? {} : { "Retry-After": retryAfter };
      const answer = await pacedFetch(server.client().limiter("a"), async () => new Response(null, { status, headers }))("http://api.example/");
      assert.equal(answer.status, status);
    }
    assert.equal(server.of("/v1/pause").length, 0);
  });

  test("the answer is returned although nobody could be told of the pause", async (t) => {
    const server = await fake(t, { "/v1/wait": () => given, "/v1/pause": () => problem(503) });
    const api = async () => new Response("slow down", { status: 429, headers: { "Retry-After": "7" } });
    const errors: unknown[] = [];
    const limiter = server.client().limiter("a");
    assert.equal((await pacedFetch(limiter, api)("http://api.example/")).status, 429);
    assert.equal((await pacedFetch(limiter, api, { onError: (error) => errors.push(error) })("http://api.example/")).status, 429);
    assert.equal((errors[0] as Error).name, "Unavailable");
  });

  test("a signal of the request ends the wait", async (t) => {
    const server = await fake(t, { "/v1/wait": () => undefined });
    const paced = pacedFetch(server.client().limiter("a"), () => assert.fail("it was sent"));
    const [first, second] = [new AbortController(), new AbortController()];
    const waiting = [paced("http://api.example/", { signal: first.signal }), paced(new Request("http://api.example/", { signal: second.signal }))];
    await server.seen("/v1/wait", 2);
    first.abort();
    second.abort();
    for (const request of waiting) await assert.rejects(request, { name: "AbortError" });
  });

  test("a slot is held until the body ends, is cancelled, or fails, or there is none", async (t) => {
    const cases: [body: () => BodyInit | null, read: (answer: Response) => Promise<unknown>][] = [
      [() => "hello", (answer) => answer.text()],
      [() => "hello", (answer) => answer.body!.cancel()],
      [() => null, async () => undefined],
      [() => new ReadableStream({ pull: (body) => body.error(new Error("cut")) }), (answer) => assert.rejects(answer.text(), /cut/)],
    ];
    for (const [body, read] of cases) {
      const server = await fake(t, { "/v1/wait": () => slots, "/v1/release": () => done });
      const answer = await pacedFetch(server.client().limiter("slots"), async () => new Response(body(), { status: 404, headers: { a: "b" } }))("http://api.example/");
      assert.deepEqual([answer.status, answer.headers.get("a")], [404, "b"]);
      if (answer.body) assert.equal(server.of("/v1/release").length, 0);
      await read(answer);
      await server.seen("/v1/release");
    }
  });

  test("a slot is released where the request fails", async (t) => {
    const server = await fake(t, { "/v1/wait": inTurn(slots), "/v1/release": () => done });
    const failed = new TypeError("fetch failed");
    await assert.rejects(pacedFetch(server.client().limiter("slots"), async () => Promise.reject(failed))("http://api.example/"), (error) => error === failed);
    assert.equal(server.of("/v1/release").length, 1);
  });
});

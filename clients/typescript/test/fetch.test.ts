import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, test } from "node:test";
import { type PacedOptions, pacedFetch } from "fleetpace/fetch";
import { UsageReader } from "../src/usage.js";
import { done, fake, given, inTurn, problem, type Reply } from "./fake.js";

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

  const events = [
    'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":20,"cache_read_input_tokens":600,"output_tokens":1}}}\n\n',
    'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"Zwölf Zeichen \\"usage\\": {"}}\n\n',
    'data: {"type":"message_delta","usage":{"output_tokens":9}}\n\ndata: {"type":"message_stop"}\n\n',
  ].join("");
  const chat = [
    'data: {"choices":[{"delta":{"content":"hello"}}],"usage":null}\r\n\r\n',
    'data: {"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":30,"cache_write_tokens":5}}}\n\ndata: [DONE]\n\n',
  ].join("");
  const whole = '{"usage":{"input_tokens":20,"output_tokens":9,"cache_creation_input_tokens":4}}';
  const used: [name: string, kind: string, status: number, body: string, used: number[] | undefined][] = [
    ["a stream of Anthropic", "text/event-stream", 200, events, [1, 20, 0, 600, 9]],
    ["one that is cut", "text/event-stream; charset=utf-8", 200, events.slice(0, events.indexOf("data: {\"type\":\"message_delta")), [1, 20, 0, 600, 7]],
    ["one that is cut in its first event", "text/event-stream", 200, events.slice(0, 90), undefined],
    ["a stream of OpenAI", "text/event-stream", 200, chat, [1, 15, 5, 30, 7]],
    ["one without usage", "text/event-stream", 200, chat.slice(0, 60), undefined],
    ["a document", "application/json", 200, whole, [1, 20, 4, 0, 9]],
    ["a document of Responses", "application/json", 200, '{"object":"response","usage":{"input_tokens":20,"output_tokens":9,"input_tokens_details":{"cached_tokens":8}}}', [1, 12, 0, 8, 9]],
    ["no JSON", "application/json", 200, "hello", undefined],
    ["a failure", "application/json", 500, '{"error":{}}', [1, 0, 0, 0, 0]],
  ];
  for (const [name, kind, status, body, settled] of used)
    test(`${name} settles what it states, in parts of any size, and no byte changes`, async (t) => {
      const server = await fake(t, { "/v1/wait": () => given, "/v1/settle": () => done });
      const bytes = new TextEncoder().encode(body);
      for (const size of [1, 7, bytes.length]) {
        const before = server.of("/v1/settle").length;
        let at = 0;
        const pull = (to: ReadableStreamDefaultController) => (at < bytes.length ? to.enqueue(bytes.slice(at, (at += size))) : to.close());
        const paced = pacedFetch(
          server.client().limiter(["requests", "input", "output"].map((name) => ({ name }))),
          async () => new Response(new ReadableStream({ pull }), { status, headers: { "content-type": kind } }),
          { cost: ({ input, most }) => [undefined, input, most], used: (u) => [1, u.input, u.cacheWrite, u.cacheRead, u.output], onError: (error) => assert.fail(error as Error) },
        );
        const request = { method: "POST", body: '{"max_tokens":700,"text":"été"}' };
        if (size === 7) Object.assign(request, { body: new TextEncoder().encode(request.body) });
        const answer = size === 1 ? await paced(new Request("http://api.example/", request)) : await paced("http://api.example/", request);
        assert.equal(await answer.text(), body);
        assert.deepEqual(server.of("/v1/wait").at(-1)!.body["limits"], [{ name: "requests" }, { name: "input", cost: 9 }, { name: "output", cost: 700 }]);
        if (settled) await server.seen("/v1/settle", before + 1);
        assert.deepEqual(server.of("/v1/settle").slice(before).map((s) => s.body["used"]), settled ? [settled] : []);
      }
    });

  test("a probe that is served ends a hard stop, and no other call does", async (t) => {
    const probe = { body: { turn: "t1", waited_ms: 0, probes: true } };
    const server = await fake(t, { "/v1/wait": inTurn(...Array(8).fill(probe), given), "/v1/settle": () => done });
    const limiter = server.client().limiter(["requests", "tokens"].map((name) => ({ name })));
    const onError = (error: unknown) => assert.fail(error as Error);
    const get = async (status: number, used?: PacedOptions["used"], body = whole, kind = "application/json") =>
      await (await pacedFetch(limiter, async () => new Response(body, { status, headers: { "content-type": kind } }), { onError, ...(used && { used }) })("http://api.example/")).text();
    await get(200, undefined, 'data: {"text":"\\"error\\":","error":null}\n\n', "text/event-stream");
    await server.seen("/v1/settle");
    await get(200, (u) => [1, u.input]);
    await server.seen("/v1/settle", 2);
    await get(429);
    await get(200, undefined, '{"error":{"code":"rate_limit_exceeded"}}');
    for (const failure of ['event: error\ndata: {"message":"no"}', 'data: {"type":"error","error":{}}', 'data: {"id":"c","error":{"code":429}}', 'data: {"response":{"error":{}}}'])
      await get(200, undefined, `${failure}\n\n`, "text/event-stream");
    await get(200);
    assert.deepEqual(server.of("/v1/settle").map((s) => s.body), [[-1, -1], [1, 20]].map((used) => ({ turn: "t1", used, served: true })));
  });

  test("the server judges refusals, and says what an SDK is to do", async (t) => {
    const failure = '{"type":"error","error":{"type":"billing_error"}}';
    const events: [string, string] = ["content-type", "text/event-stream"];
    const cases: [status: number, body: string | null, sent: string, advice: Reply, name: string, value: string | null, kind?: [string, string]][] = [
      [402, failure, failure, { body: { retry: false } }, "x-should-retry", "false"],
      [429, failure, failure, { body: { retry_after_ms: 1 } }, "retry-after-ms", "1"],
      [529, null, "", { body: {} }, "retry-after-ms", null],
      [500, "x".repeat(200 << 10), "", { body: {} }, "x-should-retry", null],
      [400, failure, failure, problem(503), "x-should-retry", null],
      [200, failure, failure, { body: {} }, "x-should-retry", null],
      [200, `data: ${failure}\n\n`, failure, { body: {} }, "x-should-retry", null, events],
    ];
    for (const [status, body, sent, advice, name, value, kind] of cases) {
      const server = await fake(t, { "/v1/wait": () => slots, "/v1/refused": () => advice, "/v1/release": () => done });
      const errors: unknown[] = [];
      const headers = [["retry-after", "7"], ["request-id", "r"], ...(kind ? [kind] : [])] as [string, string][];
      const paced = pacedFetch(server.client().limiter("a"), async () => new Response(body, { status, headers }), { api: "anthropic", onError: (error) => errors.push(error) });
      const answer = await paced("http://api.example/");
      assert.deepEqual([answer.status, answer.headers.get(name), answer.headers.get("request-id")], [status, value, "r"]);
      assert.equal(await answer.text(), body ?? "");
      await server.seen("/v1/refused");
      await server.seen("/v1/release");
      const { ago, ...told } = server.of("/v1/refused")[0]!.body;
      assert.match(ago as string, /^\d+(\.\d+)?ms$/);
      assert.deepEqual(told, { limits: [{ name: "a" }], api: "anthropic", status, headers: { "retry-after": "7" }, body: sent, host: "api.example" });
      assert.deepEqual([server.of("/v1/refused").length, errors.length], [1, advice.status === 503 ? 1 : 0]);
    }
    const server = await fake(t, { "/v1/wait": () => given });
    const calm = await pacedFetch(server.client().limiter("a"), async () => new Response('{"usage":{}}'), { api: "openai" })("http://api.example/");
    await calm.text();
    assert.equal(server.asked.length, 1);
  });

  test("a refusal whose body does not end is passed on, and can be cancelled", async (t) => {
    const server = await fake(t, { "/v1/wait": () => given, "/v1/refused": () => ({ body: {} }) });
    let cancelled: unknown;
    const body = new ReadableStream({ pull: (to) => to.enqueue(new Uint8Array(10_000)), cancel: (reason) => (cancelled = reason) });
    const answer = await pacedFetch(server.client().limiter("a"), async () => new Response(body, { status: 500 }), { api: "openai" })("http://api.example/");
    assert.equal(server.of("/v1/refused")[0]!.body["body"], "");
    await answer.body!.cancel("enough");
    assert.equal(cancelled, "enough");
  });

  test("a line of any length is read in time that grows with it", () => {
    for (const size of [1 << 20, 16 << 20]) {
      const reader = new UsageReader(new Headers({ "content-type": "text/event-stream" }));
      reader.read(new TextEncoder().encode(`${events.slice(0, 160)}\ndata: {"delta":{"text":"${'ab\\"'.repeat(size / 4)}"}}\n`));
      assert.equal(reader.end()?.output, size / 4);
    }
  });

  test("a stream that the caller leaves is settled once, by what it brought", async (t) => {
    const server = await fake(t, { "/v1/wait": () => slots, "/v1/settle": () => problem(503), "/v1/release": () => done });
    const errors: unknown[] = [];
    const body = new ReadableStream({ start: (to) => to.enqueue(new TextEncoder().encode(events.slice(0, 300))) });
    const paced = pacedFetch(server.client().limiter("tokens"), async () => new Response(body, { headers: { "content-type": "text/event-stream" } }), {
      used: (u) => [u.input + u.output], onError: (error) => errors.push((error as Error).name),
    });
    const reader = (await paced("http://api.example/")).body!.getReader();
    await reader.read();
    const reading = reader.read();
    await reader.cancel();
    assert.equal((await reading).done, true);
    await server.seen("/v1/release");
    assert.deepEqual(server.of("/v1/settle").map((s) => s.body["used"]), [[27]]);
    assert.deepEqual(errors, ["Unavailable"]);
  });
});

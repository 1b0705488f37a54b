import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Conflict, Exhausted, Fleetpace, FleetpaceError, InvalidRequest, type Later, TooLate, Turn, Unauthorized, Unavailable, UnknownLimit } from "fleetpace";
import { calm, done, fake, given, inTurn, later, problem, sleep } from "./fake.js";

for (const over of ["tcp", "unix"] as const) {
  describe(`wait over ${over}`, () => {
    test("asks for what the limiter needs, and has the turn", async (t) => {
      const server = await fake(t, { "/v1/wait": () => ({ body: { turn: "t9", waited_ms: 12.5, lease_ms: 3000 } }) }, over);
      const limiter = server.client({ token: "secret" }).limiter("openai", { key: "acme", cost: 3, flow: "a", weight: 2, urgent: true });
      const turn = await limiter.wait({ maxWait: 10_000, id: "job-17" });
      assert.deepEqual([turn.turn, turn.waitedMs, turn.leaseMs], ["t9", 12.5, 3000]);
      const [asked] = server.of("/v1/wait");
      assert.equal(asked!.headers.authorization, "Bearer secret");
      assert.match(String(asked!.headers["fleetpace-caller"]), new RegExp(`^[!-~]+/${process.pid}$`));
      assert.deepEqual({ ...asked!.body, poll: undefined }, {
        limits: [{ name: "openai", key: "acme", cost: 3 }], flow: "a", weight: 2, urgent: true, max_wait: "10000ms", id: "job-17", poll: undefined,
      });
    });

    test("asks for several limits at once, and for nothing that was not said", async (t) => {
      const server = await fake(t, { "/v1/wait": () => given }, over);
      const limits = [{ name: "requests" }, { name: "tokens", key: { shop: "s", token: "t" }, cost: 1200 }];
      await server.client().limiter(limits, { flow: "acme" }).wait();
      assert.deepEqual(server.of("/v1/wait")[0]!.body, { limits, flow: "acme", poll: "25000ms" });
      assert.equal(server.of("/v1/wait")[0]!.headers.authorization, undefined);
    });

    test("asks again under the id of the answer, when the answer says", async (t) => {
      const server = await fake(t, { "/v1/wait": inTurn(later("p1", 150), later("p1", 0), given) }, over);
      await server.client().limiter("a", { flow: "s" }).wait({ maxWait: 5_000 });
      const asked = server.of("/v1/wait");
      assert.deepEqual(asked.map(({ body }) => body["id"]), [undefined, "p1", "p1"]);
      assert.deepEqual(asked.map(({ body }) => body["flow"]), ["s", "s", "s"]);
      assert.deepEqual(asked.slice(1).map(({ body }) => body["max_wait"]), ["5000ms", "5000ms"]); // the server counts from the first request
      assert.ok(asked[1]!.at - asked[0]!.at >= 145);
    });

    test("asks for a booked call until it has the turn", async (t) => {
      const server = await fake(t, { "/v1/wait": inTurn(later("job-1", 3_000, 4_000), given), "/v1/leave": () => done }, over);
      const limiter = server.client().limiter("a");
      assert.deepEqual(await limiter.ask("job-1", { poll: 2_000 }), { retryAfter: 3_000, forecast: 4_000 });
      assert.ok((await limiter.ask("job-1")) instanceof Turn);
      assert.deepEqual(server.of("/v1/wait").map(({ body }) => [body["id"], body["poll"]]), [["job-1", "2000ms"], ["job-1", "0ms"]]);
      await assert.rejects(limiter.ask("job-1", { poll: -1 }), { field: "poll" });
      assert.deepEqual(server.of("/v1/leave"), []); // the place is kept
    });

    test("tells of each refusal", async (t) => {
      const field = { field: "limits[0].cost", value: 7 };
      const refusals: [reply: ReturnType<typeof problem>, kind: new (text: string) => FleetpaceError, text: RegExp][] = [
        [problem(429, { detail: "The turn would come in 12s." }, { "retry-after": "12" }), TooLate, /would come in 12s/],
        [problem(400, field), InvalidRequest, /400: limits\[0\]\.cost is 7: it is so/],
        [problem(413), InvalidRequest, /413: it is so/],
        [problem(415), InvalidRequest, /415/],
        [problem(401), Unauthorized, /401: it is so/],
        [problem(404), UnknownLimit, /404: it is so/],
        [problem(409), Conflict, /409: it is so/],
        [problem(418), FleetpaceError, /418: it is so/],
        [{ status: 404, body: "<html>" }, UnknownLimit, /404: no problem document/],
      ];
      for (const [reply, kind, text] of refusals) {
        const server = await fake(t, { "/v1/wait": () => reply }, over);
        const error: unknown = await server.client().limiter("a").wait().catch((error: unknown) => error);
        assert.ok(error instanceof kind && error instanceof FleetpaceError, String(error));
        assert.match(error.message, text);
        assert.equal(error.name, kind.name);
        assert.equal(error.status, reply.status);
        assert.equal(server.asked.length, 1);
        if (error instanceof TooLate) assert.equal(error.retryAfter, 12_000);
        if (reply.status === 400) assert.deepEqual([error.field, error.value], [field.field, field.value]);
      }
    });

    test("tells of a hard stop", async (t) => {
      for (const until of ["2030-01-02T03:04:05Z", undefined, "soon"]) {
        const stop = problem(429, { scope: "llm/openai", reason: "no credit", until }, { "retry-after": "300" });
        const server = await fake(t, { "/v1/wait": inTurn(later("p1", 0), stop), "/v1/leave": () => done }, over);
        const error: unknown = await server.client().limiter("a").wait({ maxWait: 60_000 }).catch((error: unknown) => error);
        assert.ok(error instanceof Exhausted && error instanceof TooLate, String(error));
        const end = until?.startsWith("2030") ? new Date(until) : undefined;
        assert.deepEqual([error.name, error.scope, error.reason, error.until, error.retryAfter], ["Exhausted", "llm/openai", "no credit", end, 300_000]);
      }
    });

    test("a caller that does not wait learns of a stop", async (t) => {
      for (const until of ["2030-01-02T03:04:05Z", undefined]) {
        const about = { scope: "llm/openai", reason: "no credit", until };
        const refused = { status: 429, body: { allowed: false, taken: 0, limit: "10/s", retry_after: 300, ...about } };
        const server = await fake(t, { "/v1/allow": () => refused, "/v1/wait": () => ({ status: 202, body: { id: "i", forecast_ms: 1, retry_after_ms: 1, ...about } }) }, over);
        const limiter = server.client().limiter("a");
        for (const { stop } of [await limiter.allow(), (await limiter.ask("i")) as Later])
          assert.deepEqual(stop, { scope: "llm/openai", reason: "no credit", ...(until && { until: new Date(until) }) });
      }
    });

    test("is told at once where it may not wait", async (t) => {
      const server = await fake(t, { "/v1/wait": () => problem(429, {}, { "retry-after": "1" }) }, over);
      await assert.rejects(server.client().limiter("a").wait({ maxWait: 0 }), TooLate);
      assert.equal(server.of("/v1/wait")[0]!.body["max_wait"], "0ms");
      for (const maxWait of [-1, NaN]) {
        await assert.rejects(server.client().limiter("a").wait({ maxWait }), { name: "InvalidRequest", field: "maxWait" });
      }
      assert.equal(server.asked.length, 1);
    });

    test("gives up a place whose turn does not come in time", async (t) => {
      for (const id of [undefined, "job-1"]) {
        const server = await fake(t, { "/v1/wait": () => later("job-1", 40, 9_000), "/v1/leave": () => done }, over);
        await assert.rejects(server.client().limiter("a", { key: "k" }).wait({ maxWait: 200, ...(id && { id }) }), { name: "TooLate", retryAfter: 9_000 });
        assert.deepEqual((await server.seen("/v1/leave")).body, { limits: [{ name: "a", key: "k" }], id: "job-1" });
      }
    });

    test("a signal ends a request at once: the server notices", async (t) => {
      const server = await fake(t, { "/v1/wait": () => undefined }, over);
      const stop = new AbortController();
      const waiting = server.client().limiter("a").wait({ signal: stop.signal });
      const asked = await server.seen("/v1/wait");
      const reason = new Error("enough");
      stop.abort(reason);
      await assert.rejects(waiting, (error) => error === reason);
      await asked.hungUp;
      assert.equal(server.asked.length, 1); // a place without an id goes with the connection
    });

    test("a signal ends the time between two requests, and gives up the place", async (t) => {
      const server = await fake(t, { "/v1/wait": () => later("p1", 60_000), "/v1/leave": () => done }, over);
      const stop = new AbortController();
      const waiting = server.client().limiter("a").wait({ signal: stop.signal });
      await server.seen("/v1/wait");
      await calm();
      stop.abort();
      await assert.rejects(waiting, { name: "AbortError" });
      assert.equal((await server.seen("/v1/leave")).body["id"], "p1");
    });

    test("the place under an id of the caller's is kept after a signal, and left when it says so", async (t) => {
      const server = await fake(t, { "/v1/wait": () => later("job-1", 60_000), "/v1/leave": () => done }, over);
      const limiter = server.client().limiter("a");
      const stop = new AbortController();
      const waiting = limiter.wait({ signal: stop.signal, id: "job-1" });
      await server.seen("/v1/wait");
      stop.abort();
      await assert.rejects(waiting, { name: "AbortError" });
      await calm();
      assert.equal(server.of("/v1/leave").length, 0);
      await limiter.leave("job-1");
      assert.equal(server.of("/v1/leave").length, 1);
    });

    test("a signal that has fired asks nothing", async (t) => {
      const server = await fake(t, {}, over);
      await assert.rejects(server.client().limiter("a").wait({ signal: AbortSignal.abort() }), { name: "AbortError" });
      assert.equal(server.asked.length, 0);
    });

    test("asks again while the server or its Redis is away, under its id", async (t) => {
      const server = await fake(t, { "/v1/wait": inTurn(problem(503, {}, { "retry-after": "1" }), problem(500), later("p1"), problem(502), given) }, over);
      await server.client().limiter("a").wait();
      const asked = server.of("/v1/wait");
      assert.deepEqual(asked.map(({ body }) => body["id"]), [undefined, undefined, undefined, "p1", "p1"]);
      assert.ok(asked[1]!.at - asked[0]!.at >= 1_000);
    });

    test("asks again after an answer that was cut, or none", async (t) => {
      const cut = { ...given, cut: 5 };
      const server = await fake(t, { "/v1/wait": inTurn(cut, { ...given, cut: 0 }, given) }, over);
      await server.client().limiter("a").wait({ id: "job-1" });
      assert.deepEqual(server.of("/v1/wait").map(({ body }) => body["id"]), ["job-1", "job-1", "job-1"]);
    });

    test("waits for a server that comes later", async (t) => {
      const server = await fake(t, { "/v1/wait": () => given }, over);
      await server.close();
      const waiting = server.client().limiter("a").wait({ maxWait: 20_000 });
      await sleep(400);
      await server.listen();
      await waiting;
      const most = Number.parseInt(server.of("/v1/wait")[0]!.body["max_wait"] as string);
      assert.ok(most < 20_000 - 390, `${most}`); // what is left of it
    });

    test("an absent server is too late after maxWait", async (t) => {
      const server = await fake(t, {}, over);
      await server.close();
      const began = performance.now();
      await assert.rejects(server.client().limiter("a").wait({ maxWait: 500 }), { name: "Unavailable", message: /does not answer: .*(ECONNREFUSED|ENOENT)/ });
      assert.ok(performance.now() - began >= 490);
      await server.listen();
    });

    test("does not wait for a Retry-After that is later than maxWait", async (t) => {
      const server = await fake(t, { "/v1/wait": () => problem(503, {}, { "retry-after": "30" }) }, over);
      await assert.rejects(server.client().limiter("a").wait({ maxWait: 5_000 }), { name: "Unavailable", retryAfter: 30_000 });
      assert.equal(server.asked.length, 1);
    });

    test("a signal ends the time between two tries", async (t) => {
      const server = await fake(t, { "/v1/wait": () => problem(503, {}, { "retry-after": "30" }) }, over);
      await assert.rejects(server.client().limiter("a").wait({ signal: AbortSignal.timeout(200) }), { name: "TimeoutError" });
    });

    test("does not believe what is no answer", async (t) => {
      const answers: [reply: Parameters<typeof inTurn>[0], text: RegExp][] = [
        [{ body: "<html>a login page</html>", headers: { "content-type": "text/html" } }, /no JSON object: <html>/],
        [{ body: "null" }, /no JSON object: null/],
        [{ body: "" }, /no JSON object/],
        [{ body: { turn: 7, waited_ms: 1 } }, /turn is 7: must be a text/],
        [{ body: { turn: "t", waited_ms: "1" } }, /waited_ms is "1": must be a number/],
        [{ body: { turn: "t", waited_ms: 1, lease_ms: -1 } }, /lease_ms is -1/],
        [{ status: 202, body: { forecast_ms: 1, retry_after_ms: 1 } }, /id is undefined: must be a text/],
        [{ status: 307, headers: { location: "http://127.0.0.1:9/elsewhere" } }, /redirects to http:\/\/127\.0\.0\.1:9\/elsewhere, which is not followed/],
      ];
      for (const [reply, text] of answers) {
        const server = await fake(t, { "/v1/wait": () => reply, "/v1/leave": () => done }, over);
        await assert.rejects(server.client({ token: "secret" }).limiter("a").wait(), { name: "FleetpaceError", message: text });
        assert.equal(server.of("/v1/wait").length, 1);
      }
    });
  });
}

test("without maxWait an absent server has a minute", async (t) => {
  const server = await fake(t, { "/v1/wait": () => problem(503) });
  const real = performance.now.bind(performance);
  let passed = 0;
  t.mock.method(performance, "now", () => real() + passed);
  const waiting = server.client().limiter("a").wait();
  const refused = assert.rejects(waiting, Unavailable);
  await server.seen("/v1/wait", 2);
  passed = 45_000;
  await server.seen("/v1/wait", 3);
  passed = 61_000;
  await refused;
});

test("the url and the token are checked", () => {
  for (const url of ["unix:/run/x.sock", "localhost:9467", "ftp://a", "http://", "http://user:password@a", "http://a?b", "http://a b"]) {
    assert.throws(() => new Fleetpace({ url }), { name: "InvalidRequest", field: "url", message: /must be like http:\/\/host:port; for a unix socket/ });
  }
  assert.throws(() => new Fleetpace({ token: "a\nb" }), TypeError);
  new Fleetpace({ url: "https://a.example/below/" });
});

test("a path before the server's own is kept", async () => {
  const asked: string[] = [];
  const client = new Fleetpace({
    url: "https://a.example/below/",
    fetch: async (url) => (asked.push(url), Response.json({ turn: "t", waited_ms: 0 })),
  });
  await client.limiter("a").wait();
  assert.deepEqual(asked, ["https://a.example/below/v1/wait"]);
});

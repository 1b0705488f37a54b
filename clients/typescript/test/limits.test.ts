import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Unavailable } from "fleetpace";
import { done, fake, problem } from "./fake.js";

for (const over of ["tcp", "unix"] as const) {
  describe(`limits over ${over}`, () => {
    test("allow takes a turn if there is one now", async (t) => {
      const headers = { "ratelimit-policy": '"a";q=100;w=60', ratelimit: '"a";r=50;t=30' };
      const server = await fake(t, { "/v1/allow": () => ({ headers, body: { allowed: true, taken: 20, valid_ms: 200.5, remaining: 3, limit: "100/s", retry_after: 0 } }) }, over);
      const { headers: got, ...answer } = await server.client().limiter("a", { key: "k", cost: 2, flow: "s", weight: 2, urgent: false }).allow({ ahead: 20 });
      assert.deepEqual(answer, { allowed: true, taken: 20, validMs: 200.5, remaining: 3, limit: "100/s", retryAfter: 0 });
      assert.equal(got.get("RateLimit"), headers.ratelimit);
      assert.deepEqual(server.asked[0]!.body, { limits: [{ name: "a", key: "k", cost: 2 }], flow: "s", weight: 2, urgent: false, ahead: 20 });
    });

    test("share is the earlier name of flow", async (t) => {
      const server = await fake(t, { "/v1/allow": () => ({ body: { allowed: true, taken: 1, limit: "1/s" } }) }, over);
      await server.client().limiter("a", { share: "s" }).allow();
      assert.deepEqual(server.asked[0]!.body, { limits: [{ name: "a" }], flow: "s" });
      assert.throws(() => server.client().limiter("a", { flow: "s", share: "s" }), /earlier name of flow/);
    });

    test("allow that is refused is no error", async (t) => {
      const server = await fake(t, { "/v1/allow": () => ({ status: 429, headers: { "retry-after": "3" }, body: { allowed: false, taken: 0, limit: "1/s", retry_after: 2.25 } }) }, over);
      const { headers, ...answer } = await server.client().limiter("a").allow();
      assert.deepEqual(answer, { allowed: false, taken: 0, validMs: 0, limit: "1/s", retryAfter: 2250 });
      assert.equal(headers.get("retry-after"), "3");
      assert.deepEqual(server.asked[0]!.body, { limits: [{ name: "a" }] });
    });

    test("a 429 of something between is one", async (t) => {
      const server = await fake(t, { "/v1/allow": () => problem(429, {}, { "retry-after": "3" }) }, over);
      await assert.rejects(server.client().limiter("a").allow(), { name: "TooLate", retryAfter: 3_000 });
    });

    test("allow asks once, for as long as it may take", async (t) => {
      const server = await fake(t, { "/v1/allow": () => undefined }, over);
      await assert.rejects(server.client().limiter("a").allow({ timeout: 100 }), { name: "Unavailable", message: /no answer in 100 ms/ });
      await assert.rejects(server.client().limiter("a").allow({ signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
      assert.equal(server.asked.length, 2);
      await server.close();
      await assert.rejects(server.client().limiter("a").allow(), Unavailable);
      await server.listen();
    });

    test("pause and resume are of the limits alone", async (t) => {
      const server = await fake(t, { "/v1/pause": () => done, "/v1/resume": () => done }, over);
      const limiter = server.client().limiter("a", { key: "k", flow: "s", urgent: true });
      await limiter.pause(1_500.4, "Retry-After");
      await limiter.pause(1e30, "x".repeat(1_000));
      await limiter.pause(10);
      await limiter.resume();
      const [first, second, third, fourth] = server.asked.map(({ body }) => body);
      assert.deepEqual(first, { limits: [{ name: "a", key: "k" }], for: "1500ms", reason: "Retry-After" });
      assert.deepEqual(second, { limits: [{ name: "a", key: "k" }], for: "3000000000000ms", reason: "x".repeat(256) });
      assert.deepEqual(third, { limits: [{ name: "a", key: "k" }], for: "10ms" });
      assert.deepEqual(fourth, { limits: [{ name: "a", key: "k" }] });
    });

    test("lists limits and tells how one stands", async (t) => {
      const limits = [{ name: "openai", limit: "100/s" }, { name: "shop", limit: "2/s", key: "{shop}" }];
      const state = {
        name: "shop/ü", limit: "2/s", set: true, set_for_ms: 10, stored: 1.5, wait_ms: 0, waiting: 2, booked: 3, processes: 4, paused_ms: 5,
        pause_reason: "red", holders: [{ process: "p", doing: "d", slots: 1, since: "2025-01-01T00:00:00Z" }],
      };
      const server = await fake(t, { "/v1/limits": () => ({ body: { limits } }), "/v1/limits/a%2Fb": () => ({ body: state }) }, over);
      assert.deepEqual(await server.client().limits(), limits);
      assert.deepEqual(await server.client().state("a/b", "ü&x"), {
        name: "shop/ü", limit: "2/s", set: true, setForMs: 10, stored: 1.5, waitMs: 0, waiting: 2, booked: 3, processes: 4, pausedMs: 5,
        pauseReason: "red", holders: state.holders,
      });
      assert.equal(server.asked[1]!.query.get("key"), "ü&x");
      await server.client().state("a/b");
      assert.equal(server.asked[2]!.query.get("key"), null);
      await assert.rejects(server.client().state("none"), { name: "UnknownLimit" });
    });

    test("a list that is none is an error", async (t) => {
      const server = await fake(t, { "/v1/limits": () => ({ body: { limits: 7 } }) }, over);
      await assert.rejects(server.client().limits(), { name: "FleetpaceError", message: /no list/ });
    });
  });
}

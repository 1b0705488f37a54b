import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { Allowed, Limiter } from "fleetpace";
import { Ahead } from "#ahead";

/** A limiter of a key that answers without a server, on a clock that the test sets. */
function setting(t: TestContext, taken: number, validMs: number) {
  const clock = { ms: 1_000, asked: 0 };
  t.mock.method(performance, "now", () => clock.ms);
  const limiter = (key = "k") => ({
    request: { limits: [{ name: "a", key }] },
    allow: async (): Promise<Allowed> => {
      clock.asked++;
      return { allowed: true, taken, validMs, limit: "100/s", retryAfter: 0, headers: new Headers({ RateLimit: "r", "RateLimit-Policy": "p" }) };
    },
  }) as unknown as Limiter;
  return { clock, limiter };
}

test("when a part of the time has passed, so many may still be used as are left of it", async (t) => {
  const { clock, limiter } = setting(t, 10, 1_000);
  const ahead = new Ahead(10, 1_000);
  for (let i = 0; i < 3; i++) await ahead.allow(limiter());
  clock.ms += 500; // 3 are used, and 5 of the other 7 are left
  for (let i = 0; i < 5; i++) await ahead.allow(limiter());
  assert.equal(clock.asked, 1);
});

test("calls that come at the pace of the limit use all turns", async (t) => {
  const { clock, limiter } = setting(t, 10, 1_000);
  const ahead = new Ahead(10, 1_000);
  for (let i = 0; i < 10; i++, clock.ms += 99) await ahead.allow(limiter());
  assert.equal(clock.asked, 1);
});

test("what has lapsed is not used", async (t) => {
  const { clock, limiter } = setting(t, 10, 1_000);
  const ahead = new Ahead(10, 1_000);
  await ahead.allow(limiter());
  clock.ms += 1_000;
  await ahead.allow(limiter());
  assert.equal(clock.asked, 2);
  clock.ms += 901; // less than one is left
  await ahead.allow(limiter());
  assert.equal(clock.asked, 3);
});

test("turns whose time is not told are not kept", async (t) => {
  const { clock, limiter } = setting(t, 10, 0);
  const ahead = new Ahead(10, 1_000);
  await ahead.allow(limiter());
  await ahead.allow(limiter());
  assert.equal(clock.asked, 2);
  assert.equal(ahead.size, 0);
});

test("a kept turn tells the policy, and not what was left when it was taken", async (t) => {
  const { limiter } = setting(t, 10, 1_000);
  const ahead = new Ahead(10, 1_000);
  assert.equal((await ahead.allow(limiter())).headers.get("RateLimit"), "r");
  const { headers } = await ahead.allow(limiter());
  assert.deepEqual([...headers], [["ratelimit-policy", "p"]]);
});

test("so many keys have turns; the one not used for longest loses its", async (t) => {
  const { clock, limiter } = setting(t, 10, 1_000);
  const ahead = new Ahead(10, 1_000, 3);
  for (const key of ["a", "b", "c", "a", "d"]) await ahead.allow(limiter(key));
  assert.deepEqual([ahead.size, clock.asked], [3, 4]);
  await ahead.allow(limiter("a"));
  assert.equal(clock.asked, 4);
  await ahead.allow(limiter("b"));
  assert.equal(clock.asked, 5);
});

test("keys whose requests fail are forgotten", async (t) => {
  const { limiter } = setting(t, 10, 1_000);
  const ahead = new Ahead(10, 1_000);
  const failing = Object.assign(limiter(), { allow: () => Promise.reject(new Error("no")) });
  const answers = await Promise.allSettled([ahead.allow(failing), ahead.allow(failing)]);
  assert.deepEqual(answers.map(({ status }) => status), ["rejected", "rejected"]);
  assert.equal(ahead.size, 0);
});

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { calm, done, fake, given, inTurn, problem, sleep } from "./fake.js";

const slots = (leaseMs: number) => ({ body: { turn: "t1", waited_ms: 0, lease_ms: leaseMs } });
const renewed = (leaseMs: number) => ({ body: { lease_ms: leaseMs } });

// Leases are long enough for a machine that stops a process for a second.
describe("turn", { concurrency: true }, () => {
  test("runs the function and returns what it returns; without slots nothing is renewed or released", async (t) => {
    const server = await fake(t, { "/v1/wait": () => given });
    assert.equal(await server.client().limiter("a").turn(async (turn) => `${turn.turn} is mine`), "t1 is mine");
    assert.equal(await server.client().limiter("a").turn(() => 7), 7);
    assert.deepEqual(server.asked.map(({ path }) => path), ["/v1/wait", "/v1/wait"]);
  });

  test("passes on how it waits", async (t) => {
    const server = await fake(t, { "/v1/wait": () => problem(429, {}, { "retry-after": "1" }) });
    await assert.rejects(server.client().limiter("a").turn(() => assert.fail(), { maxWait: 0, id: "job-1" }), { name: "TooLate" });
    const { max_wait, id } = server.asked[0]!.body;
    assert.deepEqual([max_wait, id], ["0ms", "job-1"]);
  });

  test("renews slots while the function runs, and releases them", async (t) => {
    const server = await fake(t, { "/v1/wait": () => slots(6_000), "/v1/renew": () => renewed(6_000), "/v1/release": () => done });
    await server.client().limiter("slots").turn(async (turn) => {
      await server.seen("/v1/renew", 3);
      assert.equal(turn.lost.aborted, false);
    });
    const renewals = server.of("/v1/renew");
    assert.deepEqual(renewals.map(({ body }) => body), renewals.map(() => ({ turn: "t1" })));
    assert.deepEqual(server.of("/v1/release").map(({ body }) => body), [{ turn: "t1" }]);
    await sleep(2_500);
    assert.equal(server.of("/v1/renew").length, renewals.length);
  });

  test("goes by the lease of the last renewal", async (t) => {
    const server = await fake(t, { "/v1/wait": () => slots(3_000), "/v1/renew": () => renewed(60_000), "/v1/release": () => done });
    await server.client().limiter("slots").turn(async (turn) => {
      await sleep(4_000);
      assert.equal(turn.lost.aborted, false);
    });
    assert.equal(server.of("/v1/renew").length, 1);
  });

  test("releases the slots where the function throws", async (t) => {
    const server = await fake(t, { "/v1/wait": () => slots(60_000), "/v1/release": () => done });
    const failed = new Error("the API says no");
    const limiter = server.client().limiter("slots");
    await assert.rejects(limiter.turn(async () => Promise.reject(failed)), (error) => error === failed);
    await assert.rejects(limiter.turn(() => { throw failed; }), (error) => error === failed);
    assert.equal(server.of("/v1/release").length, 2);
  });

  test("tells when the slots are lost, and lets the function end", async (t) => {
    const server = await fake(t, { "/v1/wait": () => slots(3_000), "/v1/renew": () => problem(404), "/v1/release": () => problem(404) });
    const result = await server.client().limiter("slots").turn(async (turn) => {
      await new Promise((resolve) => turn.lost.addEventListener("abort", resolve));
      assert.equal((turn.lost.reason as Error).name, "UnknownLimit");
      await calm();
      return "done all the same";
    });
    assert.equal(result, "done all the same");
    assert.equal(server.of("/v1/renew").length, 1);
  });

  test("slots are lost when the lease is over and the server is away, and not before", async (t) => {
    for (const renew of [inTurn(problem(503)), inTurn(undefined), inTurn(problem(401))]) {
      const server = await fake(t, { "/v1/wait": () => slots(600), "/v1/renew": renew, "/v1/release": () => done });
      const began = performance.now();
      const turn = (await server.client().limiter("slots").wait()).keep();
      await new Promise((resolve) => turn.lost.addEventListener("abort", resolve));
      assert.ok(performance.now() - began >= 590, `${performance.now() - began}`);
      await turn.release();
    }
  });

  test("a server that was away for a part of the lease loses nothing", async (t) => {
    const renew = inTurn(problem(503), { ...renewed(6_000), cut: 3 }, renewed(6_000));
    const server = await fake(t, { "/v1/wait": () => slots(6_000), "/v1/renew": renew, "/v1/release": () => done });
    await server.client().limiter("slots").turn(async (turn) => {
      await server.seen("/v1/renew", 4);
      assert.equal(turn.lost.aborted, false);
    });
  });

  test("what the release meets does not hide the result", async (t) => {
    for (const release of [inTurn(problem(404)), inTurn(problem(500), done), inTurn({ body: "<html>" }), inTurn(problem(401))]) {
      const server = await fake(t, { "/v1/wait": () => slots(60_000), "/v1/release": release });
      assert.equal(await server.client().limiter("slots").turn(() => 7), 7);
    }
  });

  test("wait alone renews nothing; keep does, once, and release is said once", async (t) => {
    const server = await fake(t, { "/v1/wait": () => slots(6_000), "/v1/renew": () => renewed(60_000), "/v1/release": () => done });
    const turn = await server.client().limiter("slots").wait();
    await sleep(2_500);
    assert.equal(server.of("/v1/renew").length, 0);
    turn.keep().keep();
    await sleep(2_500);
    assert.equal(server.of("/v1/renew").length, 1);
    await turn.release();
    await turn.release();
    assert.equal(server.of("/v1/release").length, 1);
  });

  test("settles what was used", async (t) => {
    const server = await fake(t, { "/v1/wait": () => given, "/v1/settle": inTurn(done, problem(404)) });
    await server.client().limiter([{ name: "requests" }, { name: "tokens", cost: 10 }]).turn(async (turn) => {
      await turn.settle([undefined, 812]);
      await assert.rejects(turn.settle([1, 1]), { name: "UnknownLimit" });
    });
    assert.deepEqual(server.of("/v1/settle")[0]!.body, { turn: "t1", used: [-1, 812] });
  });
});

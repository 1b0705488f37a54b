import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { fake, inTurn, later, problem, sleep, type Handler, type Reply } from "./fake.js";

/** The answer of a server that held the request for no time, as it says. */
const given = (turn: string, usableMs: number, more: object = {}): Reply => ({
  body: { turn, id: "p1", waited_ms: 0, held_ms: 0, due_ms: 0, usable_ms: usableMs, ...more },
});

/** Lets the event loop stand still. */
function stall(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

for (const over of ["tcp", "unix"] as const) {
  describe(`late turns over ${over}`, () => {
    const ways: Record<string, () => Promise<void>> = {
      "a slow way": () => sleep(300),
      "a loop that stands still": async () => stall(300),
    };
    for (const [what, before] of Object.entries(ways)) {
      test(`${what}: a turn that comes too late is handed back`, async (t) => {
        for (const id of [undefined, "job-1"]) {
          const answers = inTurn(given("a", 100, { id: id ?? "p1" }), given("b", 60_000));
          let first = true;
          const wait: Handler = async (asked) => {
            if (first) await before();
            first = false;
            return await answers(asked);
          };
          const server = await fake(t, { "/v1/wait": wait }, over);
          assert.equal((await server.client().limiter("a").wait({ ...(id && { id }) })).turn, "b");
          const [asked, again] = server.of("/v1/wait").map(({ body }) => body);
          assert.equal(asked!["late"], undefined);
          assert.deepEqual([again!["late"], again!["turn"], again!["id"], again!["way"]], [true, "a", id ?? "p1", undefined]);
        }
      });
    }

    test("a turn that was asked for and comes too late is handed back", async (t) => {
      let first = true;
      const wait: Handler = async () => {
        if (!first) return later("job-1", 5_000);
        first = false;
        await sleep(300);
        return given("a", 100, { id: "job-1" });
      };
      const server = await fake(t, { "/v1/wait": wait }, over);
      assert.deepEqual(await server.client().limiter("a").ask("job-1"), { retryAfter: 5_000, forecast: 5_000 });
      const { late, turn, id, poll } = server.of("/v1/wait")[1]!.body;
      assert.deepEqual([late, turn, id, poll], [true, "a", "job-1", "0ms"]);
    });

    test("a way that is too long again is told", async (t) => {
      const answers = inTurn(given("a", 100), given("b", 100), given("c", 100), given("d", 60_000));
      const server = await fake(t, { "/v1/wait": async (asked) => (server.asked.length < 4 && (await sleep(300)), await answers(asked)) }, over);
      assert.equal((await server.client().limiter("a").wait()).turn, "d");
      const ways = server.of("/v1/wait").map(({ body }) => Number.parseInt((body["way"] as string) ?? "0"));
      assert.deepEqual(ways.slice(0, 2), [0, 0]);
      assert.ok(ways[2]! >= 295 && ways[3]! >= 295, `${ways}`);
    });

    test("a turn without an id that comes too late is asked for anew", async (t) => {
      const answers = inTurn(given("a", 100, { id: undefined }), given("b", 60_000));
      const server = await fake(t, { "/v1/wait": async (asked) => (server.asked.length < 2 && (await sleep(300)), await answers(asked)) }, over);
      assert.equal((await server.client().limiter("a").wait()).turn, "b");
      assert.equal(server.of("/v1/wait")[1]!.body["late"], undefined);
    });

    test("a turn that is due later is waited for", async (t) => {
      const server = await fake(t, { "/v1/wait": () => given("a", 60_000, { due_ms: 300 }) }, over);
      const began = performance.now();
      await server.client().limiter("a").wait();
      assert.ok(performance.now() - began >= 295);
    });

    test("a request names those before it that had no response", async (t) => {
      const server = await fake(t, { "/v1/wait": inTurn(problem(503), problem(503), later("p1", 0), given("a", 60_000)) }, over);
      await server.client().limiter("slots").wait();
      const names = server.of("/v1/wait").map(({ headers }) => String(headers["fleetpace-attempt"]).split(" "));
      assert.deepEqual(names.map((some) => some.slice(1)), [[], names[0], names[1], []]);
      assert.equal(new Set(names.map(([own]) => own)).size, 4);
      assert.ok(names.flat().every((name) => name.length >= 16 && name.length <= 64));
    });

    test("without random names of its own a request has none", async (t) => {
      t.mock.getter(globalThis, "crypto", () => undefined); // as in Node 18
      const server = await fake(t, { "/v1/wait": inTurn(problem(503), given("a", 60_000)) }, over);
      await server.client().limiter("slots").wait();
      assert.deepEqual(server.of("/v1/wait").map(({ headers }) => headers["fleetpace-attempt"]), [undefined, undefined]);
    });

    test("an answer that was lost is as one that was late", async (t) => {
      const server = await fake(t, { "/v1/wait": inTurn({ ...given("a", 1), cut: 5 }, given("b", 60_000)) }, over);
      await server.client().limiter("a").wait({ id: "job-1" });
      const asked = server.of("/v1/wait").map(({ body }) => [body["late"], body["turn"]]);
      assert.deepEqual(asked, [[undefined, undefined], [true, undefined]]);
    });
  });
}

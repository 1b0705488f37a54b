// Against the real server: FLEETPACE_BIN is the path of the fleetpace binary, and
// FLEETPACE_REDIS_URL the Redis to use. Nothing of it is deleted; keys have a prefix of their own.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Fleetpace, TooLate, type Limiter, type Options } from "fleetpace";
import { pacedFetch } from "fleetpace/fetch";
import { unixFetch } from "fleetpace/unix";
import { sleep } from "./fake.js";

const { FLEETPACE_BIN: binary, FLEETPACE_REDIS_URL: redis } = process.env;
const skip = binary && redis ? false : "set FLEETPACE_BIN (the fleetpace binary) and FLEETPACE_REDIS_URL to run against the real server";

const limits = `
limits:
${["order", "late", "abort", "again", "places", "pause", "fetch", "killed"].map((name) => `  - {name: ${name}, limit: 1/s}`).join("\n")}
  - {name: minute, limit: 1/minute}
  - {name: slots, limit: 1 at once}
  - {name: lost, limit: 1 at once}
  - {name: ahead, limit: 100/s burst 20}
  - {name: tokens, limit: 100/minute burst 100, settles: true, group: llm}
  - {name: requests, limit: 100/minute burst 100, group: llm}
  - {name: shop, key: "{shop}/{token}", limit: 1/minute}
  - {name: tenant, key: "{tenant}", limit: 1/minute}
  - {name: account, flow: "{tenant}", limit: 1/minute}
`;

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function until(is: () => Promise<boolean>, text: string): Promise<void> {
  for (const end = performance.now() + 30_000; !(await is()); await sleep(20)) assert.ok(performance.now() < end, text);
}

for (const over of ["tcp", "unix"] as const) {
  describe(`the real server over ${over}`, { skip, concurrency: true }, () => {
    const folder = mkdtempSync(join(tmpdir(), "fp-"));
    const prefix = `ts-${randomUUID()}:`;
    let listen = "";
    let options: Options;
    let client: Fleetpace;
    let server: ChildProcess;

    async function start(at = listen, more: Record<string, string> = {}, ...flags: string[]): Promise<ChildProcess> {
      const env = { ...process.env, FLEETPACE_PREFIX: prefix, ...more };
      const started = spawn(binary!, ["serve", "-redis", redis!, "-limits", join(folder, "limits.yaml"), "-listen", at, "-lease", "3s", ...flags], { env, stdio: ["ignore", "ignore", "pipe"] });
      let said = "";
      started.stderr!.on("data", (chunk: Buffer) => (said += chunk.toString()));
      await until(async () => {
        assert.equal(started.exitCode, null, said);
        return said.includes("turns are at");
      }, "the server does not start");
      return started;
    }

    async function stop(started: ChildProcess, signal: NodeJS.Signals): Promise<void> {
      if (started.exitCode !== null || started.signalCode !== null) return;
      started.kill(signal);
      await once(started, "exit");
    }

    before(async () => {
      if (skip) return;
      writeFileSync(join(folder, "limits.yaml"), limits);
      const port = await freePort();
      listen = over === "unix" ? `unix:${join(folder, "s")}` : `127.0.0.1:${port}`;
      options = over === "unix" ? { fetch: unixFetch(listen) } : { url: `http://127.0.0.1:${port}` };
      client = new Fleetpace(options);
      server = await start();
    });
    after(async () => {
      if (server) await stop(server, "SIGTERM");
      rmSync(folder, { recursive: true, force: true });
    });

    /** Waits until so many calls wait for a limit, at the server or until they ask again. */
    const queued = (name: string, calls: number) =>
      until(async () => (({ waiting, booked }) => waiting + booked === calls)(await client.state(name)), `not ${calls} calls wait for ${name}`);

    /** Where another server is to listen, and what its clients need. */
    async function another(name: string): Promise<[at: string, options: Options]> {
      if (over === "unix") return [`unix:${join(folder, name)}`, { fetch: unixFetch(join(folder, name)) }];
      const at = `127.0.0.1:${await freePort()}`;
      return [at, { url: `http://${at}` }];
    }

    test("calls have their turns in the order in which they came, at the pace of the limit", async () => {
      const limiter = client.limiter("order");
      await limiter.pause(20_000, "so that calls wait");
      const order: number[] = [];
      const calls: Promise<unknown>[] = [];
      for (let i = 0; i < 4; i++) {
        calls.push(limiter.wait().then(() => order.push(i)));
        await queued("order", i + 1);
      }
      const began = performance.now();
      await limiter.resume();
      await Promise.all(calls);
      assert.deepEqual(order, [0, 1, 2, 3]);
      assert.ok(performance.now() - began > 2_500);
    });

    test("a call whose turn is too late is told so, and costs nothing", async () => {
      const limiter = client.limiter("minute");
      await limiter.wait();
      const error: unknown = await limiter.wait({ maxWait: 2_000 }).catch((error: unknown) => error);
      assert.ok(error instanceof TooLate, String(error));
      assert.ok(error.retryAfter! > 30_000 && error.retryAfter! <= 60_000, `${error.retryAfter}`);
      await assert.rejects(limiter.wait({ maxWait: 0 }), TooLate);
      const now = await client.state("minute");
      assert.deepEqual([now.waiting, now.booked], [0, 0]);
      assert.ok(now.waitMs! <= 60_000, `${now.waitMs}`);
    });

    test("the server notices a caller that hangs up", async () => {
      const limiter = client.limiter("abort");
      await limiter.pause(20_000, "so that calls wait"); // for less than a poll: the call waits at the server
      const stop = new AbortController();
      const call = limiter.wait({ signal: stop.signal });
      const refused = assert.rejects(call, { name: "AbortError" });
      await queued("abort", 1);
      stop.abort();
      await refused;
      await queued("abort", 0);
    });

    test("a wait goes on over many polls", async () => {
      const [at, where] = await another("short");
      const short = await start(at, {}, "-poll", "1s");
      try {
        const limiter = new Fleetpace(where).limiter("again");
        const began = performance.now();
        await Promise.all(Array.from({ length: 6 }, () => limiter.wait({ maxWait: 30_000 })));
        assert.ok(performance.now() - began > 4_500);
      } finally {
        await stop(short, "SIGTERM");
      }
    });

    test("a place whose turn does not come is given up", async () => {
      const limiter = client.limiter("places");
      await limiter.pause(60_000, "so that calls wait");
      await assert.rejects(limiter.wait({ maxWait: 1_000 }), TooLate);
      await assert.rejects(limiter.wait({ maxWait: 1_000, id: "job-1" }), TooLate);
      const stop = AbortSignal.timeout(1_000);
      await assert.rejects(limiter.wait({ id: "job-2", signal: stop }), { name: "TimeoutError" });
      await limiter.leave("job-2");
      await queued("places", 0);
    });

    test("slots are renewed while the call runs, and the next one has them after it", async () => {
      const limiter = client.limiter("slots");
      const events: string[] = [];
      const first = limiter.turn(async (turn) => {
        events.push("first");
        await sleep(7_000); // two leases
        events.push("first ends");
        return turn.lost.aborted;
      });
      await until(async () => events.length === 1, "the first call has no slot");
      const second = limiter.turn((turn) => (events.push("second"), turn.leaseMs));
      assert.equal(await first, false);
      assert.equal(await second, 3_000);
      assert.deepEqual(events, ["first", "first ends", "second"]);
    });

    test("slots that nobody renews are others', and their holder is told", async () => {
      const limiter = client.limiter("lost");
      await limiter.wait();
      await limiter.turn(async (turn) => {
        const lost = once(turn.lost, "abort");
        const fetch = options.fetch ?? globalThis.fetch;
        const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ turn: turn.turn }) };
        assert.equal((await fetch(`${options.url ?? "http://localhost"}/v1/release`, init)).status, 204); // somebody else does
        await lost;
        assert.equal((turn.lost.reason as Error).name, "UnknownLimit");
      }, { maxWait: 30_000 });
    });

    test("allow takes turns ahead, and says when there is none", async () => {
      const limiter = client.limiter("ahead");
      const answer = await limiter.allow({ ahead: 20 });
      assert.ok(answer.allowed && answer.taken >= 1 && answer.taken <= 20, JSON.stringify(answer));
      assert.ok(answer.validMs > 0 && answer.validMs <= 1_000, `${answer.validMs}`);
      assert.match(answer.headers.get("ratelimit-policy")!, /^"ahead";q=100;w=1$/);
      const minute = client.limiter("tenant", { key: "a" });
      assert.equal((await minute.allow()).allowed, true);
      const refused = await minute.allow();
      assert.deepEqual([refused.allowed, refused.taken, refused.limit], [false, 0, "1/minute"]);
      assert.ok(refused.retryAfter > 30_000 && refused.retryAfter <= 60_000);
      assert.ok(Number(refused.headers.get("retry-after")) > 30 && refused.headers.has("ratelimit"));
      assert.equal((await client.limiter("tenant", { key: "b" }).allow()).allowed, true);
      await assert.rejects(client.limiter("slots").allow(), { name: "InvalidRequest" });
      await assert.rejects(client.limiter("slots").allow({ ahead: 2 }), { name: "InvalidRequest" });
    });

    test("a pause holds back the fleet until it is over, or is ended", async () => {
      const limiter = client.limiter("pause");
      const began = performance.now();
      await limiter.pause(1_500, "Retry-After");
      const { pausedMs, pauseReason } = await client.state("pause");
      assert.ok(pausedMs > 0 && pauseReason === "Retry-After");
      await limiter.wait();
      assert.ok(performance.now() - began >= 1_400);
      await limiter.pause(20_000);
      const call = limiter.wait();
      await queued("pause", 1);
      await limiter.resume();
      await call;
      assert.equal((await client.state("pause")).pausedMs, 0);
    });

    test("pacedFetch pauses it", async () => {
      const paced = pacedFetch(client.limiter("fetch"), async () => new Response("", { status: 429, headers: { "Retry-After": "60" } }));
      await paced("http://api.example/");
      const { pausedMs, pauseReason } = await client.state("fetch");
      assert.ok(pausedMs > 30_000 && pauseReason === "429 of the API", `${pausedMs} ${pauseReason}`);
    });

    test("several limits are settled", async () => {
      await client.limiter([{ name: "requests" }, { name: "tokens", cost: 80 }]).turn(async (turn) => {
        await turn.settle([undefined, 10]);
        await turn.settle([undefined, 10]); // counts once
      });
      assert.ok((await client.state("tokens")).stored >= 85);
    });

    test("a key of several names, and a flow", async () => {
      const shop: Limiter = client.limiter("shop", { key: { shop: "s", token: "t" }, flow: "s", weight: 2, urgent: true });
      await shop.wait();
      await assert.rejects(shop.wait({ maxWait: 0 }), TooLate);
    });

    test("a limit with a template of shares is paused, and a place of it is given up", async () => {
      const account = client.limiter("account", { flow: "acme" });
      await account.wait();
      await assert.rejects(account.wait({ signal: AbortSignal.timeout(1_000), id: "job-1" }), { name: "TimeoutError" });
      await account.leave("job-1");
      await account.pause(1_000, "for all shares");
      await account.resume();
    });

    test("lists the limits, and refuses what is wrong", async () => {
      const list = await client.limits();
      assert.deepEqual(list.find(({ name }) => name === "shop"), { name: "shop", limit: "1/minute", key: "{shop}/{token}" });
      assert.equal((await client.state("tenant", "a/ü")).limit, "1/minute");
      await assert.rejects(client.limiter("none").wait(), { name: "UnknownLimit", message: /none/ });
      await assert.rejects(client.state("none"), { name: "UnknownLimit" });
      await assert.rejects(client.limiter("ahead", { cost: 21 }).wait(), { name: "InvalidRequest", field: "limits[0].cost", value: 21, message: /limits\[0\]\.cost is 21/ });
      await assert.rejects(client.limiter("minute", { cost: 0 }).wait(), { name: "InvalidRequest", field: "limits[0].cost" });
      await assert.rejects(client.limiter("tenant").wait(), { name: "InvalidRequest" });
    });

    test("who waits under an id while the server is killed keeps its place", async () => {
      const [at, where] = await another("killed");
      let killed = await start(at);
      try {
        const limiter = new Fleetpace(where).limiter("killed");
        await limiter.pause(8_000, "so that calls wait");
        const order: string[] = [];
        const first = limiter.wait({ id: "first" }).then(() => order.push("first"));
        await queued("killed", 1);
        const other = client.limiter("killed").wait().then(() => order.push("other"));
        await queued("killed", 2);
        await stop(killed, "SIGKILL");
        killed = await start(at);
        await Promise.all([first, other]);
        assert.deepEqual(order, ["first", "other"]);
      } finally {
        await stop(killed, "SIGTERM");
      }
    });

    test("the server wants its token", async () => {
      const [at, where] = await another("token");
      const guarded = await start(at, { FLEETPACE_TOKEN: "secret" });
      try {
        await assert.rejects(new Fleetpace(where).limits(), { name: "Unauthorized" });
        await assert.rejects(new Fleetpace({ ...where, token: "wrong" }).limiter("late").wait(), { name: "Unauthorized" });
        await new Fleetpace({ ...where, token: "secret" }).limiter("late").wait();
      } finally {
        await stop(guarded, "SIGTERM");
      }
    });
  });
}

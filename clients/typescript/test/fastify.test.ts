import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import Fastify, { type FastifyInstance, type FastifyRequest } from "fastify";
import { fleetpace, type FleetpaceOptions } from "fleetpace/fastify";
import { fake, type Fake, type Handler, inTurn, problem, type Reply, sleep } from "./fake.js";

const policy = { "ratelimit-policy": '"api";q=100;w=60' };
const allowed = (taken: number, validMs: number): Reply => ({
  headers: { ...policy, ratelimit: '"api";r=50;t=30' },
  body: { allowed: true, taken, valid_ms: validMs, limit: "100/s", retry_after: 0 },
});
const refused: Reply = {
  status: 429,
  headers: { ...policy, ratelimit: '"api";r=0;t=3', "retry-after": "3" },
  body: { allowed: false, taken: 0, limit: "100/s", retry_after: 2.5 },
};
const hour = 3_600_000;

async function app(t: TestContext, allow: Handler, more: Partial<FleetpaceOptions> = {}): Promise<[FastifyInstance, Fake]> {
  const server = await fake(t, { "/v1/allow": allow });
  const api = Fastify();
  await api.register(fleetpace, { limiter: server.client().limiter("api"), ...more });
  api.get("/", async () => "hello");
  t.after(() => api.close());
  return [api, server];
}

describe("fastify", { concurrency: true }, () => {
  test("serves a request that is allowed", async (t) => {
    const [api, server] = await app(t, () => allowed(1, 0));
    const answer = await api.inject("/");
    assert.deepEqual([answer.statusCode, answer.body, answer.headers["ratelimit-policy"], answer.headers["ratelimit"]], [200, "hello", policy["ratelimit-policy"], '"api";r=50;t=30']);
    assert.deepEqual(server.asked[0]!.body, { limits: [{ name: "api" }] });
  });

  test("refuses one that is not", async (t) => {
    const [api] = await app(t, () => refused);
    const answer = await api.inject("/");
    assert.equal(answer.statusCode, 429);
    assert.match(String(answer.headers["content-type"]), /^application\/problem\+json/);
    assert.deepEqual([answer.headers["retry-after"], answer.headers["ratelimit-policy"], answer.headers["ratelimit"]], ["3", policy["ratelimit-policy"], '"api";r=0;t=3']);
    const { title, status, detail } = answer.json();
    assert.deepEqual([title, status, detail], ["Too many requests", 429, "The limit is used up. Try again in 3 s."]);
  });

  test("keeps what was taken ahead for the next requests", async (t) => {
    const [api, server] = await app(t, inTurn(allowed(5, hour), refused), { ahead: 5 });
    const statuses: number[] = [];
    for (let i = 0; i < 6; i++) statuses.push((await api.inject("/")).statusCode);
    assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429]);
    assert.deepEqual(server.asked.map(({ body }) => body["ahead"]), [5, 5]);
  });

  test("turns lapse, and are asked for again", async (t) => {
    const [api, server] = await app(t, () => allowed(1_000, 200), { ahead: 1_000 });
    await api.inject("/");
    await sleep(250);
    await api.inject("/");
    assert.equal(server.asked.length, 2);
  });

  test("without ahead each request asks", async (t) => {
    const [api, server] = await app(t, () => allowed(1, hour));
    for (let i = 0; i < 3; i++) await api.inject("/");
    assert.equal(server.asked.length, 3);
  });

  test("of a key one request to the server is under way at most", async (t) => {
    let now = 0;
    let most = 0;
    let left = 12;
    const server = await fake(t, {
      "/v1/allow": async () => {
        most = Math.max(most, ++now);
        await sleep(20);
        now--;
        const taken = Math.min(5, left);
        left -= taken;
        return taken ? allowed(taken, hour) : refused;
      },
    });
    const api = Fastify();
    t.after(() => api.close());
    await api.register(fleetpace, { limiter: server.client().limiter("api"), ahead: 5 });
    api.get("/", async () => "hello");
    const statuses = (await Promise.all(Array.from({ length: 30 }, () => api.inject("/")))).map(({ statusCode }) => statusCode);
    assert.equal(statuses.filter((status) => status === 200).length, 12);
    assert.equal(statuses.filter((status) => status === 429).length, 18);
    assert.equal(most, 1);
    assert.equal(server.asked.length, 4);
  });

  test("each limiter and key has turns of its own", async (t) => {
    const server = await fake(t, { "/v1/allow": ({ body }) => ((body["limits"] as { key: string }[])[0]!.key === "bad" ? refused : allowed(10, hour)) });
    const client = server.client();
    const api = Fastify();
    t.after(() => api.close());
    const limiter = async (request: FastifyRequest) => client.limiter("tenants", { key: String(request.headers["x-tenant"]) });
    await api.register(fleetpace, { limiter, ahead: 10 });
    api.get("/", async () => "hello");
    const status = async (tenant: string) => (await api.inject({ url: "/", headers: { "x-tenant": tenant } })).statusCode;
    for (let i = 0; i < 3; i++) assert.deepEqual(await Promise.all([status("a"), status("b"), status("bad")]), [200, 200, 429]);
    assert.deepEqual(server.asked.map(({ body }) => (body["limits"] as { key: string }[])[0]!.key).sort(), ["a", "b", "bad", "bad", "bad"]);
  });

  test("counts for the instance that registers it", async (t) => {
    const server = await fake(t, { "/v1/allow": () => refused });
    const api = Fastify();
    t.after(() => api.close());
    await api.register(async (limited) => {
      await limited.register(fleetpace, { limiter: server.client().limiter("api") });
      limited.get("/limited", async () => "hello");
    });
    api.get("/free", async () => "hello");
    assert.deepEqual([(await api.inject("/limited")).statusCode, (await api.inject("/free")).statusCode], [429, 200]);
  });

  test("while the server is away requests are refused, or served", async (t) => {
    const [refusing] = await app(t, () => problem(503, {}, { "retry-after": "7" }));
    const answer = await refusing.inject("/");
    assert.deepEqual([answer.statusCode, answer.headers["retry-after"], answer.json().status], [503, "7", 503]);
    assert.match(String(answer.headers["content-type"]), /^application\/problem\+json/);

    const [serving, server] = await app(t, inTurn(problem(503), undefined), { onUnavailable: "pass" });
    assert.equal((await serving.inject("/")).statusCode, 200);
    assert.equal((await serving.inject("/")).statusCode, 200); // no answer for a second
    await server.close();
    assert.equal((await serving.inject("/")).statusCode, 200);
    await server.listen();
  });

  test("an error of the server's is none of the request's", async (t) => {
    for (const status of [400, 401, 404]) {
      const [api] = await app(t, () => problem(status, { detail: "a secret" }), { onUnavailable: "pass" });
      const answer = await api.inject("/");
      assert.equal(answer.statusCode, 500);
      assert.doesNotMatch(answer.body, /secret/);
    }
  });

  test("what the limiter function throws is the application's", async (t) => {
    const [api, server] = await app(t, () => refused, { limiter: () => { throw Object.assign(new Error("who are you?"), { statusCode: 401 }); } });
    assert.equal((await api.inject("/")).statusCode, 401);
    assert.equal(server.asked.length, 0);
  });

  test("a 429 or 503 of a handler is passed on, and pauses nothing", async (t) => {
    const [api, server] = await app(t, () => allowed(1, 0));
    api.get("/upstream/:status", async (request, reply) =>
      reply.code(Number((request.params as { status: string }).status)).header("Retry-After", "9").send("of the upstream"));
    for (const status of [429, 503]) {
      const answer = await api.inject(`/upstream/${status}`);
      assert.deepEqual([answer.statusCode, answer.headers["retry-after"], answer.body], [status, "9", "of the upstream"]);
    }
    assert.deepEqual(new Set(server.asked.map(({ path }) => path)), new Set(["/v1/allow"]));
  });

  test("options are checked", async (t) => {
    const server = await fake(t, {});
    const limiter = server.client().limiter("api");
    for (const ahead of [0, 1.5, 10_001]) await assert.rejects(async () => Fastify().register(fleetpace, { limiter, ahead }), { name: "InvalidRequest", field: "ahead" });
    await assert.rejects(async () => Fastify().register(fleetpace, { limiter, onUnavailable: "no" as "pass" }), { name: "InvalidRequest", field: "onUnavailable" });
  });
});

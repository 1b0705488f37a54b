// What ../../server/openapi.yaml allows in requests. A field that it does not name is an error.

type Check = (value: unknown) => boolean;

const text = (longest: number): Check => (value) => typeof value === "string" && value.length >= 1 && value.length <= longest;
const integer = (least: number, most: number): Check => (value) => Number.isInteger(value) && (value as number) >= least && (value as number) <= most;
const duration: Check = (value) => typeof value === "string" && /^(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+$/.test(value);
const list = (most: number, item: Check): Check => (value) => Array.isArray(value) && value.length >= 1 && value.length <= most && value.every(item);
const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

const key: Check = (value) => text(512)(value) || (isObject(value) && Object.values(value).every((part) => typeof part === "string" && part !== ""));
const limit: Check = (value) =>
  isObject(value) && wrongIn(value, { name: text(128), key, cost: integer(1, 2 ** 31) }, ["name"]) === undefined;

const limits = list(8, limit);
const id = text(256);
const turn = text(16384);
const whose = {
  flow: text(256),
  share: text(256),
  weight: (value: unknown) => typeof value === "number" && value >= 1e-6 && value <= 1e6,
  urgent: (value: unknown) => typeof value === "boolean",
};

const bodies: Record<string, [fields: Record<string, Check>, required: string[]]> = {
  "/v1/wait": [{ limits, ...whose, max_wait: duration, poll: duration, id, late: (value) => value === true, turn, way: duration }, ["limits"]],
  "/v1/leave": [{ limits, id }, ["limits", "id"]],
  "/v1/allow": [{ limits, ...whose, ahead: integer(1, 10_000) }, ["limits"]],
  "/v1/settle": [{ turn, used: list(8, integer(-1, 2 ** 31)), served: (value) => typeof value === "boolean" }, ["turn", "used"]],
  "/v1/release": [{ turn }, ["turn"]],
  "/v1/renew": [{ turn }, ["turn"]],
  "/v1/pause": [{ limits, for: duration, until: text(64), reason: (value) => typeof value === "string" && value.length <= 256 }, ["limits"]],
  "/v1/resume": [{ limits }, ["limits"]],
  "/v1/refused": [{ limits, api: text(20), status: integer(200, 599), headers: isObject, body: (value) => typeof value === "string", host: (value) => typeof value === "string" && value.length <= 200, ago: duration }, ["limits", "api", "status"]],
};

function wrongIn(body: unknown, fields: Record<string, Check>, required: string[]): string | undefined {
  if (!isObject(body)) return "body";
  const wrong = Object.entries(body).find(([name, value]) => !(Object.hasOwn(fields, name) && fields[name]!(value)));
  return wrong?.[0] ?? required.find((name) => body[name] === undefined);
}

/** The field of a request that breaks the contract. */
export function breach(method: string, path: string, body: unknown): string | undefined {
  if (method === "GET") return path === "/v1/limits" || path.startsWith("/v1/limits/") ? undefined : "path";
  const known = method === "POST" ? bodies[path] : undefined;
  return known ? wrongIn(body, ...known) : "path";
}

import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Ahead } from "./ahead.js";
import { InvalidRequest, Unavailable } from "./errors.js";
import type { Limiter } from "./limiter.js";

export interface FleetpaceOptions {
  /** The limiter that a request counts against. */
  limiter: Limiter | ((request: FastifyRequest) => Limiter | Promise<Limiter>);
  /** How many turns to prefetch per request to the server. It needs one paced limit or one quota. Default 1. */
  ahead?: number;
  /** While the server is unreachable, requests are served, or get 503 (refuse). Default refuse. */
  onUnavailable?: "pass" | "refuse";
}

const answerMs = 1_000; // the longest that a request is delayed

/**
 * A plugin that serves a request if a turn is available now, and responds 429 otherwise. It applies to
 * the routes of the instance that registers it, in the onRequest hook. Register it after
 * authentication.
 */
async function plugin(app: FastifyInstance, { limiter, ahead = 1, onUnavailable = "refuse" }: FleetpaceOptions): Promise<void> {
  if (!Number.isInteger(ahead) || ahead < 1 || ahead > 10_000) {
    throw new InvalidRequest(`ahead is ${ahead}: must be from 1 to 10000`, { field: "ahead", value: ahead });
  }
  if (!["pass", "refuse"].includes(onUnavailable)) {
    throw new InvalidRequest(`onUnavailable is ${onUnavailable}: must be pass or refuse`, { field: "onUnavailable", value: onUnavailable });
  }
  const turns = new Ahead(ahead, answerMs);
  app.addHook("onRequest", async (request, reply) => {
    const chosen = typeof limiter === "function" ? await limiter(request) : limiter;
    try {
      const { allowed, retryAfter, headers } = await turns.allow(chosen);
      for (const name of ["RateLimit-Policy", "RateLimit"]) {
        const value = headers.get(name);
        if (value !== null) reply.header(name, value);
      }
      if (allowed) return;
      const seconds = headers.get("retry-after") ?? String(Math.max(1, Math.ceil(retryAfter / 1000)));
      const type = "https://iana.org/assignments/http-problem-types#quota-exceeded";
      return refuse(reply, seconds, { type, title: "Too many requests", status: 429, detail: `The limit is used up. Try again in ${seconds} s.` });
    } catch (error) {
      // An error of the server, such as 404 for an unknown limit, is not an error of this request.
      if (!(error instanceof Unavailable)) throw new Error("could not ask for a turn", { cause: error });
      request.log.warn({ err: error }, `no turn could be asked for: the request is ${onUnavailable === "pass" ? "served" : "refused"}`);
      if (onUnavailable === "pass") return;
      const seconds = String(Math.max(1, Math.ceil((error.retryAfter ?? 0) / 1000)));
      return refuse(reply, seconds, { type: "about:blank", title: "Service Unavailable", status: 503, detail: "The limits can not be asked now." });
    }
  });
}

interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
}

function refuse(reply: FastifyReply, seconds: string, problem: Problem): FastifyReply {
  return reply.code(problem.status).header("Retry-After", seconds).type("application/problem+json").send(JSON.stringify(problem));
}

/** Tells Fastify that the hook applies to the instance that registers the plugin. */
const marks = { [Symbol.for("skip-override")]: true, [Symbol.for("fastify.display-name")]: "fleetpace" };
export const fleetpace = Object.assign(plugin, marks);
export default fleetpace;

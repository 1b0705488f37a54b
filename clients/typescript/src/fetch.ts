import type { Limiter } from "./limiter.js";
import { retryAfterOf } from "./time.js";
import { type Estimate, estimateOf, type Usage, UsageReader } from "./usage.js";

export type { Estimate, Usage } from "./usage.js";

type Fetch = typeof globalThis.fetch;

export interface PacedOptions {
  /**
   * What a request costs of each limit, in their order; undefined: as the limiter says. The body of a Request is read
   * whole before it is sent. A stream, a form or a Blob in init counts as empty.
   */
  cost?: (estimate: Estimate, init?: RequestInit) => readonly (number | undefined)[];
  /**
   * What a call has used of each limit, in their order; undefined: what was reserved. The limits need `settles: true`.
   * A response that does not state the tokens of its prompt leaves the cost as it was. One with a status of 400 or
   * above has used none.
   */
  used?: (usage: Usage, response: Response) => readonly (number | undefined)[];
  /** Called with the error if the limit could not be paused, a cost not settled, or a hard stop not ended. The response is returned nevertheless. */
  onError?: (error: unknown) => void;
}

/**
 * A fetch whose every request waits for a turn. A response 429 or 503 with Retry-After pauses the limit
 * for the whole fleet before it is returned; nothing is retried. A slot is held until the body of the
 * response is read or cancelled, and then the cost is settled. So do one of these. A successful response to a call
 * that probes a hard stop ends the stop then.
 */
export function pacedFetch(limiter: Limiter, fetch: Fetch = globalThis.fetch, { cost, used, onError }: PacedOptions = {}): Fetch {
  return (async (input: string | URL | Request, init?: RequestInit) => {
    const request = input instanceof Request ? input : undefined;
    const signal = init?.signal ?? request?.signal;
    const priced = cost ? limiter.costing(cost(estimateOf(init?.body ?? (await request?.clone().text())), init)) : limiter;
    const turn = (await priced.wait({ signal: signal ?? undefined })).keep();
    try {
      const answer = await fetch(input as string, init);
      const wait = answer.status === 429 || answer.status === 503 ? retryAfterOf(answer.headers) : undefined;
      if (wait) await limiter.pause(wait, `${answer.status} of ${answer.url.split("/")[2] ?? "the API"}`).catch((error) => onError?.(error));
      const served = answer.ok && turn.probes;
      if (!used && !served) return turn.leaseMs === 0 ? answer : untilRead(answer, () => turn.release());
      const reader = new UsageReader(answer.headers);
      const settle = async () => {
        const usage = answer.status < 400 ? reader.end() : nothing;
        const works = served && !reader.failed;
        if (used && usage) await turn.settle(used(usage, answer), works);
        else if (works) await turn.settle(limiter.request.limits.map(() => undefined), works);
      };
      return untilRead(answer, () => Promise.all([settle().catch((error) => onError?.(error)), turn.release()]), reader);
    } catch (error) {
      await turn.release();
      throw error;
    }
  }) as Fetch;
}

const nothing: Usage = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0 };

/** The same response. When its body ends, finish is called. */
function untilRead(answer: Response, finish: () => Promise<unknown>, usage?: UsageReader): Response {
  const reader = answer.body?.getReader();
  let finished: Promise<unknown> | undefined;
  const done = () => (finished ??= finish()); // a body that is cancelled may also end
  if (!reader) {
    void done();
    return answer;
  }
  const body = new ReadableStream({
    async pull(controller) {
      try {
        const { done: ended, value } = await reader.read();
        if (!ended) {
          controller.enqueue(value);
          return usage?.read(value);
        }
        controller.close();
      } catch (error) {
        controller.error(error);
      }
      await done();
    },
    async cancel(reason) {
      await Promise.all([reader.cancel(reason), done()]);
    },
  });
  return Object.defineProperty(new Response(body, answer), "url", { value: answer.url });
}

import type { Api, Limiter } from "./limiter.js";
import { now, retryAfterOf } from "./time.js";
import { type Estimate, estimateOf, type Usage, UsageReader } from "./usage.js";

export type { Estimate, Usage } from "./usage.js";

type Fetch = typeof globalThis.fetch;

export interface PacedOptions {
  /**
   * Whose rules say what a refusal means. By its status and body the limits are paused, or stopped if the account is
   * used up, and headers tell an SDK whether to repeat it. Without api, a Retry-After of status 429 or 503 pauses them.
   */
  api?: Api;
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
  /** Called with the error if a refusal could not be passed on, a cost not settled, or a hard stop not ended. The response is returned nevertheless. */
  onError?: (error: unknown) => void;
}

/**
 * A fetch whose every request waits for a turn. A refusal pauses or stops the limit for the whole fleet before it is
 * returned; nothing is retried. A slot is held until the body of the
 * response is read or cancelled, and then the cost is settled. So do one of these. A successful response to a call
 * that probes a hard stop ends the stop then.
 */
export function pacedFetch(limiter: Limiter, fetch: Fetch = globalThis.fetch, { api, cost, used, onError }: PacedOptions = {}): Fetch {
  return (async (input: string | URL | Request, init?: RequestInit) => {
    const request = input instanceof Request ? input : undefined;
    const signal = init?.signal ?? request?.signal;
    const priced = cost ? limiter.costing(cost(estimateOf(init?.body ?? (await request?.clone().text())), init)) : limiter;
    const turn = (await priced.wait({ signal: signal ?? undefined })).keep();
    try {
      const sent = now();
      let answer = await fetch(input as string, init);
      const host = () => new URL(answer.url || request?.url || String(input)).host;
      const hear = api && (async (body: string) => limiter.refused({ api, status: answer.status, headers: answer.headers, body, host: host(), ago: now() - sent }));
      if (hear && answer.status >= 400) answer = await told(answer, (text) => hear(text).catch((error) => (onError?.(error), {})));
      const wait = hear ? undefined : answer.status === 429 || answer.status === 503 ? retryAfterOf(answer.headers) : undefined;
      if (wait) await limiter.pause(wait, `${answer.status} of ${answer.url.split("/")[2] ?? "the API"}`).catch((error) => onError?.(error));
      const served = answer.ok && turn.probes;
      const mayFail = hear && answer.ok;
      if (!used && !served && !mayFail) return turn.leaseMs === 0 ? answer : untilRead(answer, () => turn.release());
      const reader = new UsageReader(answer.headers);
      const settle = async () => {
        const usage = answer.status < 400 ? reader.end() : nothing;
        if (!used && answer.ok) reader.end();
        const works = served && !reader.failed;
        if (used && usage) await turn.settle(used(usage, answer), works);
        else if (works) await turn.settle(limiter.request.limits.map(() => undefined), works);
      };
      const finish = async () => {
        await settle().catch((error) => onError?.(error));
        if (mayFail && reader.failure) await hear(reader.failure).catch((error) => onError?.(error));
      };
      return untilRead(answer, () => Promise.all([finish(), turn.release()]), reader);
    } catch (error) {
      await turn.release();
      throw error;
    }
  }) as Fetch;
}

const nothing: Usage = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0 };

const mostRead = 64 << 10; // bytes of a refusal
const mostSent = 16 << 10; // characters of a refusal, which may be three times as long in JSON; a longer one is judged by its status

/** The same response, after hear was called with its text and returned headers to add. */
async function told(answer: Response, hear: (text: string) => Promise<Record<string, string>>): Promise<Response> {
  const reader = answer.body?.getReader();
  const parts: Uint8Array[] = [];
  let whole = !reader;
  for (let size = 0; reader && !whole && size <= mostRead; ) {
    const { done, value } = await reader.read();
    whole = done;
    if (value) size += parts.push(value) && value.length;
  }
  const decoder = new TextDecoder();
  const text = whole ? parts.map((part) => decoder.decode(part, { stream: true })).join("") : "";
  const headers = new Headers(answer.headers);
  for (const [name, value] of Object.entries(await hear(text.length <= mostSent ? text : ""))) headers.set(name, value);
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const value = parts.shift() ?? (whole ? undefined : (await reader?.read())?.value);
      if (value) controller.enqueue(value);
      else controller.close();
    },
    cancel: (reason) => reader?.cancel(reason),
  });
  const { status, statusText, url } = answer;
  return Object.defineProperty(new Response(reader ? body : null, { status, statusText, headers }), "url", { value: url });
}

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

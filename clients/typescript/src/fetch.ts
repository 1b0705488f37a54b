import type { Limiter } from "./limiter.js";
import { retryAfterOf } from "./time.js";
import type { Turn } from "./turn.js";

type Fetch = typeof globalThis.fetch;

export interface PacedOptions {
  /** Called with the error if the limit could not be paused. The response is returned nevertheless. */
  onError?: (error: unknown) => void;
}

/**
 * A fetch whose every request waits for a turn. A response 429 or 503 with Retry-After pauses the limit
 * for the whole fleet before it is returned; nothing is retried. A slot is held until the body of the
 * response is read or cancelled, so do one of these.
 */
export function pacedFetch(limiter: Limiter, fetch: Fetch = globalThis.fetch, { onError }: PacedOptions = {}): Fetch {
  return (async (input: string | URL | Request, init?: RequestInit) => {
    const signal = init?.signal ?? (input instanceof Request ? input.signal : undefined);
    const turn = (await limiter.wait({ signal: signal ?? undefined })).keep();
    try {
      const answer = await fetch(input as string, init);
      const wait = answer.status === 429 || answer.status === 503 ? retryAfterOf(answer.headers) : undefined;
      if (wait) await limiter.pause(wait, `${answer.status} of ${answer.url.split("/")[2] ?? "the API"}`).catch((error) => onError?.(error));
      return untilRead(answer, turn);
    } catch (error) {
      await turn.release();
      throw error;
    }
  }) as Fetch;
}

/** The same response; it releases the turn when its body ends. */
function untilRead(answer: Response, turn: Turn): Response {
  if (turn.leaseMs === 0) return answer;
  const reader = answer.body?.getReader();
  if (!reader) {
    void turn.release();
    return answer;
  }
  const body = new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (!done) return controller.enqueue(value);
        controller.close();
      } catch (error) {
        controller.error(error);
      }
      await turn.release();
    },
    async cancel(reason) {
      await Promise.all([reader.cancel(reason), turn.release()]);
    },
  });
  return Object.defineProperty(new Response(body, answer), "url", { value: answer.url });
}

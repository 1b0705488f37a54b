import { Unavailable } from "./errors.js";

/** Now, in ms of a monotonic clock. */
export const now = (): number => performance.now();

/** The longest time of a timer, in ms; a longer one would fire at once. */
export const longest = 2 ** 31 - 1;

/** ms in the server's format. Go's durations end at 292 years. */
export const duration = (ms: number): string => `${Math.round(Math.min(ms, 3e12))}ms`;

/** Reads Retry-After, seconds or an HTTP date, as ms from now on. */
export function retryAfterOf(headers: Headers): number | undefined {
  const text = headers.get("retry-after")?.trim() ?? "";
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  if (!/^[A-Za-z]{3,9},? /.test(text)) return undefined;
  const date = Date.parse(text.endsWith("GMT") ? text : `${text} GMT`);
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now());
}

/** Sleeps for ms, or until the signal fires: then it throws the signal's reason. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const end = () => (clearTimeout(timer), reject(signal?.reason));
    const timer = setTimeout(() => (signal?.removeEventListener("abort", end), resolve()), Math.min(ms, longest));
    signal?.addEventListener("abort", end, { once: true });
  });
}

/** Retries while the server is unreachable: until a moment or, without one, for a minute. */
export async function persist<T>(attempt: () => Promise<T>, until?: number, signal?: AbortSignal, failed?: () => void): Promise<T> {
  for (let failures = 0; ; failures++) {
    try {
      return await attempt();
    } catch (error) {
      failed?.();
      const rest = (until ??= now() + 60_000) - now();
      if (!(error instanceof Unavailable) || rest <= 0 || (error.retryAfter ?? 0) > rest) throw error;
      const backoff = Math.min(100 * 2 ** failures, 5_000) * (0.5 + Math.random() / 2); // random, so that the processes of a fleet do not ask at the same time
      await sleep(Math.min((error.retryAfter ?? 0) + backoff, rest), signal);
    }
  }
}

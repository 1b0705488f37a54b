import { request, type IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import type { ReadableStream as NodeStream } from "node:stream/web";

/**
 * A fetch over a unix socket, for Node: `new Fleetpace({ fetch: unixFetch("/run/fleetpace.sock") })`.
 * The path may begin with unix:. Redirects are not followed.
 */
export function unixFetch(path: string): (input: string | URL | Request, init?: RequestInit) => Promise<Response> {
  const socketPath = path.replace(/^unix:(\/\/)?/, "");
  return async (input, init) => {
    const asked = new Request(input, init);
    const { pathname, search } = new URL(asked.url);
    const body = Buffer.from(await asked.arrayBuffer());
    const headers = { ...Object.fromEntries(asked.headers), ...(body.length > 0 && { "content-length": body.length }) };
    try {
      const answer = await new Promise<IncomingMessage>((resolve, reject) => {
        const { method, signal } = asked;
        request({ socketPath, path: pathname + search, method, headers, signal, agent: false }, resolve).on("error", reject).end(body);
      });
      return responseOf(answer);
    } catch (cause) {
      asked.signal.throwIfAborted();
      throw new TypeError("fetch failed", { cause });
    }
  };
}

function responseOf(answer: IncomingMessage): Response {
  const { statusCode: status = 0, statusMessage: statusText = "", rawHeaders } = answer;
  const headers = new Headers();
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) headers.append(rawHeaders[i]!, rawHeaders[i + 1]!);
  const empty = [204, 205, 304].includes(status);
  if (empty) answer.resume();
  const body = empty ? null : (Readable.toWeb(answer) as NodeStream as unknown as ReadableStream);
  return new Response(body, { status, statusText, headers });
}

/** What is known of a request to a language model before it is sent. */
export interface Estimate {
  /** Tokens of the prompt: a quarter of the bytes of the request. */
  input: number;
  /** The most tokens that the answer may have, by its max_tokens; 0: the request does not say. */
  most: number;
}

/** What a response says that it used, in tokens. The prompt has input + cacheRead + cacheWrite. */
export interface Usage {
  input: number;
  /** Tokens of the prompt that a cache held. */
  cacheRead: number;
  /** Tokens of the prompt that a cache takes in. */
  cacheWrite: number;
  /** Tokens of the answer. If a stream was cut, at least a quarter of the bytes of its text. */
  output: number;
}

const bytesPerToken = 4;
const mostKept = 4 << 20; // characters of a line or document
const encoder = new TextEncoder();
const last = /^data: ?(\[DONE\]|\{"type": ?"(message_stop|response\.(completed|incomplete))")/;
const text = /"(?:text|content|delta|partial_json|thinking|arguments)": ?"/;

/** Estimates a request by its body, if that is a text or bytes. */
export function estimateOf(body: unknown): Estimate {
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) body = new TextDecoder().decode(body);
  if (typeof body !== "string") return { input: 0, most: 0 };
  const words = jsonOf(body);
  const most = Math.max(...["max_tokens", "max_completion_tokens", "max_output_tokens"].map((name) => count(words?.[name])));
  return { input: tokensOf(bytesOf(body)), most };
}

/** Reads what a response of Anthropic or OpenAI, or of an API like theirs, states of its use, as its bytes pass. */
export class UsageReader {
  /** It says that the call has failed, although its status is a success. */
  failed = false;
  /** The document that says so; empty: none does. */
  failure = "";
  readonly #events: boolean;
  readonly #decoder = new TextDecoder();
  readonly #usage: Usage = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0 };
  #rest = "";
  #text = 0;
  #known = false;
  #ended = false;

  constructor(headers: Headers) {
    this.#events = headers.get("content-type")?.startsWith("text/event-stream") ?? false;
  }

  read(bytes: Uint8Array): void {
    const come = this.#decoder.decode(bytes, { stream: true });
    const lines = this.#events ? come.split("\n") : [come];
    lines[0] = this.#rest + lines[0];
    this.#rest = lines.pop()!; // what is not complete yet
    if (this.#rest.length > mostKept) this.#rest = "";
    for (const line of lines) this.#take(line);
  }

  #take(line: string): void {
    this.#text += bytesOf(textOf(line));
    this.#ended ||= last.test(line);
    this.failed ||= /^event: ?error\b/.test(line);
    if (/"usage": ?\{|"error"/.test(line)) this.#state(line.slice(line.indexOf("{")));
  }

  /** Takes in what a document states. Events repeat counts, which grow. */
  #state(document: string): void {
    const doc = jsonOf(document);
    const fails = (doc?.["type"] as unknown) === "error" || [doc, doc?.["message"], doc?.["response"]].some((x) => (x?.["error"] ?? x?.["errors"]) != null);
    if (fails) [this.failed, this.failure] = [true, document];
    const stated = doc?.["usage"] ?? doc?.["message"]?.["usage"] ?? doc?.["response"]?.["usage"];
    if (!stated) return;
    const input = stated["input_tokens"] ?? stated["prompt_tokens"];
    const parts = stated["input_tokens_details"] ?? stated["prompt_tokens_details"]; // of the input
    const [cached, written] = [count(parts?.["cached_tokens"]), count(parts?.["cache_write_tokens"])];
    const raise = (name: keyof Usage, tokens: number) => (this.#usage[name] = Math.max(this.#usage[name], tokens));
    raise("input", count(input) - cached - written);
    raise("cacheRead", count(stated["cache_read_input_tokens"]) + cached);
    raise("cacheWrite", count(stated["cache_creation_input_tokens"]) + written);
    raise("output", count(stated["output_tokens"] ?? stated["completion_tokens"]));
    this.#known ||= typeof input === "number";
  }

  /** What was stated when no more bytes come; undefined: the tokens of the prompt were not. */
  end(): Usage | undefined {
    if (!this.#events) this.#state(this.#rest);
    if (!this.#known) return undefined;
    return { ...this.#usage, output: Math.max(this.#usage.output, this.#ended ? 0 : tokensOf(this.#text)) };
  }
}

/** The text that a line brings, as it stands there. It takes time that grows with the length of the line. */
function textOf(line: string): string {
  const found = text.exec(line);
  if (!found) return "";
  const rest = line.slice(found.index + found[0].length);
  const end = rest.replaceAll("\\\\", "__").replaceAll('\\"', "__").indexOf('"');
  return end < 0 ? rest : rest.slice(0, end);
}

type Json = { [name: string]: Json } | undefined;

function jsonOf(text: string): Json {
  try {
    return (JSON.parse(text) ?? undefined) as Json;
  } catch {
    return undefined;
  }
}

function count(number: unknown): number {
  return typeof number === "number" && number > 0 ? number : 0;
}

const bytesOf = (text: string): number => encoder.encode(text).length;
const tokensOf = (bytes: number): number => Math.ceil(bytes / bytesPerToken);

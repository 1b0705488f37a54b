import { type Body, numberIn } from "./connection.js";

const enough = 5; // answers, before the fastest of them says how long the way is at the least
const latest = 20;

/** How long answers of a server take on their way. All is in ms of now(). */
export class Ways {
  readonly #both: number[] = []; // of the latest requests and their answers together

  /** How long an answer is on its way at the least, as far as is known. */
  get least(): number {
    return this.#both.length < enough ? 0 : Math.min(...this.#both) / 2;
  }

  /** Notes how long a request and its answer were on their way. */
  heard(both: number): number {
    this.#both.push(both);
    if (this.#both.length > latest) this.#both.shift();
    return both;
  }
}

/** When a turn may be used: not before from, nor after until. An older server does not say. */
export function useOf(body: Body, sent: number, heard: number, least: number): { from: number; until: number } {
  if (body["usable_ms"] === undefined) return { from: 0, until: Infinity };
  const from = numberIn(body, "due_ms") === 0 ? 0 : heard + numberIn(body, "due_ms") - least;
  return { from, until: sent + numberIn(body, "held_ms") + numberIn(body, "usable_ms") + least };
}

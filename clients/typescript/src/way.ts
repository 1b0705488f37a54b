import { type Body, numberIn } from "./connection.js";

const enough = 5; // responses, before the fastest one counts as the shortest time to arrive
const latest = 20;

/** How long a server's responses take to arrive, in ms of now(). */
export class Ways {
  readonly #both: number[] = []; // round-trip times of the latest requests

  /** The shortest known time that a response takes to arrive. */
  get least(): number {
    return this.#both.length < enough ? 0 : Math.min(...this.#both) / 2;
  }

  /** Records a round-trip time. */
  heard(both: number): number {
    this.#both.push(both);
    if (this.#both.length > latest) this.#both.shift();
    return both;
  }
}

/** When a turn may be used: from `from` until `until`. An older server does not say it. */
export function useOf(body: Body, sent: number, heard: number, least: number): { from: number; until: number } {
  if (body["usable_ms"] === undefined) return { from: 0, until: Infinity };
  const from = numberIn(body, "due_ms") === 0 ? 0 : heard + numberIn(body, "due_ms") - least;
  return { from, until: sent + numberIn(body, "held_ms") + numberIn(body, "usable_ms") + least };
}

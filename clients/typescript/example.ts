// Run it beside a server: fleetpace serve --limits limits.yaml
import { Fleetpace, TooLate } from "fleetpace";
import { pacedFetch } from "fleetpace/fetch";

const client = new Fleetpace();
for (const { name, limit } of await client.limits()) console.log(`${name}: ${limit}`);

const limiter = client.limiter("openai", { flow: "acme" });
const stop = new AbortController();
process.once("SIGTERM", () => stop.abort());

for (let job = 1; job <= 10 && !stop.signal.aborted; job++) {
  try {
    await limiter.turn(async (turn) => console.log(`job ${job} waited ${turn.waitedMs} ms`), { maxWait: 10_000, signal: stop.signal });
  } catch (error) {
    if (!(error instanceof TooLate)) throw error;
    console.log(`job ${job} comes back in ${error.retryAfter} ms`);
  }
}

const paced = pacedFetch(limiter);
console.log((await paced("http://localhost:9467/healthz")).status);

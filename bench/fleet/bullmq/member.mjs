// BullMQ as its documentation uses it: a Worker with a limiter, or a Queue that gets jobs. The setup is
// one line of JSON on stdin; the end of stdin is the end.
import { createInterface } from "node:readline";
import { Queue, Worker } from "bullmq";

const input = createInterface({ input: process.stdin });
const setup = await new Promise((told) => input.once("line", (line) => told(JSON.parse(line))));
const [host, port] = setup.Redis.split(":");
const connection = { host, port: Number(port), maxRetriesPerRequest: null };

if (process.argv[2] === "add") {
  const queue = new Queue("calls", { connection });
  for (let from = 0; from < setup.Jobs; from += 500) {
    const length = Math.min(500, setup.Jobs - from);
    await queue.addBulk(Array.from({ length }, () => ({ name: "call", data: {}, opts: { attempts: 1000 } })));
  }
  process.exit(0);
}

const work = async () => {
  const response = await fetch(`${setup.API}/${setup.Limits[0].Name}`, { method: "POST" });
  if (!response.ok) throw new Error(`the API answered ${response.status}`);
  await new Promise((resolve) => setTimeout(resolve, 5));
};
// Its limiter counts in windows: one has as many calls as the burst that limiters get.
const limiter = { max: setup.Burst, duration: (1000 * setup.Burst) / setup.Rate };
const worker = new Worker("calls", work, { connection, concurrency: setup.Handlers, limiter });
worker.on("error", () => {});
await worker.waitUntilReady();
console.log(JSON.stringify("ready"));
input.on("close", () => process.exit(0));

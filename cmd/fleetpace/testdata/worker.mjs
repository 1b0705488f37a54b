// Calls an API in its turns: worker.mjs CLIENT SERVER API CALLERS SECONDS. Prints how many calls
// it made.
const [dist, server, api, callers, seconds] = process.argv.slice(2);
const { Fleetpace } = await import(`${dist}/index.js`);

const limiter = new Fleetpace({ url: server }).limiter("api");
const end = performance.now() + seconds * 1000;
let calls = 0;

async function work() {
  while (performance.now() < end) {
    await limiter.wait();
    if (performance.now() < end) {
      await (await fetch(api)).text();
      calls++;
    }
  }
}

await Promise.all(Array.from({ length: Number(callers) }, work));
console.log(calls);

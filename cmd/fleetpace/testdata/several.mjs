// Calls an API in its turns of all limits: several.mjs CLIENT SERVER API CALLERS BEGIN SECONDS. Prints how often it lost slots.
const [dist, server, api, callers, begin, seconds] = process.argv.slice(2);
const { Fleetpace } = await import(`${dist}/index.js`);

const client = new Fleetpace({ url: server });
await new Promise((begins) => setTimeout(begins, begin * 1000 - Date.now()));
const end = performance.now() + seconds * 1000;
let lost = 0;

async function work(limits) {
  const limiter = client.limiter(limits.split("+").map((name) => ({ name })));
  while (performance.now() < end) {
    await limiter.turn(async (turn) => {
      await (await fetch(`${api}/${limits}`)).text();
      if (turn.lost.aborted) lost++;
    });
  }
}

const names = ["paced", "quota", "rolling", "warm", "slots", "rate+some"];
await Promise.all(names.flatMap((name) => Array.from({ length: Number(callers) }, () => work(name))));
console.log(lost);

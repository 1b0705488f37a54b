// Makes one call by fetch, which probes a hard stop: probe.mjs CLIENT SERVER API.
const [dist, server, api] = process.argv.slice(2);
const { Fleetpace } = await import(`${dist}/index.js`);
const { pacedFetch } = await import(`${dist}/fetch.js`);
const fail = (error) => {
  throw error;
};
const answer = await pacedFetch(new Fleetpace({ url: server }).limiter("api"), undefined, { onError: fail })(api);
if (!answer.ok) throw new Error(`${answer.status}`);
await answer.text();

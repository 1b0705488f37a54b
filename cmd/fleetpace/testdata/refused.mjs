// Makes one call by the SDK of Anthropic, which repeats it: refused.mjs CLIENT SERVER API. Prints the last status.
import { createRequire } from "node:module";

const [dist, server, api] = process.argv.slice(2);
const require = createRequire(`${dist}/index.js`);
const { Fleetpace } = await import(`${dist}/index.js`);
const { pacedFetch } = await import(`${dist}/fetch.js`);
const onError = (error) => {
  throw error;
};
const fetch = pacedFetch(new Fleetpace({ url: server }).limiter("api"), undefined, { api: "anthropic", onError });
const claude = new (require("@anthropic-ai/sdk").Anthropic)({ apiKey: "none", baseURL: api, fetch });
const call = claude.messages.create({ model: "m", max_tokens: 10, messages: [{ role: "user", content: "x" }] });
console.log(await call.then(() => 200, (error) => error.status));

// Agents stream from a model by the SDK of its provider: models.mjs CLIENT PROVIDER SERVER API AGENTS SECONDS PROMPT.
// Prints how many calls were served and how many failed.
import { setMaxListeners } from "node:events";
import { createRequire } from "node:module";

const [dist, provider, server, api, agents, seconds, prompt] = process.argv.slice(2);
const require = createRequire(`${dist}/index.js`);
const { Fleetpace } = await import(`${dist}/index.js`);
const { pacedFetch } = await import(`${dist}/fetch.js`);

const client = new Fleetpace({ url: server });
const limiter = (...names) => client.limiter(names.map((name) => ({ name })));
const messages = [{ role: "user", content: "x".repeat(Number(prompt)) }];
const signal = AbortSignal.timeout(seconds * 1000);
setMaxListeners(0, signal); // one for each agent
let [served, failed] = [0, 0];

const calls = {
  anthropic: () => {
    const fetch = pacedFetch(limiter("requests", "input", "output"), undefined, {
      api: "anthropic",
      cost: ({ input, most }) => [1, input, most],
      used: ({ input, cacheWrite, output }) => [1, input + cacheWrite, output],
      onError: (error) => signal.aborted || console.error(error),
    });
    const claude = new (require("@anthropic-ai/sdk").Anthropic)({ apiKey: "none", baseURL: api, fetch });
    return () => claude.messages.stream({ model: "m", max_tokens: 1000, messages }, { signal }).finalMessage();
  },
  openai: () => {
    const fetch = pacedFetch(limiter("requests", "tokens"), undefined, { api: "openai", cost: ({ input, most }) => [1, Math.max(input, most)] });
    const gpt = new (require("openai").OpenAI)({ apiKey: "none", baseURL: `${api}/v1`, fetch });
    return async () => {
      for await (const _ of await gpt.chat.completions.create({ model: "m", max_tokens: 1000, stream: true, messages }, { signal }));
    };
  },
};

const call = calls[provider]();
async function agent() {
  while (!signal.aborted) {
    try {
      await call();
      served++;
    } catch (error) {
      if (signal.aborted) return;
      failed++;
      console.error(error);
    }
  }
}

await Promise.all(Array.from({ length: Number(agents) }, agent));
console.log(served, failed);
process.exit();

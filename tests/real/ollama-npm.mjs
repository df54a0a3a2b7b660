// The checks of `clients` with dialect ollama-npm: the real JavaScript SDK. Started by `clients`, not by hand.
// Arguments: the folder that holds node_modules, and the options as JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [, , prefix, json] = process.argv;
const o = JSON.parse(json);
const sdk = createRequire(pathToFileURL(prefix + "/node_modules/")).resolve("ollama");
const { Ollama } = await import(pathToFileURL(sdk));

const make = () => new Ollama({
  host: o.base,
  fetch: (url, init = {}) => fetch(url, { signal: AbortSignal.timeout(o.timeout * 1000), ...init }),
});
const ollama = make();
const messages = [{ role: "user", content: "Write one sentence about the sea." }];
const options = { num_predict: o.tokens, temperature: 0 };
let model = o.model;

function need(condition, message) {
  if (!condition) throw new Error(message);
}

async function gather(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  need(parts.at(-1)?.done === true, "no done:true at the end");
  return parts;
}

const checks = {
  version: async () => (await ollama.version()).version,
  list: async () => {
    const names = (await ollama.list()).models.map((m) => m.model);
    need(names.length > 0, "the list is empty");
    model ??= names[0];
    need(names.includes(model) || names.includes(model + ":latest"), `${model} not in ${names}`);
    return `${names.length} models: ${names}`;
  },
  ps: async () => `${(await ollama.ps()).models.length} running`,
  show: async () => `capabilities ${(await ollama.show({ model })).capabilities}`,
  chat: async () => {
    const r = await ollama.chat({ model, messages, options });
    need(r.message.content && r.done, "no content or not done");
    return JSON.stringify(r.message.content);
  },
  stream: async () => {
    const parts = await gather(await ollama.chat({ model, messages, options, stream: true }));
    const text = parts.filter((p) => p.message.content);
    need(text.length > 1, `${text.length} chunks with content`);
    need(parts.at(-1).eval_count > 0, "no eval_count");
    return `${text.length} chunks, eval_count ${parts.at(-1).eval_count}`;
  },
  generate: async () => {
    const parts = await gather(await ollama.generate({ model, prompt: "The sea is", options, stream: true }));
    return JSON.stringify(parts.map((p) => p.response).join(""));
  },
  embeddings: async () => {
    const r = await ollama.embed({ model: o.embed ?? model, input: ["a", "b"] });
    need(r.embeddings.length === 2 && r.embeddings[0].length > 1, "not two vectors");
    return `${r.embeddings[0].length} numbers`;
  },
  abort: async () => {
    // A client that leaves in the middle, and the next request on a fresh one.
    const leaving = make();
    const stream = await leaving.chat({ model, messages, options: { num_predict: 500 }, stream: true });
    let seen = 0;
    try {
      for await (const _ of stream) if (++seen === 2) leaving.abort();
      throw new Error("the stream went on to its end");
    } catch (e) {
      need(e.name === "AbortError", `${e.name}: ${e.message}`);
    }
    const r = await ollama.chat({ model, messages, options });
    need(r.done, "no answer afterwards");
    return `left after ${seen} chunks`;
  },
  "unknown-model": async () => {
    try {
      await ollama.chat({ model: "no-such-model-xyz", messages });
    } catch (e) {
      const readable = typeof e.message === "string" && e.message.includes(" ") && !/^\s*[{<[]/.test(e.message);
      need(readable, `no readable message: ${e.message}`);
      return `status ${e.status_code}: ${e.message}`;
    }
    throw new Error("no error for a model that does not exist");
  },
};

for (const [name, check] of Object.entries(checks)) {
  const full = `ollama-npm.${name}`;
  const named = (list) => list.includes(name) || list.includes(full);
  if (named(o.skip) || (o.only.length > 0 && !named(o.only))) {
    console.log(`SKIP ollama-npm ${name} 0.00 by option`);
    continue;
  }
  const started = performance.now();
  let verdict = "PASS";
  let detail;
  try {
    detail = await check();
  } catch (e) {
    verdict = "FAIL";
    detail = `${e.name}: ${e.message}`;
  }
  const seconds = ((performance.now() - started) / 1000).toFixed(2);
  console.log(`${verdict} ollama-npm ${name} ${seconds} ${String(detail).split(/\s+/).join(" ").slice(0, 220)}`);
}

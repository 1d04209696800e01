// `@langchain/langgraph-sdk` against `baton serve`: `client.mjs URL`.
import assert from "node:assert/strict";
import { Client } from "@langchain/langgraph-sdk";

const client = new Client({ apiUrl: process.argv[2] });
const asks = (content) => ({ messages: [{ role: "user", content }] });
const all = async (stream) => {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
};

const tests = {
  async assistants() {
    const found = await client.assistants.search({ limit: 100 });
    assert(found.some((one) => one.graph_id === "direct"));
    assert((await client.assistants.getGraph("direct")).nodes.length > 1);
  },
  async runs() {
    const { thread_id } = await client.threads.create();
    const values = await client.runs.wait(thread_id, "direct", { input: asks("what are tides?") });
    assert.match(values.messages.at(-1).content, /moon/);
    const events = await all(client.runs.stream(thread_id, "direct", { input: asks("and now?"), streamMode: ["values", "updates", "messages-tuple"] }));
    const names = new Set(events.map((event) => event.event));
    for (const name of ["metadata", "values", "updates", "messages"]) assert(names.has(name), `${name} is missing: ${[...names]}`);
    const state = await client.threads.getState(thread_id);
    assert.equal(state.values.messages.length, 4);
    assert((await client.threads.getHistory(thread_id, { limit: 20 })).length >= 4);
  },
  async errors() {
    await assert.rejects(client.runs.wait(null, "nobody", { input: asks("x") }), /422/);
    await assert.rejects(client.threads.get("00000000-0000-4000-8000-000000000000"), /404/);
    const events = await all(client.runs.stream(null, "direct", { input: asks("fail") }));
    assert(events.some((event) => event.event === "error" && /nobody thinks/.test(event.data.message)), JSON.stringify(events));
  },
  async interrupts() {
    const { thread_id } = await client.threads.create();
    const asked = await client.runs.wait(thread_id, "research", { input: { question: "what are tides?", approve: true } });
    assert.match(asked.__interrupt__[0].value.question, /May I answer/);
    const values = await client.runs.wait(thread_id, "research", { command: { resume: { approve: true } } });
    assert.match(values.answer, /moon/);
  },
  async breakpoints() {
    const { thread_id } = await client.threads.create();
    const input = { question: "what are tides?" };
    const paused = await client.runs.wait(thread_id, "research", { input, interruptBefore: ["look_up"] });
    assert.equal(paused.__interrupt__, undefined);
    const state = await client.threads.getState(thread_id);
    assert.deepEqual(state.next, ["look_up"]);
    assert.equal((await client.threads.get(thread_id)).status, "interrupted");
    assert.match((await client.runs.wait(thread_id, "research", { input: null })).answer, /moon/);
  },
  async reconnects() {
    const { thread_id } = await client.threads.create();
    const run = await client.runs.create(thread_id, "research", { input: { question: "tides?" }, streamResumable: true });
    const whole = await all(client.runs.joinStream(thread_id, run.run_id, { streamMode: ["updates"], lastEventId: "-1" }));
    const cut = whole.findIndex((event) => event.event === "updates");
    const rest = await all(client.runs.joinStream(thread_id, run.run_id, { streamMode: ["updates"], lastEventId: whole[cut].id }));
    assert.deepEqual(rest.map((event) => event.data), whole.slice(cut + 1).map((event) => event.data));
  },
  async goes() {
    const { thread_id } = await client.threads.create();
    const asked = await client.runs.wait(thread_id, "research", { input: { question: "what are tides?", approve: true } });
    assert(asked.__interrupt__);
    assert.match((await client.runs.wait(thread_id, "research", { command: { goto: "answer" } })).answer, /moon/);
    await assert.rejects(client.runs.wait(thread_id, "research", { command: { goto: "nowhere" } }), /look_up/);
    const { nodes } = await client.assistants.getGraph("report", { xray: true });
    assert(nodes.some((node) => String(node.id).startsWith("sections:")), JSON.stringify(nodes));
  },
  async threadStream() {
    const { thread_id } = await client.threads.create();
    await client.runs.wait(thread_id, "direct", { input: asks("what are tides?") });
    const events = [];
    // The stream goes on with the next run of the thread, so it has to be closed.
    const closing = new AbortController();
    for await (const event of client.threads.joinStream(thread_id, { lastEventId: "-1", signal: closing.signal })) {
      events.push(event);
      if (event.data?.status === "run_done") break;
    }
    closing.abort();
    assert.match(events.filter((event) => event.event === "values").at(-1).data.messages.at(-1).content, /moon/);
  },
  async cancel() {
    const { thread_id } = await client.threads.create();
    const run = await client.runs.create(thread_id, "direct", { input: asks("slow") });
    await client.runs.cancel(thread_id, run.run_id, true);
    assert.equal((await client.runs.get(thread_id, run.run_id)).status, "interrupted");
  },
  async store() {
    await client.store.putItem(["memories", "js"], "k", { likes: "tides" });
    assert.deepEqual((await client.store.getItem(["memories", "js"], "k")).value, { likes: "tides" });
    await client.store.deleteItem(["memories", "js"], "k");
  },
};

for (const [name, test] of Object.entries(tests)) {
  await test();
  console.log("ok", name);
}

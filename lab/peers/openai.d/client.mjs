// OpenAI's SDK from npm and AG-UI's client, against a server that sdk.py started: `client.mjs URL TOKEN`.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { HttpAgent } from "@ag-ui/client";

const [url, token] = process.argv.slice(2);
// Libraries warn of forms that they only still accept.
const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: token, maxRetries: 0 });
const all = async (stream) => {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
};
const user = (content) => [{ role: "user", content }];
const weather = { name: "get_weather", description: "Weather", parameters: { type: "object", required: ["city"], properties: { city: { type: "string" } } } };

const tests = {
  async jsModels() {
    const names = [];
    for await (const model of client.models.list()) names.push(model.id);
    assert(names.includes("direct"), names);
    await assert.rejects(client.chat.completions.create({ model: "gpt-4o", messages: user("hi") }), (error) => error instanceof OpenAI.NotFoundError && error.code === "model_not_found");
  },
  async jsChat() {
    const done = await client.chat.completions.create({ model: "direct", messages: user("what are tides?") });
    assert.match(done.choices[0].message.content, /^Tides are caused by the moon/);
    const runner = client.chat.completions.stream({ model: "direct", messages: user("what are tides?") });
    assert.match(await runner.finalContent(), /^Tides are caused by the moon/);
  },
  async jsTools() {
    // The SDK performs the function and sends its result back by itself.
    const runner = client.chat.completions.runTools({
      model: "direct",
      messages: user("the weather in Paris?"),
      tools: [{ type: "function", function: { ...weather, parse: JSON.parse, function: ({ city }) => (city === "Paris" ? "22 C" : "?") } }],
    });
    assert.equal(await runner.finalContent(), "It is 22 C in Paris.");
  },
  async jsResponses() {
    const first = await client.responses.create({ model: "direct", input: "my name is Ada" });
    const second = await client.responses.create({ model: "direct", input: "what is my name?", previous_response_id: first.id });
    assert.equal(second.output_text, "Your name is Ada.");
    const events = await all(await client.responses.create({ model: "direct", input: "what are tides?", stream: true }));
    assert.equal(events.at(-1).type, "response.completed");
    const going = await client.responses.create({ model: "search", input: "slow tides", background: true });
    assert.equal((await client.responses.cancel(going.id)).status, "cancelled");
  },
  async jsErrors() {
    const failing = { model: "direct", messages: user("this fails") };
    await assert.rejects(client.chat.completions.create(failing), (error) => error instanceof OpenAI.InternalServerError && error.message.includes("nobody thinks"));
    await assert.rejects(all(await client.chat.completions.create({ ...failing, stream: true })), (error) => error instanceof OpenAI.APIError && error.message.includes("nobody thinks"));
    const stranger = new OpenAI({ baseURL: `${url}/v1`, apiKey: "wrong", maxRetries: 0 });
    await assert.rejects(stranger.models.list(), (error) => error instanceof OpenAI.AuthenticationError && error.code === "invalid_api_key");
  },
  async jsQuestion() {
    const asked = await client.responses.create({ model: "research", input: "what are tides?", baton: { approve: true } });
    assert.match(asked.output_text, /May I answer/);
    const answered = await client.responses.create({ model: "research", input: "yes", previous_response_id: asked.id });
    assert.match(answered.output_text, /moon/);
  },
  async jsReconnect() {
    const stream = await client.responses.create({ model: "direct", input: "what are tides?", stream: true });
    const first = [];
    // The connection is closed in the middle; the run goes on.
    for await (const event of stream) {
      first.push(event);
      if (event.type === "response.output_text.delta") break;
    }
    const rest = await all(await client.responses.retrieve(first[0].response.id, { stream: true, starting_after: first.at(-1).sequence_number }));
    assert.deepEqual(rest.map((event) => event.sequence_number), rest.map((_, at) => first.length + at));
    assert.equal(rest.at(-1).type, "response.completed");
    const text = [...first, ...rest].filter((event) => event.type === "response.output_text.delta").map((event) => event.delta).join("");
    assert.equal(text, rest.at(-1).response.output[0].content[0].text);
  },
  async aguiAnswer() {
    const { events, agent } = await agui("direct", "what are tides?");
    const kinds = events.map((event) => event.type);
    assert.equal(kinds[0], "RUN_STARTED");
    assert.deepEqual(kinds.slice(-2), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
    for (const kind of ["STATE_SNAPSHOT", "STEP_STARTED", "STEP_FINISHED", "TEXT_MESSAGE_START"]) assert(kinds.includes(kind), `${kind}: ${kinds}`);
    assert(kinds.filter((kind) => kind === "TEXT_MESSAGE_CONTENT").length > 3, kinds);
    assert.match(agent.messages.at(-1).content, /^Tides are caused by the moon/);
    assert.equal(events.at(-1).outcome.type, "success");
  },
  async aguiTools() {
    const { events, agent } = await agui("search", "what are tides?");
    const of = (kind) => events.filter((event) => event.type === kind);
    assert(of("TOOL_CALL_RESULT").some((event) => event.content.includes("moon")), JSON.stringify(events));
    assert(of("STATE_DELTA").length > 0);
    assert.equal(agent.state.sources[0].address, "https://sea.example/tides");
    const handed = await agui("direct", "the weather in Paris?", { tools: [weather] });
    const call = handed.agent.messages.at(-1).toolCalls[0];
    assert.equal(call.function.name, "get_weather");
    handed.agent.addMessage({ id: "result", role: "tool", toolCallId: call.id, content: "22 C" });
    await handed.agent.runAgent({ tools: [weather] });
    assert.equal(handed.agent.messages.at(-1).content, "It is 22 C in Paris.");
  },
  async aguiQuestion() {
    const asked = await agui("research", "what are tides?", { forwardedProps: { baton: { approve: true } } });
    const outcome = asked.events.at(-1).outcome;
    assert.equal(outcome.type, "interrupt");
    const [interrupt] = outcome.interrupts;
    assert(interrupt.message.includes("May I answer") && interrupt.responseSchema.properties.approve, JSON.stringify(interrupt));
    const resume = [{ interruptId: interrupt.id, status: "resolved", payload: { approve: true } }];
    await asked.agent.runAgent({ resume });
    const answered = asked.agent.messages.some((message) => message.role === "assistant" && message.content?.includes("moon"));
    assert(answered, JSON.stringify(asked.agent.messages));
  },
  async aguiErrors() {
    const failed = await agui("direct", "this fails").catch((error) => ({ error }));
    const words = failed.error ? String(failed.error) : JSON.stringify(failed.events.at(-1));
    assert(words.includes("nobody thinks"), words);
    const unknown = await fetch(`${url}/ag-ui/nothing`, { method: "POST", headers: { authorization: `Bearer ${token}`, "content-type": "application/json" }, body: JSON.stringify({ threadId: "t", runId: "r", messages: [], tools: [], context: [] }) });
    assert.equal(unknown.status, 404);
    assert.equal((await unknown.json()).type, "RUN_ERROR");
  },
  async aguiCancel() {
    const agent = newAgent("search");
    agent.addMessage({ id: "1", role: "user", content: "slow tides" });
    let run;
    const going = agent.runAgent({}, { onStateSnapshotEvent: ({ event }) => { run = event.snapshot.run; setTimeout(() => agent.abortRun(), 50); } }).catch(() => {});
    await going;
    const get = async () => (await (await fetch(`${url}/api/runs/${run}`, { headers: { authorization: `Bearer ${token}` } })).json()).status;
    for (let look = 0; look < 200 && (await get()) !== "cancelled"; look += 1) await new Promise((done) => setTimeout(done, 50));
    assert.equal(await get(), "cancelled");
  },
};

function newAgent(flow) {
  return new HttpAgent({ url: `${url}/ag-ui/${flow}`, headers: { authorization: `Bearer ${token}` } });
}

async function agui(flow, question, more = {}) {
  const agent = newAgent(flow);
  agent.addMessage({ id: "1", role: "user", content: question });
  const events = [];
  await agent.runAgent(more, { onEvent: ({ event }) => { events.push(event); } });
  return { events, agent };
}

for (const [name, test] of Object.entries(tests)) {
  await test();
  console.log("ok", name);
}
assert.deepEqual(warnings, []);

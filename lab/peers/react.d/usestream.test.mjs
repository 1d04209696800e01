// `useStream` of `@langchain/langgraph-sdk` in Chromium, over a real `baton serve`: the component of guide/src/langgraph.md sends, streams, asks, takes a stream up again and stops.
import assert from "node:assert/strict";
import fs from "node:fs";
import { after, before, test } from "node:test";
import { open, WAIT_MS } from "../../browser/harness.mjs";
import { openSite } from "./site.mjs";

const TOKEN = "a token for this test";
const guide = fs.readFileSync(new URL("../../../guide/src/langgraph.md", import.meta.url), "utf8");
/// Long enough for a browser on a busy machine.
const SLOW = `when model answer text~leisurely reply "Slowly: tides are caused by the moon." after 12s
when model answer text~endless reply "never" after 300s
`;
const script = `${SLOW}${fs.readFileSync(new URL("../langgraph.d/agent.script", import.meta.url), "utf8")}`;
const [component] = guide.match(/(?<=^```jsx\n).*?(?=^```$)/ms) ?? assert.fail("guide/src/langgraph.md has no React component");

/// The guide's component, and one for a flow with an input of its own that asks before it answers.
const entry = `
import { createRoot } from "react-dom/client";
${component}
function Research({ apiUrl, apiKey }) {
  const stream = useStream({ apiUrl, apiKey, assistantId: "research" });
  return <div>
    <button onClick={() => stream.submit({ question: "what are tides?", approve: true })}>Research</button>
    {stream.interrupt && <button onClick={() => stream.submit(undefined, { command: { resume: { approve: true } } })}>Agree: {stream.interrupt.value.question}</button>}
    <p id="answer">{stream.values.answer}</p>
    <p id="state">{stream.isLoading ? "working" : "idle"}</p>
  </div>;
}
const Page = location.hash === "#research" ? Research : Chat;
createRoot(document.getElementById("root")).render(<Page apiUrl={location.origin + "/baton"} apiKey=${JSON.stringify(TOKEN)} />);
`;

let harness, site, context;
before(async () => {
  harness = await open({ script, token: TOKEN });
  site = await openSite({ modules: process.env.BATON_REACT_MODULES, target: harness.url, entry });
  context = await harness.browser.newContext();
});
after(async () => {
  await site?.close();
  await harness?.close();
});

async function page(hash = "") {
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  page.on("pageerror", (error) => assert.fail(error));
  await page.goto(`${site.url}/${hash}`);
  return page;
}

async function ask(page, question) {
  await page.getByLabel("Question").fill(question);
  await page.getByRole("button", { name: "Ask" }).click();
}

const api = async (where) => (await fetch(harness.url + where, { headers: { authorization: `Bearer ${TOKEN}` } })).json();
const threadOf = (page) => page.evaluate(() => sessionStorage.getItem("thread"));

test("a question is sent, its answer streamed, and the conversation goes on", async () => {
  const chat = await page();
  await ask(chat, "what are tides?");
  await chat.locator("p.ai").filter({ hasText: "caused by the moon" }).waitFor();
  await chat.getByRole("button", { name: "Ask" }).waitFor();
  await ask(chat, "and now?");
  await chat.locator("p.ai").nth(1).waitFor();
  await chat.getByRole("button", { name: "Ask" }).waitFor();
  assert.deepEqual(await chat.locator("p").evaluateAll((all) => all.map((one) => one.className)), ["human", "ai", "human", "ai"]);
  // After a reload, the page shows the thread.
  await chat.reload();
  await chat.locator("p.ai").nth(1).waitFor();
  await chat.close();
});

test("a failure is shown in words", async () => {
  const chat = await page();
  await ask(chat, "this must fail");
  await chat.getByRole("alert").filter({ hasText: "nobody thinks" }).waitFor();
  await chat.close();
});

test("a question of the flow is an interrupt, and its answer resumes the run", async () => {
  const research = await page("#research");
  await research.getByRole("button", { name: "Research" }).click();
  await research.getByRole("button", { name: /Agree: .*May I answer/s }).click();
  await research.locator("#answer").filter({ hasText: "moon" }).waitFor();
  await research.locator("#state").filter({ hasText: "idle" }).waitFor();
  await research.close();
});

test("a stream is taken up again after the page was loaded anew", async () => {
  const chat = await page();
  await ask(chat, "leisurely tides, please");
  await chat.getByRole("button", { name: "Stop" }).waitFor();
  await chat.waitForFunction(() => Object.keys(sessionStorage).some((name) => name.startsWith("lg:stream:")));
  const thread = await threadOf(chat);
  const before = site.requests.length;
  await chat.reload();
  await chat.locator("p.ai").filter({ hasText: "Slowly: tides are caused by the moon." }).waitFor();
  await chat.getByRole("button", { name: "Ask" }).waitFor();
  const since = site.requests.slice(before);
  assert.ok(since.some((one) => /^GET \/threads\/[^/]+\/runs\/[^/]+\/stream$/.test(one)), since.join(", "));
  assert.ok(!since.some((one) => one.startsWith("POST") && one.endsWith("/runs/stream")), `nothing was asked again: ${since.join(", ")}`);
  assert.equal((await api(`/threads/${thread}/runs`)).length, 1);
  await chat.close();
});

test("the button stops the run at the server", async () => {
  const chat = await page();
  await ask(chat, "endless tides, please");
  await chat.waitForFunction(() => Object.keys(sessionStorage).some((name) => name.startsWith("lg:stream:")));
  const thread = await threadOf(chat);
  await chat.getByRole("button", { name: "Stop" }).click();
  await chat.getByRole("button", { name: "Ask" }).waitFor();
  let status;
  for (let look = 0; look < 100 && status !== "interrupted"; look += 1) {
    [{ status }] = await api(`/threads/${thread}/runs`);
    await new Promise((done) => setTimeout(done, 100));
  }
  assert.equal(status, "interrupted");
  await chat.close();
});

// A page of CopilotKit in Chromium, over a real `baton serve`: the runtime and the page of guide/src/other-clients.md send, stream, show a failure and stop.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { after, before, test } from "node:test";
import { open, WAIT_MS } from "../../browser/harness.mjs";
import { openSite } from "./site.mjs";

const modules = process.env.BATON_COPILOTKIT_MODULES;
const guide = fs.readFileSync(new URL("../../../guide/src/other-clients.md", import.meta.url), "utf8");
const script = `when model answer text~endless reply "never" after 300s
when model answer text~rhyme reply "Roses are red." after 100ms
${fs.readFileSync(new URL("../openai.d/agent.script", import.meta.url), "utf8")}`;

/// The only block in this language with these words.
function block(language, words) {
  const found = [...guide.matchAll(new RegExp("^```" + language + "\\n(.*?)^```$", "gms"))].map(([, text]) => text).filter((text) => text.includes(words));
  assert.equal(found.length, 1, `guide/src/other-clients.md: ${found.length} ${language} blocks have ${words} in them`);
  return found[0];
}

function replaced(text, old, by) {
  assert.ok(text.includes(old), `${old}: ${text}`);
  return text.replaceAll(old, by);
}

async function freePort() {
  const server = net.createServer().listen(0, "127.0.0.1");
  await new Promise((done) => server.once("listening", done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

/// The runtime of the guide, as a process of its own.
async function openRuntime(baton) {
  const port = await freePort();
  const text = replaced(replaced(block("javascript", "CopilotRuntime"), "http://127.0.0.1:8080", baton), "4000", String(port));
  const file = path.join(modules, "guide-runtime.mjs");
  fs.writeFileSync(file, text);
  const child = spawn(process.execPath, [file], { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, COPILOTKIT_TELEMETRY_DISABLED: "true", DO_NOT_TRACK: "1", NODE_ENV: "production" } });
  let log = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (piece) => (log += piece));
  const url = `http://127.0.0.1:${port}`;
  for (const until = Date.now() + WAIT_MS; ; ) {
    const info = await fetch(`${url}/api/copilotkit/info`).catch(() => null);
    if (info?.ok) return { url, info: await info.json(), close: () => child.kill("SIGKILL") };
    assert.ok(Date.now() < until && child.exitCode === null, `the runtime is not ready: ${log}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

let harness, runtime, site, context;
before(async () => {
  harness = await open({ script });
  runtime = await openRuntime(harness.url);
  const entry = `import { createRoot } from "react-dom/client";\n${block("jsx", "CopilotChat")}\ncreateRoot(document.getElementById("root")).render(<Page />);`;
  site = await openSite({ modules, prefix: "/api/copilotkit", target: runtime.url, entry });
  context = await harness.browser.newContext({ viewport: { width: 1200, height: 900 } });
  // Nothing leaves this machine.
  await context.route((url) => url.hostname !== "127.0.0.1" && url.protocol.startsWith("http"), (route) => route.abort());
});
after(async () => {
  await site?.close();
  runtime?.close();
  await harness?.close();
});

async function openPage() {
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  page.on("pageerror", (error) => assert.fail(error));
  await page.goto(site.url);
  await page.getByTestId("copilot-chat-textarea").waitFor();
  return page;
}

async function ask(page, question) {
  await page.getByTestId("copilot-chat-textarea").fill(question);
  await page.getByTestId("copilot-send-button").click();
}

const answers = (page) => page.getByTestId("copilot-assistant-message");
const runs = async () => (await (await fetch(`${harness.url}/api/runs`)).json()).runs;

async function until(what, isSo) {
  for (const end = Date.now() + WAIT_MS; !(await isSo()); ) {
    assert.ok(Date.now() < end, `never: ${what}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

test("the runtime knows the flow as its agent", () => {
  assert.ok(Object.keys(runtime.info.agents).includes("default"), JSON.stringify(runtime.info));
});

test("a question is answered, and the conversation goes on in one thread", async () => {
  const page = await openPage();
  const run = page.waitForResponse((response) => response.url().endsWith("/agent/default/run"));
  await ask(page, "my name is Ada");
  const events = await (await run).text();
  assert.ok(events.split("TEXT_MESSAGE_CONTENT").length > 4, `the answer is streamed: ${events}`);
  await answers(page).filter({ hasText: "Tides are caused by the moon" }).waitFor();
  await ask(page, "what is my name?");
  await answers(page).filter({ hasText: "Your name is Ada." }).waitFor();
  const threads = new Set((await runs()).map((run) => run.thread));
  assert.equal(threads.size, 1, [...threads].join(", "));
  await page.close();
});

test("a failure is reported, and the next question is answered", async () => {
  const page = await openPage();
  const told = page.waitForEvent("console", { predicate: (message) => message.text().includes("nobody thinks") });
  await ask(page, "this fails");
  await told;
  await ask(page, "a rhyme in verse");
  await answers(page).filter({ hasText: "Roses are red." }).waitFor();
  await page.close();
});

test("the button stops the run at the server", async () => {
  const page = await openPage();
  await ask(page, "endless tides, please");
  await until("the run is at work", async () => (await runs()).some((run) => run.status === "running"));
  await page.getByTestId("copilot-send-button").click();
  await until("the run is stopped", async () => (await runs()).some((run) => run.status === "cancelled"));
  assert.ok(!(await runs()).some((run) => run.status === "running"));
  await page.close();
});

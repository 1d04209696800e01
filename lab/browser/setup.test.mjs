// The settings: keys that are stored and never shown, a model that is tried, MCP servers that are added, what is remembered.
import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { after, before, test } from "node:test";
import { clean } from "./axe.mjs";
import { ask, choose, eventually, get, open, picture } from "./harness.mjs";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

const SECRET = "sk-never-shown-again-12345";

test("a key is stored in a file of the account, listed without its value, and removed", async () => {
  const page = await harness.page({ path: "/#/settings" });
  const form = page.getByRole("form", { name: "Store a key" });
  await form.getByLabel("Name").fill("OPENAI_API_KEY");
  await form.getByLabel("Key").fill(SECRET);
  await form.getByRole("button", { name: "Store" }).click();
  const row = page.locator("li", { hasText: "OPENAI_API_KEY" });
  await row.getByText("stored", { exact: true }).waitFor();
  await eventually(async () => assert.equal(await form.getByLabel("Key").inputValue(), ""));
  const file = path.join(harness.home, "keys", "OPENAI_API_KEY");
  assert.equal(fs.readFileSync(file, "utf8"), SECRET);
  assert.equal(fs.statSync(file).mode & 0o077, 0, "only the account can read it");
  assert.ok(!JSON.stringify(await get(harness, "/api/keys")).includes(SECRET) && !(await page.content()).includes(SECRET) && !harness.log.includes(SECRET));
  await clean(page, "settings");
  await picture(page, "44-settings");
  await page.getByRole("button", { name: "Remove OPENAI_API_KEY" }).click();
  await row.getByText("not set", { exact: true }).waitFor();
  assert.ok(!fs.existsSync(file));
  await form.getByLabel("Name").fill("PATH");
  await form.getByLabel("Key").fill("x");
  await form.getByRole("button", { name: "Store" }).click();
  await page.locator(".notice-bad", { hasText: "not the name of a key" }).waitFor();
  page.troubles = page.troubles.filter((trouble) => !trouble.includes("422"));
});

test("a stored key counts at once: the model is chosen by it, tested and asked, and without it no longer", async () => {
  const own = await open({ config: (url) => `[endpoints.openai]\nurl = "${url}"\ndialect = "openai-chat"\nkey = { env = "OPENAI_API_KEY" }\n\n[embedded]\npull = false\n` });
  try {
    const page = await own.page({ path: "/#/settings" });
    const models = page.locator(".setting", { has: page.getByRole("heading", { name: "Models" }) });
    await models.getByText("no language model was found").waitFor();
    const store = page.getByRole("form", { name: "Store a key" });
    await store.getByLabel("Name").fill("OPENAI_API_KEY");
    await store.getByLabel("Key").fill(SECRET);
    await store.getByRole("button", { name: "Store" }).click();
    await page.locator(".notice", { hasText: "used from now on" }).waitFor();
    await models.getByText("In use: openai/gpt-4.1-mini (a key for it was found, and no model was named).").waitFor();
    const tested = page.getByRole("form", { name: "Test a model" });
    await tested.getByLabel("Test a model").fill("openai/gpt-4.1-mini");
    await tested.getByRole("button", { name: "Test" }).click();
    await tested.getByText(/openai\/gpt-4\.1-mini answered “.+” in/).waitFor();
    const calls = own.model.keys.length;
    await page.locator(".sidebar-new").click();
    await choose(page, "Flow", "direct");
    await ask(page, "What is a relay baton? With a new key.");
    await page.locator(".turn .actions").waitFor();
    assert.ok(own.model.keys.length > calls, "the question was answered by that model");
    assert.deepEqual([...new Set(own.model.keys)], [`Bearer ${SECRET}`]);
    assert.ok(!own.log.includes(SECRET) && !(await page.content()).includes(SECRET));
    await page.goto(`${own.url}/#/settings`);
    await page.getByRole("button", { name: "Remove OPENAI_API_KEY" }).click();
    await models.getByText("no language model was found").waitFor();
    await tested.getByLabel("Test a model").fill("openai/gpt-4.1-mini");
    await tested.getByRole("button", { name: "Test" }).click();
    await tested.getByRole("alert").getByText("store it in the settings").waitFor();
  } finally {
    await own.close();
  }
});

test("a model is tried, and one that does not answer shows the reason", async () => {
  const page = await harness.page({ path: "/#/settings" });
  const form = page.getByRole("form", { name: "Test a model" });
  await form.getByLabel("Test a model").fill("compat/lab/actor");
  await form.getByRole("button", { name: "Test" }).click();
  await form.getByText(/compat\/lab\/actor answered “.+” in/).waitFor();
  await form.getByLabel("Test a model").fill("openai/gpt-4.1-mini");
  await form.getByRole("button", { name: "Test" }).click();
  await form.getByRole("alert").getByText(/OPENAI_API_KEY/).waitFor();
});

test("MCP servers are added by hand and from a pasted mcp.json, and are off", async () => {
  const page = await harness.page({ path: "/#/settings" });
  const form = page.getByRole("form", { name: "Add MCP servers" });
  await form.getByLabel("Name").fill("weather");
  await form.getByLabel("Address").fill("https://weather.example/mcp");
  await form.getByRole("button", { name: "Add" }).click();
  await page.getByText("Added: weather.").waitFor();
  await page.getByLabel("Pasted mcp.json").check();
  await form.getByLabel("mcp.json").fill('{"mcpServers": {"notes": {"command": "npx", "args": ["-y", "notes"]}, "odd": {"url": "ftp://x"}}}');
  await form.getByRole("button", { name: "Add" }).click();
  await page.getByText("Added: notes.").waitFor();
  await page.getByText(/Left out: odd/).waitFor();
  await form.getByLabel("mcp.json").fill("{");
  await form.getByRole("button", { name: "Add" }).click();
  await page.getByText(/That is not JSON/).waitFor();
  const { servers } = await get(harness, "/api/registry/servers");
  const added = servers.filter((server) => ["weather", "notes"].includes(server.name));
  assert.deepEqual(added.map((server) => server.enabled), [false, false]);
});

test("MCP servers are added from a registry, and one that does not answer is named", async () => {
  const list = [{ server: { name: "org.example/tides", remotes: [{ type: "streamable-http", url: "https://tides.example/mcp" }] } }];
  const registry = http.createServer((request, response) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ servers: list, metadata: {} }));
  });
  await new Promise((done) => registry.listen(0, "127.0.0.1", done));
  const address = `http://127.0.0.1:${registry.address().port}`;
  const page = await harness.page({ path: "/#/settings" });
  const form = page.getByRole("form", { name: "Add MCP servers" });
  await page.getByLabel("A registry").check();
  await form.getByLabel("Address of the registry").fill(address);
  await form.getByRole("button", { name: "Add" }).click();
  await page.getByText(/Added: .*tides/).waitFor();
  await clean(page, "servers of a registry");
  const { servers } = await get(harness, "/api/registry/servers");
  assert.deepEqual(servers.filter((server) => server.name.includes("tides")).map((server) => server.enabled), [false]);
  await new Promise((done) => (registry.closeAllConnections(), registry.close(done)));
  await form.getByLabel("Address of the registry").fill(address);
  await form.getByRole("button", { name: "Add" }).click();
  await page.locator(".setting .wrong", { hasText: /127\.0\.0\.1/ }).waitFor();
  page.troubles = page.troubles.filter((trouble) => !/status of (4|5)\d\d|^50\d /.test(trouble));
});

test("what is remembered is listed, and limits are the same as those of the question", async () => {
  const page = await harness.page({ path: "/#/settings" });
  await page.getByRole("region", { name: "Memory" }).getByText("Nothing is remembered.").waitFor();
  await page.getByRole("region", { name: "Limits for each question" }).getByLabel("Calls").fill("7");
  await page.locator(".sidebar-new").click();
  await page.locator(".options-set", { hasText: "7 calls" }).waitFor();
});

// The other sections of the page: documents (dropped, cited), tools (tried, switched off), flows, settings, light and dark.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { clean } from "./axe.mjs";
import { ask, choose, eventually, get, open, picture } from "./harness.mjs";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

test("a file is given, indexed, and deleted again", async () => {
  const page = await harness.page({ path: "/#/documents" });
  page.on("dialog", (dialog) => dialog.accept());
  const text = "# Batons of old\n\nThe oldest relay baton in the museum of Lyon is made of olive wood and weighs 61 grams.\n";
  await page.getByLabel("Files to upload").setInputFiles({ name: "museum.md", mimeType: "text/markdown", buffer: Buffer.from(text) });
  const row = page.locator("tr", { hasText: "museum.md" });
  await row.locator(".stand-indexed").waitFor();
  await page.getByRole("button", { name: "museum.md", exact: true }).click();
  await page.getByRole("dialog", { name: "Contents of the document" }).getByText("olive wood").waitFor();
  await clean(page, "10-documents");
  await picture(page, "10-documents");
  await page.keyboard.press("Escape");
  const { files } = await get(harness, "/api/documents");
  assert.deepEqual(files.map((file) => file.name), ["museum.md"]);
  await page.getByRole("button", { name: "Delete museum.md" }).click();
  await row.waitFor({ state: "detached" });
});

test("what cannot be read is refused in words", async () => {
  const page = await harness.page({ path: "/#/documents" });
  await page.getByLabel("Files to upload").setInputFiles({ name: "program.exe", mimeType: "application/octet-stream", buffer: Buffer.from("MZ\u0000\u0001") });
  const notice = page.locator(".notice-bad");
  await notice.waitFor();
  await eventually(async () => assert.match(await notice.textContent(), /^program\.exe was not uploaded: .{10}/));
  page.troubles = page.troubles.filter((text) => !/status of 4\d\d/.test(text));
});

test("a tool is tried and switched off and on", async () => {
  const page = await harness.page({ path: "/#/tools" });
  const tool = page.locator(".tool", { has: page.locator("strong", { hasText: /^calc\./ }) }).first();
  await tool.waitFor();
  const name = await tool.locator("strong").textContent();
  await tool.getByRole("button", { name: /Try/ }).click();
  await tool.locator("textarea").first().fill("6 * 7");
  await tool.getByRole("button", { name: "Call it" }).click();
  await tool.locator("pre", { hasText: "42" }).waitFor();
  await clean(page, "11-tools");
  await picture(page, "11-tools");
  await tool.getByRole("switch").click();
  await page.locator(".tool", { hasText: name }).locator('[role="switch"][aria-checked="false"]').waitFor();
  const off = await get(harness, `/api/registry/tools/${name}`);
  assert.equal(off.enabled, false);
  await page.getByRole("switch", { name, exact: true }).click();
  await page.locator(".tool", { hasText: name }).locator('[role="switch"][aria-checked="true"]').waitFor();
});

test("flows are drawn, and taken from there", async () => {
  const page = await harness.page({ path: "/#/flows" });
  const flow = page.locator(".flow", { hasText: "synthesize" });
  await flow.waitFor();
  await eventually(async () => assert.ok((await flow.locator(".node").count()) >= 5));
  await clean(page, "12-flows");
  await picture(page, "12-flows");
  await flow.getByRole("button", { name: "Use it" }).click();
  await page.locator(".first").waitFor();
  await eventually(async () => assert.equal(await page.locator(".composer").getByLabel("Flow", { exact: true }).inputValue(), "search"));
});

test("settings: models say how they stand, ask options are kept", async () => {
  const page = await harness.page({ path: "/#/settings" });
  await page.locator(".setting", { hasText: "In use: compat/lab/actor" }).waitFor();
  await eventually(async () => assert.ok((await page.locator(".models li .stand").count()) > 1, "and all others with what they lack"));
  await page.getByLabel("Sentences without support").selectOption({ label: "Removed" });
  await page.locator(".notice", { hasText: "Saved" }).waitFor();
  await clean(page, "13-settings");
  await picture(page, "13-settings");
  assert.equal((await get(harness, "/api/settings")).strict, true);
  await page.reload();
  const kept = page.getByLabel("Sentences without support").locator("option:checked", { hasText: "Removed" });
  await kept.waitFor({ state: "attached" });
  await page.getByLabel("Sentences without support").selectOption({ label: "As set for each question" });
  await page.waitForFunction(async () => !("strict" in (await (await fetch("/api/settings")).json())));
});

test("another model is taken, and an answer that no model wrote is marked", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await page.locator(".composer option", { hasText: /^extract$/ }).waitFor({ state: "attached" });
  await choose(page, "Model", "extract");
  await ask(page, "How heavy is a relay baton, by extraction?");
  await page.locator(".remark", { hasText: "No language model wrote this" }).waitFor();
  await eventually(async () => assert.ok((await page.locator(".sentence-supported").count()) > 0));
});

test("a budget is a limit", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await page.getByRole("button", { name: "Options" }).click();
  await page.getByLabel("Calls").fill("1");
  await ask(page, "How heavy is a relay baton, within a budget?");
  await page.locator(".actions").waitFor();
  const { runs } = await get(harness, "/api/runs?limit=10");
  const run = runs.find((one) => one.title.includes("within a budget"));
  assert.ok(run.spent.calls <= 2, JSON.stringify(run.spent));
});

test("dark by the system, by the switch, and still dark tomorrow", async () => {
  const ground = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await harness.page({ colorScheme: "light" });
  const dark = await harness.page({ colorScheme: "dark" });
  await light.locator(".first").waitFor();
  await clean(light, "1-first");
  await picture(light, "1-first");
  await eventually(async () => assert.notEqual(await ground(light), await ground(dark)));
  await light.getByRole("button", { name: /dark theme/ }).click();
  await eventually(async () => assert.equal(await ground(light), await ground(dark)));
  await light.reload();
  await eventually(async () => assert.equal(await ground(light), await ground(dark)));
  await dark.getByRole("button", { name: /light theme/ }).click();
  await eventually(async () => assert.notEqual(await ground(dark), await ground(light)));
});

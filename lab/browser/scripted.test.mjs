// With scripted effects, which fail on command: visible retries and failures, questions of every kind, an effect in doubt after a crash.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { clean } from "./axe.mjs";
import { ask, choose, events, eventually, get, open, picture, root } from "./harness.mjs";

/// The samples' own world; only the mail takes its time, so that a crash can fall into it.
const SCRIPT = fs.readFileSync(path.join(root, "crates/flows/src/sample/sample.script"), "utf8").replace(/^(when tool mail\.send .*)after 4ms/m, "$1after 3s");

let harness;
before(async () => (harness = await open({ script: SCRIPT })));
after(() => harness.close());

test("attempts and failures are seen in the graph, in the timeline and in the step", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "research");
  await ask(page, "What is a relay baton?");
  await page.locator(".actions").waitFor();
  await page.locator(".work-toggle").click();
  const tried = page.locator(".node", { hasText: "when it came" });
  await eventually(async () => assert.match(await tried.textContent(), /×3/));
  await eventually(async () => assert.equal(await page.locator(".node-failed").count(), 1, "the page that was not found"));
  await eventually(async () => assert.equal(await page.locator(".node", { hasText: "judging the sources" }).count(), 2, "the loop is drawn as it was walked"));
  await eventually(async () => assert.equal(await page.locator(".bar-row", { hasText: "when it came" }).locator(".bar").count(), 3));
  await page.locator(".node-failed").click();
  await page.locator(".drawer .attempt-why", { hasText: "404 not found" }).waitFor();
  await clean(page, "16-failures");
  await picture(page, "16-failures");
});

test("a question of a run is answered with yes", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "research");
  await page.getByRole("button", { name: "Options" }).click();
  await page.getByLabel("Show me the plan first").check();
  await ask(page, "What is a relay baton? Ask me.");
  const asking = page.locator(".asking", { hasText: "May I answer" });
  await asking.waitFor();
  await page.locator(".thread.is-current .stand-asking").waitFor();
  await asking.getByRole("button", { name: "Yes" }).click();
  await page.locator(".answer .prose", { hasText: "whoever holds it runs" }).waitFor();
  await asking.waitFor({ state: "detached" });
});

test("after a crash in the middle of a mail, a person answers whether it was sent", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "team");
  await ask(page, "batons; relays");
  await page.locator(".node-running", { hasText: "mail" }).waitFor();
  for (const other of harness.pages) other.mayLose = true;
  await harness.kill();
  await harness.start();
  const asking = page.locator(".asking", { hasText: "Did this happen?" });
  await asking.waitFor();
  await clean(page, "17-doubt");
  await picture(page, "17-doubt");
  await asking.getByRole("button", { name: "It happened" }).click();
  await page.locator(".actions").waitFor();
  const { runs } = await get(harness, "/api/runs?limit=100");
  const run = runs.find((one) => one.flow === "team");
  assert.equal(run.status, "done");
  const mails = (await events(harness, run.run)).filter((one) => one.event === "asked" && one.effect?.call_tool?.tool === "mail.send");
  assert.equal(mails.length, 1, "and it is not sent again");
});

// Asking, and what may happen in between: text that arrives in pieces, a stop, a server that exits.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { clean } from "./axe.mjs";
import { ask, choose, events, eventually, get, open, picture } from "./harness.mjs";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

const SLOW = "How heavy is a relay baton? Answer slowly, please.";

/// Until the draft has text, and then until it has more.
async function streaming(page) {
  const draft = page.locator(".draft .prose");
  await page.waitForFunction(() => (document.querySelector(".draft .prose")?.textContent.length ?? 0) > 20);
  const before = (await draft.textContent()).length;
  await page.waitForFunction((length) => (document.querySelector(".draft .prose")?.textContent.length ?? 0) > length, before);
}

test("c9_an answer streams, then is checked, under the badge of the flow that gave it", async () => {
  const page = await harness.page();
  await ask(page, SLOW);
  await page.locator(".question", { hasText: "How heavy" }).waitFor();
  await streaming(page);
  await picture(page, "2-streaming");
  await eventually(async () => assert.equal(await page.locator(".sources").count(), 0, "nothing is cited before it is checked"));
  await page.locator(".sources").waitFor();
  await eventually(async () => assert.equal(await page.locator(".draft").count(), 0));
  await eventually(async () => assert.match(await page.locator(".answer .badge").textContent(), /Search/));
  await eventually(async () => assert.equal(await page.locator(".answer .badge svg").count(), 1));
  await eventually(async () => assert.match(await page.locator(".answer .prose").textContent(), /weighs at least 50 grams/));
  await page.locator(".thread.is-current .thread-preview", { hasText: "centimetres long" }).waitFor();
  await page.locator(".work-toggle").click();
  await page.locator(".graph .node-done").first().waitFor();
  await clean(page, "3-answer");
  await picture(page, "3-answer");
  await eventually(async () => assert.ok((await page.locator(".bar-row").count()) >= 4, "a bar for every effect"));
  await page.reload();
  await page.locator(".sources").waitFor();
  await eventually(async () => assert.match(await page.locator(".answer .badge").textContent(), /Search/, "the badge is there tomorrow too"));
});

test("c9_intents have badges of their own", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "chat");
  for (const [question, badge] of [["Who ran the first relay race?", "Search"], ["Summarize", "Summarize"], ["What did we discuss earlier?", "Conversation Query"]]) {
    await ask(page, question);
    await page.locator(".turn").last().locator(".question", { hasText: question }).waitFor();
    await page.locator(".turn").last().locator(".badge", { hasText: badge }).waitFor();
    await page.locator(".turn").last().locator(".actions").waitFor();
  }
  await eventually(async () => assert.equal(await page.locator(".turn").count(), 3));
});

test("x3_a run is stopped and resumed", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await ask(page, `${SLOW} To be stopped.`);
  await streaming(page);
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.locator(".ended", { hasText: "Stopped" }).waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.locator(".sources").waitFor();
  await eventually(async () => assert.equal(await page.locator(".turn").count(), 2, "what was stopped stays as it was"));
  const { runs } = await get(harness, "/api/runs?limit=10");
  const [after] = runs.filter((run) => run.title.includes("To be stopped") && run.status === "done");
  const searches = (await events(harness, after.run)).filter((one) => one.event === "asked" && one.effect.call_tool?.tool === "docs.search");
  assert.ok(searches.length > 0, "its past came with it");
  await eventually(async () => assert.match(await page.locator(".answer .prose").last().textContent(), /weighs at least 50 grams/));
});

test("x3_the server is killed in mid-answer and started again, and the page goes on by itself", async () => {
  const page = await harness.page();
  await page.evaluate(() => (window.isTheSamePage = true));
  await choose(page, "Flow", "search");
  await ask(page, `${SLOW} To be killed.`);
  await streaming(page);
  page.mayLose = true;
  for (const other of harness.pages) other.mayLose = true;
  await harness.kill();
  await page.locator(".line-lost").waitFor();
  await picture(page, "8-connection-lost");
  await harness.start();
  await page.locator(".line-lost").waitFor({ state: "detached" });
  await page.locator(".sources").waitFor();
  await eventually(async () => assert.match(await page.locator(".answer .prose").textContent(), /weighs at least 50 grams/));
  await eventually(async () => assert.equal(await page.evaluate(() => window.isTheSamePage), true, "nobody reloaded it"));
  const { runs } = await get(harness, `/api/runs?limit=100`);
  assert.equal(runs.filter((run) => run.title.includes("To be killed") && !run.parent).length, 1, "and nothing was asked twice");
});

test("a question that is asked while the server is away is asked once it is back", async () => {
  const page = await harness.page();
  for (const other of harness.pages) other.mayLose = true;
  await choose(page, "Flow", "direct");
  // The parts of a conversation are loaded after the page itself.
  await page.waitForFunction(() => performance.getEntriesByType("resource").some((one) => one.name.includes("thread_parts")));
  await page.waitForTimeout(500);
  await harness.kill();
  await ask(page, "What is a relay baton, after all?");
  await page.locator(".question", { hasText: "after all" }).waitFor();
  await harness.start();
  await page.locator(".actions").waitFor();
  await eventually(async () => assert.match(await page.locator(".answer .prose").textContent(), /baton/i));
});

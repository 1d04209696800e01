// Runs that end early: the text that was on the screen stays, a resumed run does not repeat its question, and what is read aloud is true.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { clean } from "./axe.mjs";
import { ask, choose, eventually, open, picture } from "./harness.mjs";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

const SLOW = "How heavy is a relay baton? Answer slowly, please.";
const stop = (page) => page.getByRole("button", { name: "Stop", exact: true });

async function streaming(page, chars = 20) {
  await page.waitForFunction((length) => (document.querySelector(".draft .prose")?.textContent.length ?? 0) > length, chars);
}

for (const flow of ["search", "auto"]) {
  test(`Stop keeps the text that was on the screen, also after a reload, ${flow}`, async () => {
    const page = await harness.page();
    await choose(page, "Flow", flow);
    await ask(page, `${SLOW} Kept in ${flow}.`);
    await streaming(page);
    const shown = (await page.locator(".draft .prose").textContent()).trim();
    await stop(page).click();
    await page.locator(".ended", { hasText: "Stopped" }).waitFor();
    const partial = page.locator(".draft-partial");
    await partial.waitFor();
    await eventually(async () => assert.match(await partial.textContent(), /Incomplete/));
    await eventually(async () => assert.ok((await partial.locator(".prose").textContent()).startsWith(shown), "everything that was shown is still there"));
    await clean(page, "21-stopped");
    await picture(page, "21-stopped");
    await page.reload();
    await partial.waitFor();
    await eventually(async () => assert.ok((await partial.locator(".prose").textContent()).startsWith(shown)));
  });
}

test("a resumed run does not repeat its question, also after a reload", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await ask(page, `${SLOW} To be resumed.`);
  await streaming(page);
  await stop(page).click();
  await page.getByRole("button", { name: "Resume", exact: true }).click();
  await page.locator(".resumed").waitFor();
  await page.locator(".sources").waitFor();
  const check = async () => assert.deepEqual([await page.locator(".turn").count(), await page.locator(".question").count(), await page.locator(".resumed").count()], [2, 1, 1]);
  await eventually(check);
  await page.reload();
  await page.locator(".sources").waitFor();
  await eventually(check);
  // The same question, asked again by the user, is a question.
  await ask(page, `${SLOW} To be resumed.`);
  await page.locator(".question").nth(1).waitFor();
  await stop(page).click();
  await page.locator(".turn").last().locator(".ended").waitFor();
});

test("what is read aloud: stopped and failed runs are not announced as answers", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await ask(page, `${SLOW} Aloud.`);
  await streaming(page);
  await stop(page).click();
  await page.locator('[role="status"]', { hasText: "The run was stopped." }).waitFor({ state: "attached" });
  await eventually(async () => assert.equal(await page.locator('[role="status"]', { hasText: "The answer is ready" }).count(), 0));
});

test("a failed run shows its cause and Retry, and is announced as failed", async () => {
  const failing = await open({ script: 'when model * fail refused "the key was refused"\nwhen tool * reply {"text": "nothing"}\n' });
  try {
    const page = await failing.page();
    await choose(page, "Flow", "direct");
    await ask(page, "What is a relay baton? Without a model.");
    await page.locator(".ended-bad", { hasText: "the key was refused" }).waitFor();
    await page.getByRole("button", { name: "Retry", exact: true }).waitFor();
    await page.locator('[role="status"]', { hasText: "The run failed." }).waitFor({ state: "attached" });
    await eventually(async () => assert.equal(await page.locator('[role="status"]', { hasText: "The answer is ready" }).count(), 0));
  } finally {
    await failing.close();
  }
});

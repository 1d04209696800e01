// Versions of a turn: regenerating, editing a question, continuing from an earlier turn, and the way between the branches.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { clean } from "./axe.mjs";
import { ask, choose, eventually, get, open, picture } from "./harness.mjs";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

const answered = (page, count) => page.waitForFunction((wanted) => document.querySelectorAll(".turn .actions").length === wanted, count);
const last = (page) => page.locator(".turn").last();
const idOf = (page) => new URL(page.url()).hash.split("/")[2];

test("a question is asked again and changed, and a switcher leads to each version", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "direct");
  await ask(page, "What is a relay baton? Version, please.");
  await answered(page, 1);
  await eventually(async () => assert.equal(await page.locator(".switcher").count(), 0));
  const text = () => last(page).locator(".prose", { hasText: /answer number \d+/ }).first().textContent();
  const number = async () => Number(/answer number (\d+)/.exec(await text())[1]);
  const first = await number();
  await last(page).getByRole("button", { name: "Regenerate" }).click();
  await page.locator(".switcher", { hasText: "2 / 2" }).waitFor();
  await answered(page, 1);
  await eventually(async () => assert.notEqual(first, await number()));
  await eventually(async () => assert.match(await text(), /after 1 mentions/, "the other version is no part of its history"));
  await page.getByRole("button", { name: "Previous version" }).click();
  await last(page).locator(".prose", { hasText: `answer number ${first},` }).first().waitFor();
  await eventually(async () => assert.match(await page.locator(".switcher").textContent(), /1 \/ 2/));

  await last(page).getByRole("button", { name: "Edit question" }).click();
  await page.getByLabel("The question", { exact: true }).fill("Who invented the baton? Version, please.");
  await page.getByRole("button", { name: "Ask this instead" }).click();
  await page.locator(".switcher", { hasText: "3 / 3" }).waitFor();
  await page.locator(".question", { hasText: "Who invented" }).waitFor();
  await answered(page, 1);
  await clean(page, "30-branches");
  await picture(page, "30-branches");

  await page.reload();
  await page.locator(".switcher", { hasText: "3 / 3" }).waitFor();
  const known = await get(harness, `/api/threads/${idOf(page)}`);
  assert.deepEqual(Object.values(known.after), ["", ""], "two of the three runs begin the conversation anew");
});

test("the conversation continues from an earlier turn, and the list of branches shows each", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "direct");
  await ask(page, "First: what is a baton? Version.");
  await answered(page, 1);
  await ask(page, "Second: how long is it? Version.");
  await answered(page, 2);
  await page.locator(".turn").first().getByRole("button", { name: "Continue from here" }).click();
  await page.locator(".following", { hasText: "First: what is a baton?" }).waitFor();
  await page.keyboard.type("Other: how heavy is it? Version.");
  await page.keyboard.press("Enter");
  await page.locator(".question", { hasText: "Other: how heavy" }).waitFor();
  await page.locator(".question", { hasText: "Second" }).waitFor({ state: "detached" });
  await last(page).locator(".switcher", { hasText: "2 / 2" }).waitFor();
  await answered(page, 2);
  await eventually(async () => assert.match(await last(page).locator(".prose").first().textContent(), /after [23] mentions/, "its history is the first turn and itself"));
  await ask(page, "Third: and now? Version.");
  await answered(page, 3);

  await page.getByText("2 branches").click();
  const all = page.locator(".lineage");
  await eventually(async () => assert.equal(await all.count(), 2));
  await eventually(async () => assert.match(await all.nth(0).textContent(), /Third.*shown now/s));
  await all.nth(1).click();
  await page.locator(".question", { hasText: "Second" }).waitFor();
  await eventually(async () => assert.equal(await page.locator(".turn").count(), 2));
  const { runs, after: follows } = await get(harness, `/api/threads/${idOf(page)}`);
  assert.equal(runs.length, 4);
  assert.equal(Object.keys(follows).length, 2, "the branch, and what was asked at its end");
  // An address of a run leads to its branch.
  const other = runs.find((run) => run.title.startsWith("Other"));
  await page.goto(`${harness.url}/#/t/${idOf(page)}/${other.run}`);
  await page.locator(".question", { hasText: "Other" }).waitFor();
});

test("two answers are compared as text, line by line", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "direct");
  await ask(page, "What is a baton? Which version?");
  await answered(page, 1);
  await ask(page, "And now, which version?");
  await answered(page, 2);
  const { runs } = await get(harness, `/api/threads/${new URL(page.url()).hash.split("/")[2]}`);
  await page.goto(`${harness.url}/#/compare/${runs[0].run}/${runs[1].run}`);
  await page.getByText("Difference of the answers as text").click();
  const numbers = async (side) => (await page.locator(`.text-diff .diff-${side}`).allTextContents()).join(" ").match(/answer number (\d+)/)?.[1];
  await eventually(async () => assert.ok((await numbers("left")) && (await numbers("right"))));
  assert.notEqual(await numbers("left"), await numbers("right"));
  await clean(page, "the difference of two answers");
});

test("a run to follow must be one of the conversation", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "direct");
  await ask(page, "What is a baton?");
  await answered(page, 1);
  const refused = await page.evaluate(async (thread) => {
    const response = await fetch("/api/runs", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ question: "x", flow: "direct", thread, after: "nothing" }) });
    return [response.status, (await response.json()).error.message];
  }, idOf(page));
  assert.deepEqual(refused, [404, "there is no such run to follow in this thread"]);
});

for (const [name, viewport] of [["phone", { width: 360, height: 740 }], ["tablet", { width: 820, height: 1100 }], ["desk", { width: 1440, height: 900 }]]) {
  for (const colorScheme of ["light", "dark"]) {
    test(`nothing is cut off with branches: ${name}, ${colorScheme}`, async () => {
      const page = await harness.page({ viewport, colorScheme });
      await choose(page, "Flow", "direct");
      await ask(page, `What is a relay baton, on a ${name}? Version.`);
      await answered(page, 1);
      await last(page).getByRole("button", { name: "Regenerate" }).click();
      await page.locator(".switcher", { hasText: "2 / 2" }).waitFor();
      await answered(page, 1);
      const wide = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(wide[0] <= wide[1], `${wide[0]} > ${wide[1]}`);
      await page.locator(".head summary", { hasText: "Conversation" }).click();
      const box = await page.locator(".head .menu[open] .menu-list").boundingBox();
      assert.ok(box.x >= 0 && box.x + box.width <= viewport.width && box.y + box.height <= viewport.height, JSON.stringify(box));
      await clean(page, `31-branches-${name}-${colorScheme}`);
      await picture(page, `31-branches-${name}-${colorScheme}`);
    });
  }
}

// Small screens and long answers: everything that can be pressed is on the screen and visible, and nothing shrinks to nothing.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { clean } from "./axe.mjs";
import { ask, choose, eventually, get, open, picture } from "./harness.mjs";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

const PHONE = { isMobile: true, hasTouch: true, reducedMotion: "reduce" };

/// Whether the middle of an element is on the screen and nothing covers it.
const isReachable = (locator) =>
  locator.evaluate((element) => {
    const box = element.getBoundingClientRect();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    return box.left >= 0 && box.right <= innerWidth && box.bottom <= innerHeight && element.contains(document.elementFromPoint(x, y));
  });

/// Elements of a container that end right of the screen, other than in something that scrolls sideways.
const cutOff = (page, container) =>
  page.evaluate((selector) => {
    const scrolls = (element) => element.closest(".graph, pre, .table, textarea") !== null;
    return [...document.querySelectorAll(`${selector}, ${selector} *`)].filter((element) => element.getBoundingClientRect().right > innerWidth + 1 && !scrolls(element) && element.checkVisibility()).map((element) => element.className || element.tagName);
  }, container);

for (const [width, height] of [[320, 568], [360, 640], [430, 932]]) {
  test(`at ${width} × ${height} Ask is on the screen, the drawer is whole, and a row's delete button is visible`, async () => {
    const page = await harness.page({ viewport: { width, height }, ...PHONE });
    await choose(page, "Flow", "search");
    const submit = page.locator(".composer-bar .button").last();
    await eventually(async () => assert.ok(await isReachable(submit), "Ask"));
    await page.getByRole("button", { name: "Options" }).click();
    await eventually(async () => assert.ok(await isReachable(submit), "Ask, with the options open"));
    await eventually(async () => assert.ok(await isReachable(page.locator("#question")), "the question, with the options open"));
    await page.getByRole("button", { name: "Options" }).click();
    await ask(page, `How heavy is a relay baton, at ${width}?`);
    await page.locator(".sources").waitFor();
    await page.locator(".work-toggle").click();
    await page.locator(".node", { hasText: "planning" }).click();
    await page.locator(".drawer .message").first().waitFor();
    await eventually(async () => assert.equal((await page.locator(".topbar").boundingBox()).y, 0, "opening the steps scrolls only the conversation"));
    await eventually(async () => assert.deepEqual(await cutOff(page, ".drawer"), [], "a step"));
    await eventually(async () => assert.ok(await isReachable(page.locator(".drawer-head button")), "Close"));
    await page.locator(".drawer-head button").click();
    await page.locator(".cite").first().click();
    await page.locator(".span-mark").waitFor();
    await eventually(async () => assert.deepEqual(await cutOff(page, ".drawer"), [], "a source"));
    await page.locator(".drawer-head button").click();
    await page.getByRole("button", { name: "Past conversations" }).click();
    await page.locator(".sidebar.is-open .thread").first().waitFor();
    await page.waitForFunction(() => document.querySelector(".sidebar").getBoundingClientRect().x === 0);
    const remove = page.locator(".thread-drop").first();
    await eventually(async () => assert.equal(await remove.evaluate((element) => getComputedStyle(element).opacity), "1"));
    const overlap = await page.locator(".list-row").first().evaluate((row) => {
      const [text, button] = [row.querySelector(".thread-title"), row.querySelector(".thread-drop")].map((element) => element.getBoundingClientRect());
      return text.right > button.left && text.bottom > button.top;
    });
    assert.equal(overlap, false, "and beside the title");
    await eventually(async () => assert.deepEqual(await cutOff(page, ".sidebar"), []));
    if (width === 360) await picture(page, "23-phone-sidebar");
  });
}

test("with a mouse the delete button is shown on hover, and cannot be pressed before", async () => {
  const page = await harness.page();
  await page.locator(".thread").first().waitFor();
  await page.mouse.move(700, 300);
  const remove = page.locator(".thread-drop").first();
  const style = () => remove.evaluate((element) => [getComputedStyle(element).opacity, getComputedStyle(element).pointerEvents]);
  await eventually(async () => assert.deepEqual(await style(), ["0", "none"]));
  await page.locator(".list-row").first().hover();
  await eventually(async () => assert.deepEqual(await style(), ["1", "auto"]));
});

test("two long answers side by side have their height, and so have their steps", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "direct");
  for (const number of [1, 2]) {
    await ask(page, `How heavy is a relay baton? At length, ${number}.`);
    await page.locator(".actions").nth(number - 1).waitFor();
  }
  const { runs } = await get(harness, "/api/runs?limit=10");
  const [one, other] = runs.filter((run) => run.title.includes("At length"));
  for (const viewport of [{ width: 1440, height: 900 }, { width: 700, height: 600 }]) {
    await page.setViewportSize(viewport);
    await page.goto(`${harness.url}/#/compare/${one.run}/${other.run}`);
    await page.locator(".side .sources").nth(1).waitFor();
    await page.locator(".compare table").waitFor();
    await eventually(async () => {
      const heights = await page.evaluate(() => [...document.querySelectorAll(".side, .compare > .table")].map((element) => [element.clientHeight, element.scrollHeight]));
      assert.equal(heights.length, 3);
      for (const [shown, whole] of heights) assert.ok(shown > 60 && shown >= whole - 20, `${shown} of ${whole} px`);
    });
  }
  await clean(page, "24-compare-long");
  await picture(page, "24-compare-long");
});

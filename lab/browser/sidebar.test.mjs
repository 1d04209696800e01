// Thousands of past conversations: only what is seen is in the page, and what changes elsewhere is seen by itself. Counts, no clocks.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { eventually, get, open, pause, picture, post } from "./harness.mjs";

const CONVERSATIONS = 5_000;
const AT_ONCE = 32;
const SCRIPT = 'when model * reply "It is a stick, and one hands it on."\nwhen tool * reply {"text": "nothing"}\n';

let harness;
before(async () => {
  harness = await open({ script: SCRIPT });
  let next = 0;
  const start = async () => {
    while (next < CONVERSATIONS) {
      const n = (next += 1);
      for (;;) {
        const { status } = await post(harness, "/api/runs?wait=1", { question: `Question ${n} about relay batons`, flow: "direct" });
        if (status === 200 || status === 201) break;
        // The server replies that a limit is reached.
        assert.equal(status, 429);
        await pause(200);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, start));
});
after(() => harness.close());

const inPage = (page) => page.evaluate(() => document.querySelectorAll("*").length);

test("c9_five thousand conversations: a handful of rows, whatever is scrolled to", async () => {
  const page = await harness.page();
  await page.locator(".thread").first().waitFor();
  const before = await inPage(page);
  const list = page.locator(".list");
  let seen = 0;
  for (let rounds = 0; rounds < 400; rounds += 1) {
    await list.evaluate((element) => (element.scrollTop = element.scrollHeight));
    await page.waitForTimeout(10);
    seen = Number(await page.locator(".list-row").last().getAttribute("aria-setsize"));
    if (seen >= CONVERSATIONS) break;
  }
  assert.equal(seen, CONVERSATIONS, "all of them can be reached");
  await eventually(async () => assert.ok((await page.locator(".list-row").count()) < 60, "but only what is seen is drawn"));
  await eventually(async () => assert.ok((await inPage(page)) < before + 400, "and the page has not grown"));
  await eventually(async () => assert.match(await page.locator(".thread-title").last().textContent(), /^Question \d{1,3} about/, "one of the oldest is at the end"));
  await picture(page, "9-five-thousand");
  // Frames that came while scrolling up again at speed: each had rows in it.
  const empty = await list.evaluate(async (element) => {
    let empty = 0;
    for (let step = 0; step < 60; step += 1) {
      element.scrollTop -= 4_000;
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      const box = element.getBoundingClientRect();
      const rows = [...element.querySelectorAll(".list-row")].map((row) => row.getBoundingClientRect());
      if (!rows.some((row) => row.top <= box.top + 4 && row.bottom > box.top)) empty += 1;
    }
    return empty;
  });
  assert.equal(empty, 0, "no frame without rows");
});

test("c9_a query and a preview, and the list is searched", async () => {
  const page = await harness.page();
  await page.locator(".thread-preview", { hasText: "one hands it on" }).first().waitFor();
  await page.getByLabel("Search conversations").fill("Question 4321");
  await page.locator(".thread-title", { hasText: "Question 4321 about" }).waitFor();
  await page.waitForFunction(() => document.querySelectorAll(".list-row").length < 20);
  await page.getByLabel("Search conversations").fill("nothing has these words");
  await page.locator(".sidebar-note", { hasText: "Nothing found" }).waitFor();
});

test("c9_what is asked elsewhere comes in by itself, on top", async () => {
  const page = await harness.page();
  await page.locator(".thread").first().waitFor();
  await post(harness, "/api/runs?wait=1", { question: "Asked by somebody else", flow: "direct" });
  await page.locator('[data-row="0"] .thread-title', { hasText: "Asked by somebody else" }).waitFor();
  const { threads } = await get(harness, "/api/threads?limit=1");
  const gone = await fetch(`${harness.url}/api/threads/${threads[0].thread}`, { method: "DELETE", headers: { "content-type": "application/json" } });
  assert.equal(gone.status, 204);
  await page.locator(".thread-title", { hasText: "Asked by somebody else" }).waitFor({ state: "detached" });
});

test("c9_chat and sidebar are nine tenths of the width, centred, with a narrow gap", async () => {
  const page = await harness.page();
  const [side, main] = [await page.locator(".sidebar").boundingBox(), await page.locator("main").boundingBox()];
  const { width } = page.viewportSize();
  assert.ok(Math.abs(main.x + main.width - side.x - 0.9 * width) < 2, "nine tenths");
  assert.ok(Math.abs(side.x - (width - main.x - main.width)) < 2, "centred");
  const gap = main.x - side.x - side.width;
  assert.ok(gap > 0 && gap <= 16, `a gap of ${gap} px`);
});

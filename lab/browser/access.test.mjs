// For everybody: without a mouse, with a screen reader, on a phone, over a slow line.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import zlib from "node:zlib";
import { LOOKS, SIZES, clean } from "./axe.mjs";
import { ask, choose, eventually, get, open, picture, web } from "./harness.mjs";

const WEIGHT_BYTES_MAX = 150_000;

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

for (const [colorScheme, size] of LOOKS) {
  test(`axe finds nothing, ${colorScheme}, ${size}`, async () => {
    const page = await harness.page({ colorScheme, reducedMotion: "reduce", ...SIZES[size] });
    await page.locator(".first-card").first().waitFor();
    await clean(page, "first");
    await choose(page, "Flow", "search");
    await page.getByRole("button", { name: "Options" }).click();
    await page.getByLabel("Show me the plan first").check();
    await ask(page, "How heavy is a relay baton, and did the Greeks invent it?");
    await page.locator(".asking").waitFor();
    await clean(page, "plan");
    await page.getByRole("button", { name: "Run it" }).click();
    await page.locator(".sources").waitFor();
    await page.locator(".work-toggle").click();
    await page.locator(".node-done").first().waitFor();
    await clean(page, "answer");
    if (colorScheme === "dark") await picture(page, `14-dark-${size}`);
    await page.locator(".actions .menu summary").click();
    await clean(page, "menu");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Compare" }).click();
    await page.locator(".choose a, .choose .quiet").first().waitFor();
    await clean(page, "runs to compare with");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Options" }).click();
    await clean(page, "options set");
    await page.locator(".cite").first().click();
    await page.locator(".span-mark").waitFor();
    await clean(page, "source");
    await page.keyboard.press("Escape");
    await page.locator(".node", { hasText: "planning" }).click();
    await page.locator(".drawer .part").first().waitFor();
    await clean(page, "step");
    await page.keyboard.press("Escape");
    await ask(page, "How heavy is a relay baton? In blocks, slowly, with the plan.");
    await page.getByRole("button", { name: "Run it" }).click();
    await page.waitForFunction(() => document.querySelector(".draft .prose pre") !== null);
    await clean(page, "streaming");
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await page.locator(".draft-partial").waitFor();
    await clean(page, "stopped");
    const [, thread] = /\/t\/([^/]+)/.exec(page.url());
    const { runs } = await get(harness, `/api/threads/${thread}`);
    await page.goto(`${harness.url}/#/compare/${runs[0].run}/${runs[1].run}`);
    await page.locator(".compare table").waitFor();
    await clean(page, "compare");
    if (size !== "desktop") {
      await page.getByRole("button", { name: "Past conversations" }).click();
      await page.locator(".sidebar.is-open .thread").first().waitFor();
      await clean(page, "sidebar");
      await page.keyboard.press("Escape");
    }
    for (const room of ["documents", "tools", "flows", "settings"]) {
      await page.goto(`${harness.url}/#/${room}`);
      await page.locator(`h1#${room}`).waitFor();
      await page.locator({ documents: ".index", tools: ".tool", flows: ".flow .node", settings: ".models li" }[room]).first().waitFor();
      await clean(page, room);
    }
  });
}

test("everything by keyboard: skip, ask, open the work, a step, a source, and the next conversation", async () => {
  const page = await harness.page();
  await page.locator(".first").waitFor();
  await page.evaluate(() => document.activeElement.blur());
  const focused = () => page.evaluate(() => document.activeElement.outerHTML.slice(0, 120));
  const tabTo = async (what, key = "Tab") => {
    for (let presses = 0; presses < 80; presses += 1) {
      await page.keyboard.press(key);
      if (await page.evaluate((selector) => document.activeElement.matches(selector), what)) return;
    }
    assert.fail(`${what} is not reached; the focus is at ${await focused()}`);
  };
  await tabTo(".skip");
  await page.keyboard.press("Enter");
  await eventually(async () => assert.equal(await page.evaluate(() => document.activeElement.id), "main"));
  await tabTo("#question");
  await page.keyboard.type("How heavy is a relay baton, by keyboard?");
  await tabTo(".picker select");
  await page.keyboard.type("Search");
  await tabTo("#question", "Shift+Tab");
  await page.keyboard.press("Enter");
  await page.locator(".sources").waitFor();
  await page.evaluate(() => document.getElementById("main").focus());
  await tabTo(".work-toggle");
  await page.keyboard.press("Enter");
  await page.locator(".node-done").first().waitFor();
  await tabTo(".node");
  const isVisible = await page.evaluate(() => getComputedStyle(document.activeElement.querySelector(".node-box")).strokeWidth);
  assert.equal(isVisible, "2.5px", "where the focus is can be seen");
  await page.keyboard.press("Enter");
  await page.locator(".drawer").waitFor();
  await eventually(async () => assert.ok(await page.evaluate(() => document.activeElement.closest(".drawer") !== null), "the focus is in what was opened"));
  await page.keyboard.press("Escape");
  await page.locator(".drawer").waitFor({ state: "detached" });
  await page.waitForFunction(() => document.activeElement.matches(".node"));
  await tabTo(".cite");
  await page.keyboard.press("Enter");
  await page.locator(".span-mark").waitFor();
  await page.keyboard.press("Escape");
  await tabTo(".sidebar-new", "Shift+Tab");
  await tabTo(".thread");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  await page.locator(".thread.is-current").waitFor();
});

test("changes are announced to screen readers", async () => {
  const page = await harness.page();
  await eventually(async () => assert.ok((await page.locator('[aria-live="polite"], [role="status"]').count()) > 0));
  await choose(page, "Flow", "direct");
  await ask(page, "What is a relay baton? Aloud, please.");
  await page.locator('.answer [role="status"], .actions').first().waitFor();
  await page.locator(".actions").waitFor();
  await page.locator('[role="status"]', { hasText: "The answer is ready" }).waitFor({ state: "attached" });
});

test("at the width of a phone nothing is cut off", async () => {
  const page = await harness.page({ viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true });
  await choose(page, "Flow", "search");
  await ask(page, "How heavy is a relay baton, on a phone?");
  await page.locator(".sources").waitFor();
  await page.locator(".work-toggle").click();
  await page.locator(".node-done").first().waitFor();
  const wide = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(wide[0] <= wide[1], `${wide[0]} > ${wide[1]}`);
  await clean(page, "15-phone");
  await picture(page, "15-phone");
  await eventually(async () => assert.equal(await page.locator(".sidebar").isVisible(), false));
  await page.getByRole("button", { name: "Past conversations" }).click();
  await page.locator(".sidebar.is-open .thread").first().click();
  await page.waitForFunction(() => !document.querySelector(".sidebar.is-open"));
});

test("the page weighs less than 150 kB", async (t) => {
  const page = await harness.page();
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await page.reload();
  await page.locator(".first-card").first().waitFor();
  const files = [...new Set(asked)].filter((name) => name === "/" || name.startsWith("/assets/")).map((name) => (name === "/" ? "index.html" : name.slice("/assets/".length)));
  const bytes = files.reduce((sum, name) => sum + zlib.gzipSync(fs.readFileSync(path.join(web, name)), { level: 9 }).length, 0);
  const modules = files.filter((name) => /\.m?js$/.test(name) && name !== "js/early.js" && name !== "js/main.js");
  const named = [...fs.readFileSync(path.join(web, "index.html"), "utf8").matchAll(/rel="modulepreload" href="\/assets\/([^"]+)"/g)].map(([, name]) => name);
  assert.deepEqual(named.sort(), modules.sort(), "index.html names every module that is used at once, and no other");
  assert.ok(bytes < WEIGHT_BYTES_MAX, `${bytes} bytes`);
  // Of these no number is demanded: machines differ. What was measured is printed.
  const times = [];
  for (let round = 0; round < 5; round += 1) {
    await page.reload();
    await page.locator("#question").waitFor();
    times.push(await page.evaluate(() => Math.round(performance.getEntriesByName("baton:interactive")[0].startTime)));
  }
  t.diagnostic(`weight: ${bytes} bytes gzip in ${files.length} files; interactive after ${times.sort((a, b) => a - b).join(", ")} ms`);
  console.log(`page_bytes=${bytes} page_files=${files.length} interactive_ms=${times[Math.floor(times.length / 2)]}`);
});

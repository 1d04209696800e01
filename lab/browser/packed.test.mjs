// The page as it is in the binary: the start is one module and one style sheet, and parts that are loaded later fit to it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, choose, open } from "./harness.mjs";

/// Beside the page itself: the module, three vendored ones, the style sheet, the theme, the icon, the manifest and its icons.
const START_FILES_MAX = 12;

let harness;
before(async () => (harness = await open({ isPacked: true })));
after(() => harness.close());

test("the start needs few files, and every part of the page works with it", async (t) => {
  const page = await harness.page();
  const files = [];
  page.on("request", (request) => request.url().includes("/assets/") && files.push(new URL(request.url()).pathname));
  await page.reload();
  await page.locator(".first-card").first().waitFor();
  const count = files.length;
  assert.ok(count <= START_FILES_MAX && files.some((name) => name === "/assets/js/main.js"), files.join(" "));
  const times = [];
  for (let round = 0; round < 5; round += 1) {
    await page.reload();
    await page.locator("#question").waitFor();
    times.push(await page.evaluate(() => Math.round(performance.getEntriesByName("baton:interactive")[0].startTime)));
  }
  t.diagnostic(`${count} files; interactive after ${times.sort((a, b) => a - b).join(", ")} ms`);
  console.log(`packed_files=${count} packed_interactive_ms=${times[2]}`);

  await choose(page, "Flow", "search");
  await ask(page, "How heavy is a relay baton? In blocks.");
  await page.locator(".sources").waitFor();
  await page.locator(".code-block .code-keyword").first().waitFor();
  await page.locator(".work-toggle").click();
  await page.locator(".node-done").first().click();
  await page.locator(".drawer .part").first().waitFor();
  await page.keyboard.press("Escape");
  for (const room of ["documents", "tools", "flows", "settings"]) {
    await page.goto(`${harness.url}/#/${room}`);
    await page.locator(`h1#${room}`).waitFor();
  }
  await page.getByLabel("Language").selectOption("de");
  await page.waitForFunction(() => document.documentElement.lang === "de");
  await page.locator("h1", { hasText: "Einstellungen" }).waitFor();
});

// The page in three languages: the catalogue is complete, and the page is drawn with it.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { CATALOGUE, LANGUAGES } from "../../web/js/words/catalogue.js";
import { clean } from "./axe.mjs";
import { ask, choose, eventually, open, picture, web } from "./harness.mjs";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

/// Every text that the modules give to `t`, and every unit that they count in.
function used() {
  const keys = new Set();
  for (const folder of ["core", "data", "model", "view"]) {
    for (const name of fs.readdirSync(path.join(web, "js", folder))) {
      const source = fs.readFileSync(path.join(web, "js", folder, name), "utf8").replace(/^\s*\/\/.*$/gm, "");
      for (const [, text] of source.matchAll(/\bt\(\s*("(?:[^"\\]|\\.)*")/g)) keys.add(JSON.parse(text));
      for (const [, unit] of source.matchAll(/\bcount\([^;\n]*?, "([a-z ]+)"\)/g)) keys.add(`{n} ${unit}`).add(`{n} ${unit}s`);
    }
  }
  return keys;
}

test("every text has a German and a Chinese form with the same places, and none is left over", () => {
  const keys = used();
  assert.ok(keys.size > 300, `${keys.size} texts`);
  assert.deepEqual([...keys].filter((key) => !CATALOGUE[key]), [], "texts without a translation");
  assert.deepEqual(Object.keys(CATALOGUE).filter((key) => !keys.has(key)), [], "translations of texts that are gone");
  const places = (text) => [...text.matchAll(/\{\w+\}/g)].map(([place]) => place).sort();
  for (const [key, forms] of Object.entries(CATALOGUE)) {
    assert.equal(forms.length, LANGUAGES.length, key);
    for (const form of forms) {
      assert.ok(form.trim() !== "", key);
      assert.deepEqual(places(form), places(key), key);
    }
  }
});

for (const [language, title, placeholder] of [["de", "Was möchten Sie wissen?", "Gespräche durchsuchen"], ["zh", "您想了解什么？", "搜索对话"]]) {
  test(`the page in ${language}`, async () => {
    const page = await harness.page();
    await page.goto(`${harness.url}/#/settings`);
    await page.getByLabel("Language").selectOption(language);
    await page.waitForFunction((wanted) => document.documentElement.lang === wanted, language);
    await page.locator(".sidebar-new").click();
    await page.locator("h1", { hasText: title }).waitFor();
    await eventually(async () => assert.equal(await page.locator(".sidebar input").getAttribute("placeholder"), placeholder));
    await clean(page, `41-first-${language}`);
    await picture(page, `41-first-${language}`);
    await page.locator(".composer select").first().selectOption("direct");
    await page.locator("#question").fill("What is a relay baton?");
    await page.keyboard.press("Enter");
    await page.locator(".turn .actions").waitFor();
    await clean(page, `42-answer-${language}`);
    await picture(page, `42-answer-${language}`);
    const wide = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(wide[0] <= wide[1], `${wide[0]} > ${wide[1]}`);
    for (const room of ["settings", "documents", "tools", "flows"]) {
      await page.goto(`${harness.url}/#/${room}`);
      await page.locator(".room-page h1").waitFor();
    }
  });
}

test("English loads no catalogue", async () => {
  const page = await harness.page();
  const asked = [];
  page.on("request", (request) => asked.push(request.url()));
  await page.reload();
  await page.locator(".first-card").first().waitFor();
  assert.ok(!asked.some((url) => url.includes("catalogue")));
  await choose(page, "Flow", "direct");
  await ask(page, "What is a relay baton? In English.");
  await page.locator(".turn .actions").waitFor();
});

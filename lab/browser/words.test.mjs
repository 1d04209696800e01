// The page in three languages: the catalogue is complete, and the page is drawn with it.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { formsOf } from "../../web/js/core/words.js";
import { CATALOGUE, LANGUAGES } from "../../web/js/words/catalogue.js";
import { TEXTS } from "../../web/js/words/server.js";
import { clean } from "./axe.mjs";
import { ask, choose, eventually, get, open, picture, root, web } from "./harness.mjs";

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

/// The server's code without its tests, with texts that go over several lines on one.
const serverCode = ["flows", "graph", "models", "service", "server", "mcp-hub", "effects", "secret"]
  .flatMap((crate) => fs.readdirSync(path.join(root, "crates", crate, "src"), { recursive: true }).map((name) => path.join(root, "crates", crate, "src", name)))
  .filter((file) => file.endsWith(".rs") && !/\/tests?(\.rs|\/)|_tests\.rs/.test(file))
  .map((file) => fs.readFileSync(file, "utf8").split(/#\[cfg\(test\)\]\s*mod \w+ \{/)[0].replace(/\\\n\s*/g, "").replace(/\n\s*\/\/\/ ?/g, " "));

const forms = formsOf(TEXTS);
const isKnown = (text) => Boolean(TEXTS[text] ?? CATALOGUE[text]) || forms.some(([form]) => form.test(text));

test("texts of the server have a German and a Chinese form, and each is one that the server can write", () => {
  const places = (text) => [...text.matchAll(/\{\w+\}/g)].map(([place]) => place).sort();
  const all = serverCode.join("\n").replaceAll('\\"', '"').replaceAll(/\s+/g, " ");
  const unknown = [];
  for (const [key, translations] of Object.entries(TEXTS)) {
    assert.equal(translations.length, LANGUAGES.length, key);
    for (const text of translations) assert.deepEqual(places(text), places(key), key);
    // A step's name in code is written with underscores.
    const isWritten = (part) => all.includes(part) || all.includes(part.replaceAll(" ", "_"));
    unknown.push(...key.split(/\{\w+\}/).map((part) => part.replace(/^[;:,.() ]+|[;:,.() ]+$/g, "")).filter((part) => !isWritten(part)));
  }
  assert.deepEqual(unknown, [], "the server does not write this");
});

test("every label of a step, every flow, setting and option of a model is translated", async () => {
  const labels = serverCode.flatMap((code) => [...code.matchAll(/\.label\((?:format!\()?"((?:[^"\\]|\\.)*)"/g)].map(([, text]) => text.replace(/\{[^}]*\}/g, "X")));
  assert.ok(labels.length > 40, `${labels.length} labels`);
  const { flows, model } = await get(harness, "/api/status");
  const shown = flows.filter((flow) => flow.is_shown);
  const { options } = await get(harness, "/api/models");
  const texts = [...labels, ...shown.flatMap((flow) => [flow.title, flow.about, ...flow.settings.map((setting) => setting.help)]), model.why, ...options.flatMap((option) => [option.title, option.detail, option.todo])];
  // A label may be nothing but what a model or a person named.
  const own = (text) => /^[X ()]*$/.test(text) || /^(https?:|ollama$|--)/i.test(text);
  assert.deepEqual([...new Set(texts.filter((text) => text && !own(text) && !isKnown(text)))], []);
});

test("a text of the server is translated with what stands in it", async () => {
  const page = await harness.page();
  await page.evaluate(() => localStorage.setItem("baton.language", "de"));
  await page.reload();
  await page.locator(".first-card").first().waitFor();
  const texts = await page.evaluate(async () => {
    const { serverText } = await import("/assets/js/core/words.js");
    return ["planning", "section 2 of 3: History", "the flow search failed: no model answered: lab/actor: status 500: out of order", "Something else", ""].map(serverText);
  });
  assert.deepEqual(texts, ["plant", "Abschnitt 2 von 3: History", "der Ablauf Suche ist fehlgeschlagen: kein Modell hat geantwortet: lab/actor: Status 500: out of order", "Something else", ""]);
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
    await page.locator(".composer select").first().selectOption("search");
    await page.locator("#question").fill("How heavy is a relay baton?");
    await page.keyboard.press("Enter");
    await page.locator(".turn .actions").nth(1).waitFor();
    await page.locator(".work-toggle").last().click();
    await page.locator(".node-done").nth(3).waitFor();
    const steps = await page.locator(".badge, .node-title, .node-about, .bar-label, .timeline-head").allInnerTexts();
    assert.ok(steps.length > 8, steps.join(" | "));
    assert.deepEqual(steps.filter((text) => /planning|writing|listing|checking|^search$|^model|Timeline|Direct/.test(text)), []);
    await clean(page, `43-steps-${language}`);
    await picture(page, `43-steps-${language}`);
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

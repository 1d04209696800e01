// What an answer stands on: citations that open the very passage, sentences that nothing carries, exports, and text that would like to be code.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { clean } from "./axe.mjs";
import { ask, choose, eventually, get, open, picture } from "./harness.mjs";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

test("a citation opens its span in its source, in sight and marked", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await ask(page, "How heavy is a relay baton, and did the Greeks invent it?");
  await page.locator(".sources").waitFor();
  const sentence = page.locator(".sentence-supported", { hasText: "weighs at least 50 grams" });
  await sentence.locator(".cite").click();
  const mark = page.locator(".drawer .span-mark");
  await mark.waitFor();
  await eventually(async () => assert.match(await mark.textContent(), /weighs at least 50 grams/));
  await eventually(async () => assert.match(await page.locator(".drawer .span-document").textContent(), /The relay baton[\s\S]*The exchange/, "the document around it is there"));
  const isSeen = await mark.evaluate((element) => {
    const [own, box] = [element.getBoundingClientRect(), element.closest(".span-document").getBoundingClientRect()];
    return own.top >= box.top - 1 && own.top < box.bottom;
  });
  assert.ok(isSeen, "scrolled to");
  await clean(page, "4-source");
  await picture(page, "4-source");
  await page.keyboard.press("Escape");
  await page.locator(".drawer").waitFor({ state: "detached" });
  await eventually(async () => assert.equal(await page.evaluate(() => document.activeElement.className), "cite", "the focus is back where it was"));
});

test("a sentence that nothing supports is marked for eyes and ears", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await ask(page, "Did the Greeks invent the relay baton?");
  await page.locator(".sources").waitFor();
  const sentence = page.locator(".sentence-unsupported", { hasText: "7 Greeks" });
  await eventually(async () => assert.equal(await sentence.count(), 1));
  await eventually(async () => assert.match(await page.locator(".answer .prose").textContent(), /7 Greeks in 1650\.\s*\(not supported by the sources\)/));
  await eventually(async () => assert.match(await page.locator(".standing").textContent(), /1 not supported/));
  const style = await sentence.evaluate((element) => getComputedStyle(element).textDecorationStyle);
  assert.equal(style, "wavy", "not only by colour");
});

test("an answer is copied and taken away as Markdown, HTML, Word and PDF", async () => {
  const page = await harness.page({ permissions: ["clipboard-read", "clipboard-write"] });
  await choose(page, "Flow", "search");
  await ask(page, "How long is a relay baton?");
  await page.locator(".sources").waitFor();
  await page.getByRole("button", { name: "Copy" }).click();
  await eventually(async () => assert.match(await page.evaluate(() => navigator.clipboard.readText()), /28 to 30 centimetres long/));
  const begins = { Markdown: /^[\s\S]*28 to 30/, HTML: /^<!doctype html>/i, Word: /^PK/, PDF: /^%PDF/ };
  for (const [format, beginning] of Object.entries(begins)) {
    const link = page.locator(".actions .menu-list a", { hasText: format });
    const address = await link.getAttribute("href");
    const response = await fetch(harness.url + address);
    assert.equal(response.status, 200, format);
    assert.match(response.headers.get("content-disposition"), /^attachment/, format);
    await eventually(async () => assert.match(Buffer.from(await response.arrayBuffer()).toString("latin1"), beginning, format));
  }
});

test("an export has one legend instead of a remark after every sentence", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await ask(page, "How heavy is a relay baton, and did the Greeks invent it? For export.");
  await page.locator(".sources").waitFor();
  const address = await page.locator(".actions .menu-list a", { hasText: "Markdown" }).getAttribute("href");
  const text = await (await fetch(harness.url + address)).text();
  assert.match(text, /7 Greeks in 1650\. †/);
  assert.equal(text.match(/do not support/g)?.length, 1);
  assert.doesNotMatch(text, /\(not supported by the sources\)/);
});

test("what would like to be code in a question, an answer or a title is words", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "direct");
  await ask(page, "Angle brackets <img src=x onerror=\"window.hurt=6\"><script>window.hurt=7</script> please");
  await page.locator(".actions").waitFor();
  await eventually(async () => assert.match(await page.locator(".answer .prose").textContent(), /<script>window\.hurt = 1<\/script>/));
  await eventually(async () => assert.match(await page.locator(".thread.is-current .thread-title").textContent(), /<img src=x/));
  await eventually(async () => assert.equal(await page.locator(".answer .prose script, .answer .prose img, .answer .prose svg, .thread img").count(), 0));
  await eventually(async () => assert.equal(await page.locator(".answer .prose a[href^='javascript']").count(), 0));
  await page.reload();
  await page.locator(".actions").waitFor();
  await eventually(async () => assert.equal(await page.evaluate(() => window.hurt), undefined));
  const { threads } = await get(harness, "/api/threads?q=angle");
  assert.equal(threads.length, 1, "and it is stored as it was sent");
});

test("the policy lets nothing inline run", async () => {
  const page = await harness.page();
  const blocked = await page.evaluate(async () => {
    const violation = new Promise((done) => document.addEventListener("securitypolicyviolation", (event) => done(event.violatedDirective), { once: true }));
    const script = document.createElement("script");
    script.textContent = "window.hurt = 8";
    document.body.append(script);
    return violation;
  });
  assert.match(blocked, /script-src/);
  await eventually(async () => assert.equal(await page.evaluate(() => window.hurt), undefined));
  page.troubles.length = 0;
});

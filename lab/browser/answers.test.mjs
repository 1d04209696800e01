// What an answer shows beside its sentences: code that can be copied, formulas, pictures, cards of sources, what a failed run had found; and the question's
// attachments and sources.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { clean } from "./axe.mjs";
import { ask, choose, events, eventually, get, open, picture } from "./harness.mjs";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

test("code is coloured and copied", async () => {
  const page = await harness.page({ permissions: ["clipboard-read", "clipboard-write"] });
  await choose(page, "Flow", "search");
  await ask(page, "How heavy is a relay baton? In blocks, please.");
  await page.locator(".sources").waitFor();
  const block = page.locator(".code-block");
  await block.locator(".code-keyword", { hasText: "def" }).waitFor();
  await eventually(async () => assert.equal(await block.locator(".code-comment").textContent(), "# The rule: at least 50 | grams. See [1]."));
  await block.getByRole("button", { name: "Copy the code" }).click();
  await block.getByText("Copied").waitFor();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(copied, /^def weight\(grams: int\) -> bool:\n[\s\S]*return grams >= 50$/);
  await clean(page, "an answer with code");
  await picture(page, "35-code");
});

test("formulas are drawn, prices are not, and nothing is fetched from elsewhere", async () => {
  const page = await harness.page();
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url()).host));
  await choose(page, "Flow", "direct");
  await ask(page, "Show me formulas.");
  await page.locator(".turn .actions").waitFor();
  await page.locator("math").first().waitFor();
  await eventually(async () => assert.equal(await page.locator("math").count(), 2));
  await eventually(async () => assert.equal(await page.locator('math[display="block"]').count(), 1));
  await eventually(async () => assert.equal(await page.locator("math").first().evaluate((math) => math.namespaceURI), "http://www.w3.org/1998/Math/MathML"));
  await eventually(async () => assert.ok((await page.locator("math mfrac").count()) >= 2));
  await eventually(async () => assert.match(await page.locator(".prose").textContent(), /costs \$5 or \$6/));
  await eventually(async () => assert.equal(await page.locator(".math-source").textContent(), "\\mystery{x}"));
  await eventually(async () => assert.equal(await page.locator(".prose img").count(), 0, "pictures of a model are no part of a checked answer"));
  assert.deepEqual([...new Set(asked)], [new URL(harness.url).host]);
  await clean(page, "an answer with formulas");
  await picture(page, "36-formulas");
});

test("a picture that the run wrote is shown, with the headers of any file", async () => {
  const page = await harness.page();
  const dot = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
  await page.route("**/api/runs/*/answer", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), body: "Here: ![A dot](plots/dot.png) and ![a tracker](https://tracker.example/x.gif)", files: [{ path: "plots/dot.png", bytes: dot.length }] } });
  });
  const headers = { "content-type": "application/octet-stream", "content-disposition": 'attachment; filename="dot.png"', "x-content-type-options": "nosniff", "cross-origin-resource-policy": "same-origin" };
  await page.route("**/files/plots/dot.png", (route) => route.fulfill({ status: 200, headers, body: dot }));
  await choose(page, "Flow", "direct");
  await ask(page, "What is a relay baton? With a plot.");
  await page.waitForFunction(() => [...document.querySelectorAll("img.picture")].filter((image) => image.naturalWidth === 1).length === 2);
  await eventually(async () => assert.match(await page.locator(".picture-link").textContent(), /a tracker.*tracker\.example/));
});

test("a citation shows a card on hover and on focus", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await ask(page, "How heavy is a relay baton? With a card.");
  await page.locator(".sources").waitFor();
  await page.locator(".cite").first().hover();
  const card = page.locator(".hover-card");
  await card.waitFor();
  await eventually(async () => assert.match(await card.textContent(), /50 grams|28 to 30/));
  const box = await card.boundingBox();
  assert.ok(box.x >= 0 && box.y >= 0 && box.x + box.width <= 1440, JSON.stringify(box));
  await clean(page, "37-card");
  await picture(page, "37-card");
  await page.mouse.move(5, 5);
  await card.waitFor({ state: "detached" });
  await page.locator(".cite").first().focus();
  await card.waitFor();
  await clean(page, "a card");
  await eventually(async () => assert.match(await page.locator(".source-about").first().textContent(), /document/));
});

test("a run that failed shows what it had found", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await ask(page, "How heavy is a relay baton? The model is out of order.");
  await page.locator(".ended-bad").waitFor();
  const found = page.locator(".found-before");
  await found.waitFor();
  await eventually(async () => assert.match(await found.textContent(), /50 grams/));
  await clean(page, "a failed run");
  await picture(page, "38-found");
});

test("files are attached to a question, and a conversation uses only the sources that were chosen", async () => {
  const page = await harness.page();
  const file = path.join(harness.home, "lyon.txt");
  fs.writeFileSync(file, "The baton of Lyon weighs 61 grams and is made of copper.");
  await page.getByLabel("Attach files").setInputFiles(file);
  await page.locator(".attached small", { hasText: "ready" }).waitFor();
  await page.getByRole("button", { name: "Options" }).click();
  await page.getByLabel("Only these").check();
  await page.getByLabel("All documents").uncheck();
  await page.getByRole("checkbox", { name: /lyon\.txt/ }).check();
  await picture(page, "39-sources");
  await clean(page, "the choice of sources");
  await page.getByRole("button", { name: "Options" }).click();
  await page.locator(".options-set", { hasText: "sources: lyon.txt" }).waitFor();
  await choose(page, "Flow", "search");
  await ask(page, "How heavy is a relay baton?");
  await page.locator(".turn .actions").waitFor();
  await eventually(async () => assert.match(await page.locator(".question").textContent(), /Attached document: lyon\.txt/));
  const { runs } = await get(harness, `/api/threads/${new URL(page.url()).hash.split("/")[2]}`);
  const replies = (await events(harness, runs[0].run)).filter((one) => one.event === "replied").flatMap((one) => one.reply.result.Ok?.spans ?? []);
  assert.ok(replies.length > 0, "passages were found");
  assert.ok(replies.every((span) => span.address.endsWith("lyon.txt")), JSON.stringify(replies.map((span) => span.address)));
  await page.locator(".options-set", { hasText: "sources: lyon.txt" }).waitFor();
  await page.locator(".sidebar-new").click();
  await page.locator(".first-card").first().waitFor();
  await eventually(async () => assert.equal(await page.locator(".options-set", { hasText: "sources" }).count(), 0, "another conversation uses everything"));
});

test("the last answer suggests questions, and a click puts one into the form", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await ask(page, "How heavy is a relay baton? Ask the Greeks.");
  await page.locator(".sources").waitFor();
  const all = page.locator(".follow-up");
  await all.first().waitFor();
  await eventually(async () => assert.match(await all.first().textContent(), /^Is there a source for this: It was invented by 7 Greeks in 1650\.$/));
  await eventually(async () => assert.match(await all.nth(1).textContent(), /^What else does “Measures” say about this\?$/));
  await all.nth(1).click();
  await eventually(async () => assert.equal(await page.locator("#question").inputValue(), "What else does “Measures” say about this?"));
  await eventually(async () => assert.equal(await page.evaluate(() => document.activeElement.id), "question"));
  await clean(page, "suggested questions");
  await picture(page, "45-follow-ups");
});

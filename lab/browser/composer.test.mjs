// The form for a question: focus, Enter during a run, options that stay set, long pastes, and what Escape closes.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { clean } from "./axe.mjs";
import { ask, choose, eventually, get, open, picture } from "./harness.mjs";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

const SLOW = "How heavy is a relay baton? Answer slowly, please.";
const focused = (page) => page.evaluate(() => document.activeElement.id);
const runsOf = async (words) => (await get(harness, "/api/runs?limit=100")).runs.filter((run) => run.title.includes(words) && !run.parent);

test("the form keeps the focus after the first question and after a follow-up", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "direct");
  await ask(page, "What is a relay baton? First.");
  await page.waitForFunction(() => location.hash.startsWith("#/t/"));
  await page.locator(".actions").waitFor();
  await eventually(async () => assert.equal(await focused(page), "question"));
  await page.keyboard.type("And a second one?");
  await page.keyboard.press("Enter");
  await page.locator(".question", { hasText: "And a second one?" }).waitFor();
  await page.locator(".actions").nth(1).waitFor();
  await eventually(async () => assert.equal(await focused(page), "question"));
});

test("Enter during a run starts nothing, keeps the text and leaves Stop in place", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await ask(page, `${SLOW} Alone.`);
  const stop = page.getByRole("button", { name: "Stop", exact: true });
  await stop.waitFor();
  await ask(page, "Too early");
  await page.locator(".composer-hint", { hasText: "not finished" }).waitFor();
  await eventually(async () => assert.equal(await page.locator("#question").inputValue(), "Too early"));
  await eventually(async () => assert.ok(await stop.isVisible()));
  await eventually(async () => assert.equal((await runsOf("Too early")).length, 0));
  await page.locator(".sources").waitFor();
  await page.keyboard.press("Enter");
  await page.locator(".question", { hasText: "Too early" }).waitFor();
  await eventually(async () => assert.equal((await runsOf("Too early")).length, 1));
  await stop.click();
});

test("limits stay in sight while the options are closed, can be removed there, and the answer names the limit that ended it", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  const options = page.getByRole("button", { name: "Options" });
  await options.click();
  await page.getByLabel("Calls").fill("2");
  await options.click();
  const set = page.locator(".options-set");
  await eventually(async () => assert.match(await set.textContent(), /limits: 2 calls/));
  await page.reload();
  await set.waitFor();
  await eventually(async () => assert.match(await set.textContent(), /limits: 2 calls/));
  await ask(page, "How heavy is a relay baton, with two calls?");
  await page.locator(".actions").waitFor();
  await page.locator(".remark-limit", { hasText: "The limit on calls was reached" }).waitFor();
  await eventually(async () => assert.match(await page.locator(".answer .prose").textContent(), /the limit of 2 calls was reached/));
  await clean(page, "22-limit");
  await picture(page, "22-limit");
  await set.getByRole("button", { name: "Remove all" }).click();
  await set.waitFor({ state: "detached" });
  await eventually(async () => assert.equal(await page.evaluate(() => JSON.parse(localStorage.getItem("baton.askOptions")).budget.calls), undefined));
});

const paste = (page, text) =>
  page.locator("#question").evaluate((area, pasted) => {
    const data = new DataTransfer();
    data.setData("text/plain", pasted);
    area.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  }, text);

const LONG = `The baton of Lyon weighs 61 grams. ${"Something else is written here. ".repeat(1_500)}`;

test("a paste that is too long becomes a document that the question names", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await paste(page, LONG);
  const chip = page.locator(".attached li");
  await chip.filter({ hasText: "ready" }).waitFor();
  const name = await chip.locator("span").first().textContent();
  const { files } = await get(harness, "/api/documents");
  assert.deepEqual(files.map((file) => [file.name, file.bytes]), [[name, Buffer.byteLength(LONG)]], "nothing of it is cut");
  await ask(page, "What does the baton of Lyon weigh?");
  await page.locator(".question", { hasText: `Attached document: ${name}` }).waitFor();
  await page.locator(".actions").waitFor();
  await eventually(async () => assert.equal(await chip.count(), 0));
  await paste(page, LONG);
  await chip.filter({ hasText: "ready" }).waitFor();
  await chip.getByRole("button", { name: /^Remove pasted/ }).click();
  await page.waitForFunction(async () => (await (await fetch("/api/documents")).json()).files.length === 1);
});

test("where a long paste cannot be uploaded, the page states it and why", async () => {
  const page = await harness.page();
  await page.route("**/api/documents/*", (route) => route.fulfill({ status: 403, contentType: "application/json", body: JSON.stringify({ error: { kind: "refused", message: "uploads are off" } }) }));
  await paste(page, LONG);
  await page.locator(".composer-hint", { hasText: "uploads are off" }).waitFor();
  await eventually(async () => assert.match(await page.locator(".composer-hint").textContent(), /at most 32.8 kB|at most 33 kB/));
  page.troubles = page.troubles.filter((text) => !/status of 403/.test(text));
});

test("a question that is typed too long is refused with its size, and kept", async () => {
  const page = await harness.page();
  await ask(page, "word ".repeat(8_000));
  await page.locator(".composer-hint", { hasText: "Shorten it" }).waitFor();
  await eventually(async () => assert.ok((await page.locator("#question").inputValue()).length >= 39_999));
});

test("Escape closes the options, the export menu, the list of runs to compare with, and the sidebar of a phone", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "direct");
  await ask(page, "What is a relay baton? To be closed.");
  await page.locator(".actions").waitFor();
  await page.getByRole("button", { name: "Options" }).click();
  await page.keyboard.press("Escape");
  await page.locator(".options").waitFor({ state: "detached" });
  const menu = page.locator(".actions .menu-list");
  await page.locator(".actions .menu summary").click();
  await eventually(async () => assert.ok(await menu.isVisible()));
  await page.keyboard.press("Escape");
  await menu.waitFor({ state: "hidden" });
  await eventually(async () => assert.equal(await page.evaluate(() => document.activeElement.tagName), "SUMMARY", "the focus is on its button"));
  await page.locator(".actions .menu summary").click();
  await page.locator(".question").first().click();
  await menu.waitFor({ state: "hidden" });
  await page.getByRole("button", { name: "Compare" }).click();
  await page.locator(".choose").waitFor();
  await page.keyboard.press("Escape");
  await page.locator(".choose").waitFor({ state: "detached" });
  const phone = await harness.page({ viewport: { width: 360, height: 640 }, isMobile: true, hasTouch: true });
  await phone.getByRole("button", { name: "Past conversations" }).click();
  await phone.locator(".sidebar.is-open").waitFor();
  await phone.keyboard.press("Escape");
  await phone.waitForFunction(() => !document.querySelector(".sidebar.is-open"));
});

test("the tab names the conversation and shows that it is being worked on", async () => {
  const page = await harness.page();
  await eventually(async () => assert.equal(await page.title(), "Baton"));
  await choose(page, "Flow", "search");
  await ask(page, `${SLOW} Titled.`);
  await page.waitForFunction(() => /^… How heavy is a relay baton.* · Baton$/.test(document.title));
  await page.locator(".sources").waitFor();
  await page.waitForFunction(() => /^How heavy is a relay baton.* · Baton$/.test(document.title));
  await page.goto(`${harness.url}/#/settings`);
  await page.waitForFunction(() => document.title === "Settings · Baton");
});

test("text is copied where the browser has no clipboard interface (plain HTTP)", async () => {
  const page = await harness.page();
  await page.addInitScript(() => Object.defineProperty(Navigator.prototype, "clipboard", { get: () => undefined }));
  await page.reload();
  await choose(page, "Flow", "direct");
  await ask(page, "What is a relay baton? Without TLS.");
  await page.locator(".actions").waitFor();
  await page.getByRole("button", { name: "Copy" }).click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  await page.locator("#question").focus();
  await page.keyboard.press("Control+v");
  await eventually(async () => assert.match(await page.locator("#question").inputValue(), /relay baton|28 to 30/));
});

test("notices cover no button", async () => {
  const page = await harness.page({ path: "/#/documents", viewport: { width: 1000, height: 700 } });
  await page.getByLabel("Files to upload").setInputFiles({ name: "program.exe", mimeType: "application/octet-stream", buffer: Buffer.from("MZ\u0000\u0001") });
  const notice = page.locator(".notice-bad");
  await notice.waitFor();
  await eventually(async () => assert.match(await notice.textContent(), /program\.exe/, "an upload error names the file"));
  await page.goto(`${harness.url}/#/`);
  await page.locator(".first-card").first().waitFor();
  const covered = await page.evaluate(() => {
    const isTop = (element) => {
      const box = element.getBoundingClientRect();
      const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
      return box.width === 0 || box.bottom > innerHeight || element.contains(top) || top?.closest(".turns") !== null;
    };
    return [...document.querySelectorAll("button, a, select, textarea")].filter((element) => element.checkVisibility({ opacityProperty: true }) && !element.closest(".turns, .skip, .list") && !isTop(element)).map((element) => element.outerHTML.slice(0, 100));
  });
  assert.deepEqual(covered, []);
  page.troubles = page.troubles.filter((text) => !/status of 4\d\d/.test(text));
});

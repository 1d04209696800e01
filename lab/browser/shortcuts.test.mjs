// Keys, the way back to the end, notifications, and the page as an app.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { clean } from "./axe.mjs";
import { ask, choose, eventually, get, open, picture } from "./harness.mjs";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

test("a sheet lists the shortcuts, and they work where nobody types", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "direct");
  await ask(page, "What is a relay baton? Version.");
  await page.locator(".turn .actions").waitFor();
  await page.keyboard.type("what is r?");
  await eventually(async () => assert.equal(await page.locator("dialog[open]").count(), 0, "typing is typing"));
  await page.locator("#question").fill("");
  await page.locator("#main").focus();
  await page.keyboard.press("?");
  await page.locator("dialog[open] .shortcuts").waitFor();
  await clean(page, "40-shortcuts");
  await picture(page, "40-shortcuts");
  await page.keyboard.press("Escape");
  await page.locator("dialog[open]").waitFor({ state: "detached" });
  await page.locator("#main").focus();
  await page.keyboard.press("r");
  await page.locator(".switcher", { hasText: "2 / 2" }).waitFor();
  await page.locator(".turn .actions").waitFor();
  await page.locator("#main").focus();
  await page.keyboard.press("e");
  await page.locator(".question-editor").waitFor();
  await page.keyboard.press("Escape");
  await page.locator(".question-editor").waitFor({ state: "detached" });
  await page.locator("#main").focus();
  await page.keyboard.press("/");
  await eventually(async () => assert.equal(await page.evaluate(() => document.activeElement.id), "question"));
  await page.locator("#main").focus();
  await page.keyboard.press("n");
  await page.locator(".first-card").first().waitFor();
});

test("a button leads back to the end of a long conversation", async () => {
  const page = await harness.page({ viewport: { width: 900, height: 600 } });
  await choose(page, "Flow", "direct");
  await ask(page, "What is a relay baton? At length.");
  await page.locator(".turn .actions").waitFor();
  await page.locator(".turns").evaluate((box) => (box.scrollTop = 0));
  await page.getByRole("button", { name: "Jump to latest" }).click();
  await page.waitForFunction(() => {
    const box = document.querySelector(".turns");
    return box.scrollHeight - box.scrollTop - box.clientHeight < 5;
  });
  await page.locator(".latest").waitFor({ state: "detached" });
});

/// A page that is hidden on request and lists the notifications that it would show.
async function notified() {
  const page = await harness.page({ permissions: ["notifications"] });
  await page.addInitScript(() => {
    window.shown = [];
    window.Notification = class {
      static permission = "granted";
      static requestPermission = async () => "granted";
      constructor(title, options) {
        window.shown.push([title, options.body]);
      }
      close() {}
    };
    Object.defineProperty(document, "hidden", { get: () => window.isHidden === true });
  });
  await page.goto(`${harness.url}/#/settings`);
  await page.reload();
  await page.getByLabel("Notify me when a long run ends or asks").check();
  await page.locator(".sidebar-new").click();
  return page;
}

test("a hidden page gets a notification when a run ends", async () => {
  const page = await notified();
  await choose(page, "Flow", "search");
  await ask(page, "How heavy is a relay baton? Answer slowly, please. Tell me.");
  await page.waitForFunction(() => location.hash.startsWith("#/t/"));
  await page.evaluate(() => (window.isHidden = true));
  await page.waitForFunction(() => window.shown.length > 0);
  await eventually(async () => assert.deepEqual(await page.evaluate(() => window.shown), [["How heavy is a relay baton? Answer slowly, please. Tell me.", "The answer is ready."]]));
});

test("a hidden page gets a notification when a run asks", async () => {
  const page = await notified();
  await choose(page, "Flow", "search");
  await page.getByRole("button", { name: "Options" }).click();
  await page.getByLabel("Show me the plan first").check();
  // Before the question is sent: the plan may be there at once.
  await page.evaluate(() => (window.isHidden = true));
  await ask(page, "How heavy is a relay baton? Ask me first.");
  await page.waitForFunction(() => window.shown.length > 0);
  await eventually(async () => assert.deepEqual(await page.evaluate(() => window.shown), [["How heavy is a relay baton? Ask me first.", "Needs your answer"]]));
});

test("the page can be installed", async () => {
  const page = await harness.page();
  const manifest = await page.evaluate(async () => (await fetch(document.querySelector("link[rel=manifest]").href)).json());
  assert.equal(manifest.display, "standalone");
  for (const { src, sizes, type } of manifest.icons) {
    const icon = await fetch(harness.url + src);
    assert.equal(icon.headers.get("content-type"), type, src);
    if (type === "image/png") assert.equal(Buffer.from(await icon.arrayBuffer()).readUInt32BE(16), Number(sizes.split("x")[0]));
  }
  const session = await page.context().newCDPSession(page);
  const { errors } = await session.send("Page.getAppManifest");
  assert.deepEqual(errors, []);
  const { installabilityErrors } = await session.send("Page.getInstallabilityErrors");
  assert.deepEqual(installabilityErrors.map((one) => one.errorId).filter((id) => id !== "in-incognito"), []);
  assert.ok((await get(harness, "/api/status")).version);
});

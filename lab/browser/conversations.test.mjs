// What can be done with a whole conversation: rename, pin, tag, find, export, share.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { clean } from "./axe.mjs";
import { ask, choose, eventually, get, open, picture, post } from "./harness.mjs";
import fs from "node:fs";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

const idOf = (page) => new URL(page.url()).hash.split("/")[2];

async function asked(question, flow = "direct") {
  const page = await harness.page();
  await choose(page, "Flow", flow);
  await ask(page, question);
  await page.locator(".turn .actions").waitFor();
  await page.waitForFunction(() => location.hash.startsWith("#/t/"));
  await page.locator(".head summary", { hasText: "Conversation" }).waitFor();
  return page;
}

const item = async (page, name) => {
  await page.locator(".head summary", { hasText: "Conversation" }).click();
  await page.locator(".head .menu-list").getByText(name, { exact: true }).click();
};

test("a conversation is renamed, pinned and tagged, and found by each", async () => {
  const page = await asked("What is a relay baton? To be renamed.");
  await item(page, "Rename");
  await page.getByLabel("Title").fill("Batons, in short");
  await clean(page, "the dialog");
  await page.keyboard.press("Enter");
  await page.locator(".head-title", { hasText: "Batons, in short" }).waitFor();
  await page.locator(".thread-title", { hasText: "Batons, in short" }).waitFor();
  await item(page, "Tags");
  await page.getByLabel("Tags", { exact: true }).fill("sport, #later");
  await page.getByRole("button", { name: "Save" }).click();
  await page.locator(".tag", { hasText: "#later" }).waitFor();
  await item(page, "Pin");
  await page.locator(".thread .thread-pin").waitFor();
  await asked("Something else, asked afterwards.");
  await page.reload();
  await page.locator(".thread-title", { hasText: "Something else" }).waitFor();
  await eventually(async () => assert.match(await page.locator(".list-row").first().textContent(), /Batons, in short/, "what is pinned comes first"));
  await page.locator(".head-title", { hasText: "Batons, in short" }).waitFor();
  await clean(page, "32-conversations");
  await picture(page, "32-conversations");
  for (const query of ["#sport", "in short"]) {
    await page.getByPlaceholder("Search conversations").fill(query);
    await page.waitForFunction(() => document.querySelectorAll(".list-row").length === 1);
    await eventually(async () => assert.match(await page.locator(".list-row").textContent(), /Batons, in short/, query));
  }
  await page.locator(".sidebar input").fill("");
  await page.locator(".tag", { hasText: "#sport" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".list-row").length === 1);
  assert.equal((await post(harness, `/api/threads/${idOf(page)}`, { title: "x".repeat(201) }, "PATCH")).status, 422);
});

test("words are found in a conversation, turn by turn", async () => {
  const page = await asked("What is a relay baton? Apples.");
  for (const word of ["Pears", "Apples again"]) {
    await ask(page, `And what is that? ${word}.`);
    await page.waitForFunction((count) => document.querySelectorAll(".turn .actions").length === count, word === "Pears" ? 2 : 3);
  }
  await item(page, "Find in this conversation");
  await page.keyboard.type("apples");
  await page.locator(".find-count", { hasText: "1 of 2" }).waitFor();
  await page.locator(".turn.is-found", { hasText: "Apples." }).waitFor();
  await page.keyboard.press("Enter");
  await page.locator(".find-count", { hasText: "2 of 2" }).waitFor();
  await page.locator(".turn.is-found", { hasText: "Apples again" }).waitFor();
  await page.keyboard.press("Escape");
  await page.locator(".find").waitFor({ state: "detached" });
  await eventually(async () => assert.equal(await page.locator(".turn.is-found").count(), 0));
});

test("a whole conversation is exported, with one list of sources", async () => {
  const page = await asked("How heavy is a relay baton? For export.", "search");
  await ask(page, "And where was the first relay race?");
  await page.waitForFunction(() => document.querySelectorAll(".turn .actions").length === 2);
  await page.locator(".head summary", { hasText: "Conversation" }).click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByText("Export as Markdown").click()]);
  const text = fs.readFileSync(await download.path(), "utf8");
  assert.match(text, /## How heavy is a relay baton\? For export\./);
  assert.match(text, /## And where was the first relay race\?/);
  assert.match(text, /50 grams \[\^source-1\][\s\S]*50 grams \[\^source-1\]/);
  const id = idOf(page);
  for (const [ending, magic] of [["pdf", "%PDF"], ["docx", "PK"], ["html", "<!"]]) {
    const response = await fetch(`${harness.url}/api/threads/${id}/export/${ending}`);
    assert.equal(response.status, 200, ending);
    await eventually(async () => assert.equal(Buffer.from(await response.arrayBuffer()).subarray(0, magic.length).toString().toLowerCase(), magic.toLowerCase()));
  }
  assert.equal((await fetch(`${harness.url}/api/threads/${id}/export/exe`)).status, 422);
});

test("a link shows the questions and answers to anybody, until it is revoked", async () => {
  const page = await asked("How heavy is a relay baton? To be <b>shared</b>.", "search");
  await item(page, "Share");
  await page.getByRole("button", { name: "Create a link" }).click();
  const link = await page.getByLabel("The link, shown only now").inputValue();
  assert.match(link, /\/share\/[0-9a-f]{64}$/);
  await clean(page, "the dialog of links");
  await picture(page, "33-share");
  await page.keyboard.press("Escape");
  await ask(page, "A later question, which nobody else shall read.");
  await page.waitForFunction(() => document.querySelectorAll(".turn .actions").length === 2);

  const reader = await harness.page({ path: new URL(link).pathname });
  await eventually(async () => assert.match(await reader.locator("h2").textContent(), /To be <b>shared<\/b>/));
  await eventually(async () => assert.match(await reader.locator("article").textContent(), /weighs at least 50 grams/));
  const shown = await reader.content();
  assert.ok(!shown.includes("later question") && !shown.includes(harness.home) && !shown.includes("<script"), "nothing but that turn, no paths, no scripts");
  await clean(reader, "the shared page");
  await picture(reader, "34-shared");
  const headers = (await fetch(link)).headers;
  assert.match(headers.get("content-security-policy"), /default-src 'none'; style-src 'self'/);
  assert.equal(headers.get("x-robots-tag"), "noindex, nofollow");

  const { shares } = await get(harness, `/api/threads/${idOf(page)}/shares`);
  assert.deepEqual(shares.map((one) => [one.turns, one.path]), [[1, undefined]], "the link itself is not kept");
  await item(page, "Share");
  await page.getByRole("button", { name: /^Revoke the link/ }).click();
  await page.locator(".notice", { hasText: "revoked" }).waitFor({ state: "attached" });
  assert.equal((await fetch(link)).status, 404);
  const other = await fetch(`${harness.url}/share/${"0".repeat(64)}`);
  assert.equal(other.status, 404);
});

test("the command line shares, renames and revokes too", async () => {
  const page = await asked("What is a relay baton? From a terminal.");
  const thread = idOf(page);
  assert.match(harness.baton("threads", "rename", thread, "From the terminal"), /is now called "From the terminal"/);
  const [link, about] = harness.baton("threads", "share", thread, "--server", `${harness.url}/`).trim().split("\n");
  assert.match(about, /shows 1 turns; revoke it with: baton threads unshare/);
  assert.match(await (await fetch(link)).text(), /From the terminal/);
  assert.match(harness.baton("threads", "list"), /From the terminal/);
  assert.match(harness.baton("threads", "unshare", thread), /revoked 1 links/);
  assert.equal((await fetch(link)).status, 404);
});

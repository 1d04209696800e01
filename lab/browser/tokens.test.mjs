// A server that is not only for this machine: who comes in, what they see, and how they leave.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { clean } from "./axe.mjs";
import { ask, choose, eventually, open, picture } from "./harness.mjs";

let harness;
before(async () => (harness = await open({ token: "the operator's own" })));
after(() => harness.close());

const enter = async (page, token) => {
  await page.getByRole("textbox", { name: "Token" }).fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
};

/// The token that `baton tokens add` prints once.
const tokenFor = (user) => JSON.parse(harness.baton("tokens", "add", user, "--json")).token;

test("a token is asked for, a wrong one is refused in words, the right one lets in", async () => {
  const page = await harness.page();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await clean(page, "19-token");
  await picture(page, "19-token");
  await page.keyboard.press("Escape");
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await enter(page, "a guess");
  await page.getByRole("alert").filter({ hasText: "not valid on this server" }).waitFor();
  await enter(page, "the operator's own");
  await page.locator("dialog.token").waitFor({ state: "hidden" });
  await choose(page, "Flow", "direct");
  await ask(page, "What does the operator want to know?");
  await page.locator(".actions").waitFor();
  // What lets in from now on is not for scripts to read.
  await eventually(async () => assert.equal(await page.evaluate(() => document.cookie), ""));
  await page.reload();
  await page.locator(".thread", { hasText: "operator" }).waitFor();
});

test("another user sees nothing of it, and is out again after signing out", async () => {
  const page = await harness.page();
  await enter(page, tokenFor("ada"));
  await page.locator("dialog.token").waitFor({ state: "hidden" });
  await page.locator(".first").waitFor();
  await eventually(async () => assert.equal(await page.locator(".thread").count(), 0));
  await page.goto(`${harness.url}/#/settings`);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
});

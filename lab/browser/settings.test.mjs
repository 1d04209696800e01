// Settings of the chosen flow in the options: what is typed is sent, what is left is not, and what is wrong is shown.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, choose, eventually, open } from "./harness.mjs";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

/// What the page sends for the next question, and how the server answers.
async function posted(page, question) {
  const isRun = (response) => response.request().method() === "POST" && new URL(response.url()).pathname === "/api/runs";
  const [response] = await Promise.all([page.waitForResponse(isRun), ask(page, question)]);
  return { status: response.status(), body: response.request().postDataJSON() };
}

test("s13_a setting of the flow is typed in, sent, kept and reset", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await page.getByRole("button", { name: "Options" }).click();
  const turns = page.locator("input[name='max_turn_iterations']");
  await eventually(async () => assert.deepEqual([await turns.getAttribute("min"), await turns.getAttribute("max"), await turns.getAttribute("placeholder")], ["1", "10", "1"]));
  await turns.fill("2");
  const good = await posted(page, "How heavy is a relay baton?");
  assert.deepEqual([good.status, good.body.settings], [201, { max_turn_iterations: 2 }]);
  await page.locator(".sources").first().waitFor();

  // Kept in this browser, for this flow.
  await page.reload();
  await page.getByRole("button", { name: "Options" }).click();
  await eventually(async () => assert.equal(await page.locator("input[name='max_turn_iterations']").inputValue(), "2"));
  await page.locator("input[name='max_turn_iterations']").fill("99");
  const wrong = await posted(page, "And how long is it?");
  assert.equal(wrong.status, 422);
  await page.getByText("the setting max_turn_iterations cannot be 99").waitFor();
  page.troubles = page.troubles.filter((trouble) => !/status of 422/.test(trouble));

  await page.getByRole("button", { name: "Reset 1 setting" }).click();
  await page.locator("#question").fill("");
  const usual = await posted(page, "How long is a relay baton?");
  assert.deepEqual([usual.status, usual.body.settings], [201, undefined]);
});

test("s13_the flow that chooses shows the settings of those it chooses from", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "auto");
  await page.getByRole("button", { name: "Options" }).click();
  await page.locator(".flow-settings summary", { hasText: "Panel" }).click();
  await page.locator("input[name='panel.parallel_research']").check();
  await page.locator("input[name='panel.retry_limit']").fill("3");
  const { status, body } = await posted(page, "Hello");
  assert.deepEqual([status, body.settings], [201, { "panel.parallel_research": true, "panel.retry_limit": 3 }]);
});

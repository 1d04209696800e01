// For authors of flows: the state at each step with what changed, cost by node, the journal, breakpoints, and one node run again.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, choose, get, open, picture, post } from "./house.mjs";

let house;
before(async () => (house = await open()));
after(() => house.close());

test("the state, the costs and the journal of a run are in the drawer, and a node is run again with another state", async () => {
  const page = await house.page();
  await choose(page, "Flow", "search");
  await ask(page, "How heavy is a relay baton? To be inspected.");
  await page.locator(".sources").waitFor();
  const original = page.url();
  await page.locator(".work-toggle").click();
  await page.getByRole("button", { name: "Inspect the state, cost and journal" }).click();
  const drawer = page.getByRole("dialog", { name: "Inspect" });
  await drawer.getByLabel("On entering step").selectOption({ label: "2: plan" });
  await drawer.locator(".changes", { hasText: "/tools/" }).waitFor();
  await picture(page, "inspect-state");
  await drawer.getByRole("button", { name: "Cost by node" }).click();
  const row = drawer.getByRole("row", { name: /^plan/ });
  assert.match(await row.textContent(), /^plan1/);
  await drawer.getByRole("button", { name: "Journal" }).click();
  await drawer.getByText("0 started").click();
  await drawer.locator(".journal pre", { hasText: "To be inspected" }).first().waitFor();
  await drawer.getByRole("button", { name: "State", exact: true }).click();
  await drawer.getByLabel("On entering step").selectOption({ label: "2: plan" });
  await drawer.getByRole("button", { name: "Edit the state" }).click();
  const text = drawer.getByLabel("State as JSON");
  const state = JSON.parse(await text.inputValue());
  await text.fill(JSON.stringify({ ...state, question: "Where do relay races come from?" }));
  await drawer.getByRole("button", { name: "Run only this node" }).click();
  await page.waitForFunction((before) => location.href !== before, original);
  const asking = page.locator(".asking", { hasText: "Paused at a breakpoint" });
  await asking.waitFor();
  await asking.getByText(/before the node execute/).waitFor();
  await asking.getByRole("button", { name: "End the run" }).click();
  await page.getByText(/ended at the breakpoint before execute/).waitFor();
});

test("a run that is started with a breakpoint waits there and goes on", async () => {
  const wish = { question: "How heavy is a relay baton? To be paused.", flow: "search", breakpoints: ["synthesize"] };
  const wrong = await post(house, "/api/runs", { ...wish, breakpoints: ["nowhere"] });
  assert.equal(wrong.status, 422);
  assert.match(JSON.stringify(wrong.body), /synthesize/);
  const { body } = await post(house, "/api/runs", wish);
  const page = await house.page({ path: `/t/${body.thread}` });
  await page.locator(".asking", { hasText: "before the node synthesize" }).getByRole("button", { name: "Continue" }).click();
  await page.locator(".sources").waitFor();
  const { steps } = await get(house, `/api/runs/${body.run}/steps`);
  assert.equal(steps.filter((one) => one.node === "synthesize").length, 2, "the pause is a step of its own");
});

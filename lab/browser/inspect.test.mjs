// For authors of flows: the state at each step with what changed, cost by node, the journal, breakpoints, and one node run again.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { patchOf } from "../../web/js/model/merge_patch.js";
import { LOOKS, SIZES, clean, fits } from "./axe.mjs";
import { ask, choose, eventually, get, open, picture, post } from "./harness.mjs";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

test("the state, the costs and the journal of a run are in the drawer, and a node is run again with another state", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await ask(page, "How heavy is a relay baton? To be inspected.");
  await page.locator(".sources").waitFor();
  const original = page.url();
  await page.locator(".work-toggle").click();
  await page.getByRole("button", { name: "Inspect the state, cost and journal" }).click();
  const drawer = page.getByRole("dialog", { name: "Inspect" });
  await drawer.getByLabel("On entering step").selectOption({ label: "2: plan" });
  await drawer.locator(".changes", { hasText: "/tools/" }).waitFor();
  await clean(page, "inspect-state");
  await picture(page, "inspect-state");
  await drawer.getByRole("button", { name: "Prompts" }).click();
  await drawer.locator(".prompts summary", { hasText: "plan" }).first().click();
  await drawer.locator(".prompts .message pre", { hasText: "To be inspected" }).first().waitFor();
  await clean(page, "inspect-prompts");
  await picture(page, "inspect-prompts");
  await drawer.getByRole("button", { name: "Cost by node" }).click();
  const row = drawer.getByRole("row", { name: /^plan/ });
  await row.waitFor();
  await eventually(async () => assert.match(await row.textContent(), /^plan1/));
  await drawer.getByRole("button", { name: "Journal" }).click();
  await drawer.getByText("0 started").click();
  await drawer.locator(".journal pre", { hasText: "To be inspected" }).first().waitFor();
  await drawer.getByRole("button", { name: "State", exact: true }).click();
  await drawer.getByLabel("On entering step").selectOption({ label: "2: plan" });
  await drawer.getByRole("button", { name: "Edit the state" }).click();
  const text = drawer.getByLabel("State as JSON");
  const state = JSON.parse(await text.inputValue());
  await text.fill("no JSON");
  await drawer.getByRole("button", { name: "Continue with this state" }).click();
  await drawer.getByRole("alert").filter({ hasText: "That is not JSON" }).waitFor();
  await text.fill(JSON.stringify({ ...state, question: "Where do relay races come from?" }));
  await drawer.getByRole("button", { name: "Run only this node" }).click();
  await page.waitForFunction((before) => location.href !== before, original);
  const asking = page.locator(".asking", { hasText: "Paused at a breakpoint" });
  await asking.waitFor();
  await asking.getByText(/before the node execute/).waitFor();
  await asking.getByRole("button", { name: "End the run" }).click();
  await page.getByText(/ended at the breakpoint before execute/).waitFor();
});

test("a merge patch makes one state of the other", () => {
  const before = { a: 1, b: { c: [1, 2], d: 3 }, gone: true };
  assert.deepEqual(patchOf(before, { a: 1, b: { c: [2], d: 3 }, new: "x" }), { b: { c: [2] }, gone: null, new: "x" });
  assert.deepEqual(patchOf(before, before), {});
});

test("breakpoints are chosen on the page; the state is changed there before the run continues", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await page.getByRole("button", { name: "Options", exact: true }).click();
  await page.getByText("Breakpoints: pause before a node of the flow").click();
  await page.getByRole("group", { name: "Breakpoints" }).getByLabel("plan", { exact: true }).check();
  await clean(page, "inspect-breakpoints");
  await picture(page, "inspect-breakpoints");
  await page.getByRole("button", { name: "Options", exact: true }).click();
  await page.getByText("Options set: pauses before: plan").waitFor();
  await ask(page, "How heavy is a relay baton? To be changed at a breakpoint.");
  const asking = page.locator(".asking", { hasText: "before the node plan" });
  await asking.getByRole("button", { name: "Change the state first" }).click();
  const text = asking.getByLabel("State as JSON");
  await text.waitFor();
  await clean(page, "inspect-paused");
  await picture(page, "inspect-paused");
  const state = JSON.parse(await text.inputValue());
  await text.fill(JSON.stringify({ ...state, question: "Where do relay races come from? Changed by hand." }));
  await asking.getByRole("button", { name: "Continue with this state" }).click();
  await page.locator(".sources").waitFor();
  const { runs } = await get(harness, "/api/runs?limit=20");
  const { run } = runs.find((one) => one.title.includes("To be changed at a breakpoint"));
  const { steps } = await get(harness, `/api/runs/${run}/steps`);
  const last = await get(harness, `/api/runs/${run}/steps/${steps.at(-1).step}`);
  assert.equal(last.state.question, "Where do relay races come from? Changed by hand.");
  await page.getByRole("button", { name: "Remove all" }).click();
  await page.getByText("Options set").waitFor({ state: "hidden" });
});

test("a run that is started with a breakpoint waits there and goes on", async () => {
  const wish = { question: "How heavy is a relay baton? To be paused.", flow: "search", breakpoints: ["synthesize"] };
  const wrong = await post(harness, "/api/runs", { ...wish, breakpoints: ["nowhere"] });
  assert.equal(wrong.status, 422);
  assert.match(JSON.stringify(wrong.body), /synthesize/);
  const { body } = await post(harness, "/api/runs", wish);
  const page = await harness.page({ path: `/#/t/${body.thread}` });
  await page.locator(".asking", { hasText: "before the node synthesize" }).getByRole("button", { name: "Continue" }).click();
  await page.locator(".sources").waitFor();
  const { steps } = await get(harness, `/api/runs/${body.run}/steps`);
  assert.equal(steps.filter((one) => one.node === "synthesize").length, 2, "the pause is a step of its own");
});

for (const [colorScheme, size] of LOOKS) {
  test(`inspection and a breakpoint, ${colorScheme}, ${size}`, async () => {
    const { body } = await post(harness, "/api/runs", { question: `How heavy is a relay baton? Looked at on a ${colorScheme} ${size}.`, flow: "search", breakpoints: ["execute"] });
    const page = await harness.page({ path: `/#/t/${body.thread}`, colorScheme, reducedMotion: "reduce", ...SIZES[size] });
    const asking = page.locator(".asking", { hasText: "before the node execute" });
    await asking.getByRole("button", { name: "Change the state first" }).click();
    await asking.getByLabel("State as JSON").waitFor();
    await clean(page, "breakpoint");
    await fits(page, "breakpoint");
    await asking.getByRole("button", { name: "Inspect the state, cost and journal" }).click();
    const drawer = page.getByRole("dialog", { name: "Inspect" });
    await drawer.getByRole("heading", { name: "Run again from here" }).waitFor();
    await clean(page, "state");
    await drawer.getByRole("button", { name: "Prompts" }).click();
    await drawer.locator(".prompts summary").first().click();
    await clean(page, "prompts");
    await drawer.getByRole("button", { name: "Cost by node" }).click();
    await drawer.locator("table").waitFor();
    await clean(page, "costs");
    await drawer.getByRole("button", { name: "Journal" }).click();
    await drawer.locator(".journal summary").first().click();
    await clean(page, "journal");
    await fits(page, "inspection");
    await picture(page, `inspect-${colorScheme}-${size}`);
  });
}

// A person's part: a plan agreed to and changed, a step looked into, a branch with another reply, two runs side by side.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { clean } from "./axe.mjs";
import { ask, choose, events, eventually, get, open, picture } from "./harness.mjs";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

const searches = (all) => all.filter((one) => one.event === "asked" && one.effect?.call_tool?.tool === "docs.search").map((one) => one.effect.call_tool.arguments.query);

test("a plan is changed by a person, and what they agreed to is what runs", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await page.getByRole("button", { name: "Options" }).click();
  await page.getByLabel("Show me the plan first").check();
  await ask(page, "How heavy is a relay baton? I want to see the plan.");
  await page.locator(".asking", { hasText: "Is this plan right?" }).waitFor();
  await clean(page, "5-plan");
  await picture(page, "5-plan");
  await eventually(async () => assert.equal(await page.locator(".plan-step").count(), 2));
  await eventually(async () => assert.equal(await page.locator(".graph .node-planned").count(), 2, "planned steps are in the graph, not lit"));
  await page.getByLabel("query of step 1").fill("circumference of the baton");
  await page.getByLabel(/^Step 2/).uncheck();
  await page.getByRole("button", { name: "Run the changed plan" }).click();
  await page.locator(".sources").waitFor();
  const { runs } = await get(harness, "/api/runs?limit=10");
  const run = runs.find((one) => one.title.includes("I want to see the plan") && !one.parent);
  assert.deepEqual(searches(await events(harness, run.run)), ["circumference of the baton"]);
  await page.getByLabel("Show me the plan first").uncheck();
});

test("a plan that is declined is not carried out", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await page.getByRole("button", { name: "Options" }).click();
  await page.getByLabel("Show me the plan first").check();
  await ask(page, "How heavy is a relay baton? To be declined.");
  await page.getByRole("button", { name: "Decline", exact: true }).click();
  await page.locator(".answer .prose", { hasText: "not approved" }).waitFor();
  const { runs } = await get(harness, "/api/runs?limit=10");
  const run = runs.find((one) => one.title.includes("To be declined") && !one.parent);
  assert.deepEqual(searches(await events(harness, run.run)), []);
});

test("x3_a step is opened, and a branch goes on from it with another reply", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await ask(page, "Where do relay races come from? To be branched.");
  await page.locator(".sources").waitFor();
  const original = page.url();
  await page.locator(".work-toggle").click();
  await page.locator(".node", { hasText: "planning" }).click();
  const drawer = page.locator(".drawer");
  await drawer.getByText("Prompt").waitFor();
  await eventually(async () => assert.match(await drawer.textContent(), /tokens? in/));
  await eventually(async () => assert.match(await drawer.locator(".part pre").last().textContent(), /relay baton weight and length/));
  await clean(page, "6-step");
  await picture(page, "6-step");
  await drawer.getByRole("button", { name: "Branch from here" }).click();
  const reply = drawer.getByLabel(/^Reply/);
  const plan = JSON.parse(await reply.inputValue());
  plan.tasks = [{ ...plan.tasks[0], tool_arguments: { query: "men's record over 4 x 100 metres" }, description: "The record" }];
  await reply.fill(JSON.stringify(plan));
  await drawer.getByRole("button", { name: "Branch with this" }).click();
  await page.waitForFunction((before) => location.href !== before, original);
  await page.locator(".actions").waitFor();
  await page.locator(".node", { hasText: "The record" }).or(page.locator(".work-toggle")).first().waitFor();
  const [, run] = /\/t\/[^/]+\/([^/]+)$/.exec(page.url());
  assert.deepEqual(searches(await events(harness, run)), ["men's record over 4 x 100 metres"]);

  await page.getByRole("button", { name: "Compare" }).click();
  await page.locator(".choose li", { hasText: "branched from" }).locator("a").click();
  await page.locator(".side .prose").nth(1).waitFor();
  await page.locator(".is-other").first().waitFor();
  await clean(page, "7-side-by-side");
  await picture(page, "7-side-by-side");
  await eventually(async () => assert.match(await page.locator(".compare table").textContent(), /answered differently|asked differently|only here/));
});

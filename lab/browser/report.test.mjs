// A report on the page: its outline is changed, revised and approved; the document has contents, one list of sources, and four formats.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { LOOKS, SIZES, clean, fits } from "./axe.mjs";
import { ask, choose, events, eventually, get, open, picture } from "./harness.mjs";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

const researched = (all) => all.filter((one) => one.event === "asked" && one.effect?.call_agent?.agent === "search").map((one) => one.effect.call_agent.input.question);
const runOf = async (title) => (await get(harness, "/api/runs?limit=20")).runs.find((one) => one.title.includes(title) && !one.parent);

test("an outline is changed by a person, and the report is a document with contents", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "report");
  await ask(page, "Relay batons, to be changed");
  const asking = page.locator(".asking", { hasText: "Is this plan right?" });
  await asking.waitFor();
  await asking.getByText(/^Estimate for 3 sections: up to .* about \$/).waitFor();
  await eventually(async () => assert.equal(await page.locator(".plan-step").count(), 3));
  await page.getByRole("button", { name: "Move step 3 up" }).click();
  await page.getByLabel(/^Step 3: History/).uncheck();
  await page.getByRole("button", { name: "Add a section" }).click();
  await page.getByLabel("heading of step 4").fill("First race");
  await page.getByLabel("question of step 4").fill("Where was the first relay race?");
  await clean(page, "report-outline");
  await picture(page, "report-outline");
  await page.getByRole("button", { name: "Run the changed plan" }).click();
  await page.locator(".sources").waitFor();
  const run = await runOf("to be changed");
  await eventually(async () => {
    const all = await events(harness, run.run);
    assert.equal(all.filter((one) => one.event === "started" && one.flow === "search").length, 3, "each section is a child run");
    assert.deepEqual(researched(all), ["How long and heavy is a relay baton?", "How is a relay baton handed over?", "Where was the first relay race?"]);
  });
  const contents = page.getByRole("navigation", { name: "Contents" });
  await eventually(async () => assert.deepEqual(await contents.getByRole("button").allTextContents(), ["Relay batons", "Summary", "Length and weight", "Handover", "First race"]));
  await contents.getByRole("button", { name: "First race" }).click();
  await eventually(async () => assert.equal(await page.evaluate(() => document.activeElement.textContent), "First race"));
  await clean(page, "report-document");
  await picture(page, "report-document");
  for (const [ending, type] of [["md", "text/markdown"], ["html", "text/html"], ["docx", "openxmlformats"], ["pdf", "application/pdf"]]) {
    const response = await fetch(`${harness.url}/api/runs/${run.run}/answer.${ending}`);
    assert.equal(response.status, 200, ending);
    assert.match(response.headers.get("content-type"), new RegExp(type));
    assert.match(response.headers.get("content-disposition"), /Relay-batons/);
  }
  await page.locator(".cite").first().click();
  await page.locator(".drawer", { hasText: "28 to 30 centimetres" }).waitFor();
});

test("an outline is revised by the planner for a reason, and declined with one", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "report");
  await ask(page, "Relay batons, to be revised");
  await page.getByLabel(/^What should change/).fill("Leave out the history");
  await page.getByRole("button", { name: "Revise the plan" }).click();
  await page.getByText(/^Estimate for 2 sections/).waitFor();
  await eventually(async () => assert.equal(await page.locator(".plan-step").count(), 2));
  await page.getByLabel(/^What should change/).fill("not now");
  await page.getByRole("button", { name: "Decline", exact: true }).click();
  await page.locator(".answer .prose", { hasText: "nothing was researched: not now." }).waitFor();
  const run = await runOf("to be revised");
  assert.deepEqual(researched(await events(harness, run.run)), []);
});

for (const [colorScheme, size] of LOOKS) {
  test(`a report, ${colorScheme}, ${size}`, async () => {
    const page = await harness.page({ colorScheme, reducedMotion: "reduce", ...SIZES[size] });
    await choose(page, "Flow", "report");
    await ask(page, `Relay batons on a ${colorScheme} ${size}`);
    await page.locator(".asking", { hasText: "Is this plan right?" }).waitFor();
    await clean(page, "outline");
    await fits(page, "outline");
    await page.getByRole("button", { name: "Run it" }).click();
    await page.locator(".sources").waitFor();
    await page.getByRole("navigation", { name: "Contents" }).waitFor();
    await clean(page, "document");
    await fits(page, "document");
    await page.locator(".actions .menu summary").click();
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: /Word/ }).click()]);
    assert.match(download.suggestedFilename(), /Relay-batons.*\.docx$/);
    await clean(page, `report-${colorScheme}-${size}`);
    await picture(page, `report-${colorScheme}-${size}`);
  });
}

// Markdown in a checked answer: code blocks and tables stay what they are, and only what was compared with a source has a status.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { clean } from "./axe.mjs";
import { ask, choose, eventually, open, picture } from "./harness.mjs";

const CODE = "def weight(grams: int) -> bool:\n    # The rule: at least 50 | grams. See [1].\n\n    return grams >= 50";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

const read = async (prose) => ({
  code: await prose.locator("pre code").allTextContents(),
  cells: await prose.locator("tr").evaluateAll((rows) => rows.map((row) => row.cells.length)),
});

for (const flow of ["search", "direct"]) {
  test(`a code block and a table are the same before and after the check, ${flow}`, async () => {
    const page = await harness.page();
    await choose(page, "Flow", flow);
    await ask(page, "How heavy is a relay baton? In blocks, slowly.");
    await page.waitForFunction(() => document.querySelectorAll(".draft .prose tr").length >= 3);
    const before = await read(page.locator(".draft .prose"));
    assert.equal(before.code[0], CODE);
    await page.locator(".sources").waitFor();
    const prose = page.locator(".answer .prose");
    const after = await read(prose);
    assert.deepEqual(after.code, [CODE]);
    assert.deepEqual(after.cells, [2, 2, 2, 2]);
    await eventually(async () => assert.equal(await prose.locator("td.align-end").count(), 3));
    await eventually(async () => assert.equal(await prose.locator("pre .sentence, pre .cite").count(), 0, "nothing in code is marked"));
    await eventually(async () => assert.equal(await prose.locator("h3", { hasText: "3 facts" }).locator(".sentence").count(), 0, "a heading has no status"));
    await eventually(async () => assert.ok((await prose.locator("td .sentence-supported").count()) > 0, "rows have one"));
    await eventually(async () => assert.ok((await prose.locator("td .cite").count()) >= 2, "and their citations"));
    await eventually(async () => assert.ok((await prose.locator("td .sentence-unsupported", { hasText: "7 kinds" }).count()) === 1));
    const hidden = await prose.locator("tr", { hasText: "7 kinds" }).textContent();
    assert.equal(hidden.match(/not supported/g)?.length, 1, "read aloud once in a row of several cells");
    await clean(page, `20-blocks-${flow}`);
    await picture(page, `20-blocks-${flow}`);
  });
}

test("two answers with the same parts are no landmarks of the same name", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  for (const count of [1, 2]) {
    await ask(page, `How heavy is a relay baton? In blocks, number ${count}.`);
    await eventually(async () => assert.equal(await page.locator(".sources").count(), count));
    await page.locator(".turn").last().locator(".actions").waitFor();
  }
  assert.equal(await page.locator(".prose .table").count(), 2);
  await clean(page, "two answers with code, tables and sources");
});

test("an answer without sources is not checked, and nothing in it is marked", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "direct");
  await ask(page, "Hello there");
  await page.locator(".actions").waitFor();
  await eventually(async () => assert.equal(await page.locator(".sources").count(), 0));
  await page.locator(".standing", { hasText: "Not checked" }).waitFor();
  await eventually(async () => assert.equal(await page.locator(".sentence-unsupported, .sentence-weak").count(), 0));
});

test("a notice of the program itself is not marked as wrong", async () => {
  const page = await harness.page();
  await choose(page, "Flow", "search");
  await page.getByRole("button", { name: "Options" }).click();
  await page.getByLabel("Show me the plan first").check();
  await ask(page, "How heavy is a relay baton? Declined at once.");
  await page.getByRole("button", { name: "Decline", exact: true }).click();
  await page.locator(".answer .prose", { hasText: "not approved" }).waitFor();
  await page.locator(".standing", { hasText: "Not checked" }).waitFor();
  await eventually(async () => assert.equal(await page.locator(".sentence-unsupported, .sentence-weak").count(), 0));
});

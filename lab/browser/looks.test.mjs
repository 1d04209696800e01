// What other files try once, at three sizes, light and dark: attached files and chosen sources, code and formulas, cards of citations, suggested questions,
// what a failed run had found, the dialogs of a conversation, the plan editor, the shortcuts. Nothing is cut off, and axe finds nothing.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { LOOKS, SIZES, clean, fits } from "./axe.mjs";
import { ask, choose, eventually, open } from "./harness.mjs";

let harness;
before(async () => (harness = await open()));
after(() => harness.close());

for (const [colorScheme, size] of LOOKS) {
  test(`attachments, sources, answers and dialogs, ${colorScheme}, ${size}`, async () => {
    const page = await harness.page({ colorScheme, reducedMotion: "reduce", ...SIZES[size] });
    const looked = async (where) => (await fits(page, where), await clean(page, `${where}, ${colorScheme}, ${size}`));
    const file = path.join(harness.home, `notes-of-${colorScheme}-${size}-with-a-long-name.txt`);
    fs.writeFileSync(file, "The baton of Lyon weighs 61 grams and is made of copper.");
    await page.getByLabel("Attach files").setInputFiles(file);
    await page.locator(".attached small", { hasText: "ready" }).waitFor();
    await page.getByRole("button", { name: "Options" }).click();
    await page.getByLabel("Only these").check();
    await looked("an attached file and the choice of sources");
    await page.getByLabel("Everything").check();
    await page.keyboard.press("Escape");

    await choose(page, "Flow", "search");
    await ask(page, "How heavy is a relay baton, and did the Greeks invent it? In blocks.");
    await page.locator(".follow-up").first().waitFor();
    await page.locator(".code-block .code-keyword").first().waitFor();
    await looked("an answer with code, a table and suggested questions");
    await page.locator(".cite").first().focus();
    await page.locator(".hover-card").waitFor();
    const card = await page.locator(".hover-card").boundingBox();
    assert.ok(card.x >= 0 && card.x + card.width <= SIZES[size].viewport.width, JSON.stringify(card));
    await looked("the card of a citation");
    await page.keyboard.press("Escape");

    await choose(page, "Flow", "direct");
    await ask(page, "Show me formulas.");
    await page.locator("math").first().waitFor();
    // The draft shows formulas too; the next question needs the end of the run.
    await page.locator(".turn .actions").nth(1).waitFor();
    await looked("formulas");
    await choose(page, "Flow", "search");
    await ask(page, "How heavy is a relay baton? The model is out of order.");
    const found = page.locator(".found-before");
    await found.waitFor();
    await eventually(async () => assert.match(await found.innerText(), /50 grams/));
    assert.doesNotMatch(await found.innerText(), /not supported|Found until then/, "the program's own sentences are not checked, and shown once");
    await looked("a failed run");

    for (const [name, shown] of [["Rename", "dialog[open]"], ["Tags", "dialog[open]"], ["Share", "dialog[open]"], ["Find in this conversation", ".find"]]) {
      await page.locator(".head summary", { hasText: "Conversation" }).click();
      await page.locator(".head .menu-list").getByText(name).click();
      await page.locator(shown).waitFor();
      await looked(name);
      await page.keyboard.press("Escape");
      await page.locator(shown).waitFor({ state: "detached" });
    }
    await page.locator("#main").focus();
    await page.keyboard.press("?");
    await page.locator("dialog[open] .shortcuts").waitFor();
    await looked("the shortcuts");
    await page.keyboard.press("Escape");
  });

  test(`a plan is read from its beginning and can be edited, ${colorScheme}, ${size}`, async () => {
    const page = await harness.page({ colorScheme, reducedMotion: "reduce", ...SIZES[size] });
    await choose(page, "Flow", "report");
    await ask(page, "Write a report on relay batons");
    await page.locator(".plan-step").nth(2).waitFor();
    await eventually(async () => {
      const top = (await page.locator(".asking h3").boundingBox()).y;
      assert.ok(top >= 0 && top < SIZES[size].viewport.height / 2, `the heading is at ${top} px`);
    });
    for (const area of await page.locator(".plan-field textarea").all()) {
      const [text, room] = await area.evaluate((one) => [one.scrollHeight, one.clientHeight]);
      assert.ok(text <= room + 1, `${text} px of text in ${room} px`);
    }
    await fits(page, "a plan");
    await clean(page, `a plan, ${colorScheme}, ${size}`);
    await page.getByRole("button", { name: "Decline" }).click();
    await page.locator(".turn .actions").waitFor();
  });
}

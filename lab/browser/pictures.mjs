// Pictures of the ten main states of the page, for the README and the guide: `BATON_BIN=… node lab/browser/pictures.mjs [NAME]…` writes them to
// lab/browser/pictures.
import fs from "node:fs";
import path from "node:path";
import { ask, choose, here, open, post } from "./harness.mjs";

const BYTES_MAX = 150_000;
const DESKTOP = { viewport: { width: 1440, height: 900 }, deviceScaleFactor: 0.8 };
const SMALLER = { viewport: { width: 1200, height: 760 }, deviceScaleFactor: 0.7 };
const PHONE = { viewport: { width: 390, height: 780 }, deviceScaleFactor: 1, isMobile: true, hasTouch: true };
const QUESTIONS = ["Who holds the record over 4 x 100 metres?", "In one sentence: what is a relay baton?", "What happens when the baton is dropped?"];
const wanted = process.argv.slice(2);

const harness = await open();
for (const question of QUESTIONS) {
  const page = await harness.page();
  await ask(page, question);
  await page.locator(".actions").waitFor();
  await page.context().close();
}

await state("first", SMALLER, async (page) => {
  await page.locator(".first-card").first().waitFor();
});
await state("plan-and-answer", DESKTOP, async (page) => {
  await answered(page, "How heavy is a relay baton, where do relays come from, and did the Greeks invent it?");
  await page.locator(".work-toggle").click();
  await page.locator(".node-done").nth(4).waitFor();
});
await state("source-dark", { ...DESKTOP, deviceScaleFactor: 0.7, colorScheme: "dark" }, async (page) => {
  await answered(page, "How heavy is a relay baton, where do relays come from, and did the Greeks invent it?");
  await page.locator(".cite").first().click();
  await page.locator(".span-mark").waitFor();
});
await state("plan-approval", SMALLER, async (page) => {
  await choose(page, "Flow", "search");
  await page.getByRole("button", { name: "Options" }).click();
  await page.getByLabel("Show me the plan first").check();
  await page.getByRole("button", { name: "Options" }).click();
  await ask(page, "How heavy is a relay baton, and where do relays come from?");
  await page.locator(".plan-step").first().waitFor();
});
await state("compare", SMALLER, async (page) => {
  const runs = [];
  for (const question of ["How heavy is a relay baton?", "How heavy is a relay baton, and did the Greeks invent it?"]) {
    const { body } = await post(harness, "/api/runs?wait=1", { question, flow: "search" });
    runs.push(body.run);
  }
  await page.goto(`${harness.url}/#/compare/${runs[0]}/${runs[1]}`);
  await page.locator(".side .sources").nth(1).waitFor();
});
await state("report-outline", SMALLER, async (page) => {
  await choose(page, "Flow", "report");
  await ask(page, "Write a report on relay batons");
  await page.locator(".plan-step").first().waitFor();
});
await state("report", SMALLER, async (page) => {
  await choose(page, "Flow", "report");
  await ask(page, "Write a report on relay batons, please");
  await page.getByRole("button", { name: "Run it" }).click();
  const contents = page.getByRole("navigation", { name: "Contents" });
  await contents.waitFor();
  await page.locator(".sources").waitFor();
  await contents.scrollIntoViewIfNeeded();
});
await state("inspect", SMALLER, async (page) => {
  const { body } = await post(harness, "/api/runs", { question: "How heavy is a relay baton? With a breakpoint.", flow: "search", breakpoints: ["execute"] });
  await page.goto(`${harness.url}/#/t/${body.thread}`);
  await page.locator(".asking").getByRole("button", { name: "Inspect the state, cost and journal" }).click();
  await page.locator(".changes li").first().waitFor();
});
await state("tools", SMALLER, async (page) => {
  await page.goto(`${harness.url}/#/tools`);
  await page.locator(".tool").first().waitFor();
});
await state("phone-dark", { ...PHONE, colorScheme: "dark" }, async (page) => {
  await answered(page, "How heavy is a relay baton, and did the Greeks invent it?");
});
await harness.close();

async function answered(page, question) {
  await choose(page, "Flow", "search");
  await ask(page, question);
  await page.locator(".sources").waitFor();
}

async function state(name, look, reach) {
  if (wanted.length > 0 && !wanted.includes(name)) return;
  const page = await harness.page({ ...look, reducedMotion: "reduce" });
  await reach(page);
  await page.mouse.move(0, 0);
  await page.locator(".notice").first().waitFor({ state: "detached" });
  const file = path.join(here, "pictures", `${name}.png`);
  await page.screenshot({ path: file });
  const bytes = fs.statSync(file).size;
  if (bytes > BYTES_MAX) throw new Error(`${name}.png has ${bytes} bytes, more than ${BYTES_MAX}`);
  console.log(`${name}.png ${bytes} bytes`);
  await page.context().close();
}

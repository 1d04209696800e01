// The two pictures of the README, made from the real page: `BATON_BIN=… node lab/browser/pictures.mjs` writes them to lab/browser/pictures.
import path from "node:path";
import { ask, choose, here, open } from "./house.mjs";

const BYTES_MAX = 150_000;
const QUESTIONS = ["Who holds the record over 4 x 100 metres?", "In one sentence: what is a relay baton?", "What happens when the baton is dropped?"];

const house = await open();
const page = await house.page({ viewport: { width: 1440, height: 900 }, deviceScaleFactor: 0.8 });
for (const question of QUESTIONS) {
  await page.goto(`${house.url}/#/`);
  await ask(page, question);
  await page.locator(".question", { hasText: question }).waitFor();
  await page.locator(".actions").waitFor();
}
await page.goto(`${house.url}/#/`);
await choose(page, "Flow", "search");
await ask(page, "How heavy is a relay baton, where do relays come from, and did the Greeks invent it?");
await page.locator(".sources").waitFor();
await page.locator(".work-toggle").click();
await page.locator(".node-done").nth(4).waitFor();
await page.mouse.move(0, 0);
await page.waitForTimeout(500);
await save("plan-and-answer");
await page.emulateMedia({ colorScheme: "dark" });
await page.locator(".cite").first().click();
await page.locator(".span-mark").waitFor();
await page.waitForTimeout(500);
await save("source-dark");
await house.close();

async function save(name) {
  const bytes = (await page.screenshot({ path: path.join(here, "pictures", `${name}.png`) })).length;
  if (bytes > BYTES_MAX) throw new Error(`${name}.png has ${bytes} bytes, more than ${BYTES_MAX}`);
  console.log(`${name}.png ${bytes} bytes`);
}

// What axe finds on a page, and the sizes and colours in which the page is looked at.
import assert from "node:assert/strict";
import fs from "node:fs";
import { eventually, require } from "./harness.mjs";

const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

/// No finding of any impact that lasts: a page that is still loading is looked at again.
export async function clean(page, where) {
  await eventually(async () => {
    // A bundle that is put in by the debugger is not held to the page's policy.
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    assert.deepEqual(violations.map((one) => `${where}: ${one.impact} ${one.id}: ${one.nodes.map((node) => `${node.html.slice(0, 160)} ${node.failureSummary?.slice(0, 200)}`).join(" | ")}`), []);
  });
}

export const SIZES = {
  desktop: { viewport: { width: 1440, height: 900 } },
  tablet: { viewport: { width: 820, height: 1100 }, hasTouch: true },
  phone: { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true },
};

/// Three sizes, light and dark, as `[colorScheme, size]`.
export const LOOKS = Object.keys(SIZES).flatMap((size) => [["light", size], ["dark", size]]);

/// Nothing is wider than the screen.
export async function fits(page, where) {
  const [wide, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(wide <= screen, `${where}: ${wide} px on a screen of ${screen} px`);
}

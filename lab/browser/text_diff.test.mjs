// The difference of two texts, without a browser.
import assert from "node:assert/strict";
import test from "node:test";
import { textDiff } from "../../web/js/model/text_diff.js";

const diff = (left, right) => textDiff(left, right).map(({ kind, text }) => `${{ same: " ", left: "-", right: "+" }[kind]}${text}`).join("|");

test("lines are the same, only left or only right", () => {
  for (const [left, right, expected] of [
    ["a\nb\nc", "a\nb\nc", " a| b| c"],
    ["a\nb\nc", "a\nx\nc", " a|-b|+x| c"],
    ["a", "a\nb", " a|+b"],
    ["a\nb\nc\nd", "b\nd", "-a| b|-c| d"],
    ["", "x", "-|+x"],
  ]) {
    assert.equal(diff(left, right), expected);
  }
  assert.equal(textDiff("x\n".repeat(5_000), "y").length, 2_001);
});

// What is vendored is what npm has, but for the line that names a source map.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import test from "node:test";
import { require, web } from "./harness.mjs";

const FILES = { "preact.mjs": "preact/dist/preact.mjs", "hooks.mjs": "preact/hooks/dist/hooks.mjs", "htm.mjs": "htm/dist/htm.mjs", "LICENSE-preact": "preact/LICENSE", "LICENSE-htm": "htm/LICENSE" };

for (const [ours, theirs] of Object.entries(FILES)) {
  test(`${ours} is ${theirs}`, () => {
    const read = (file) => fs.readFileSync(file, "utf8").replace(/\n?\/\/# sourceMappingURL=.*/, "").trimEnd();
    const modules = path.resolve(path.dirname(require.resolve("playwright-core/package.json")), "..");
    assert.equal(read(path.join(web, "vendor", ours)), read(path.join(modules, theirs)));
  });
}

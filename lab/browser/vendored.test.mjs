// What is vendored is what npm has, but for the line that names a source map.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import test from "node:test";
import zlib from "node:zlib";
import { require, web } from "./harness.mjs";

const FILES = { "preact.mjs": "preact/dist/preact.mjs", "hooks.mjs": "preact/hooks/dist/hooks.mjs", "htm.mjs": "htm/dist/htm.mjs", "mermaid.tiny.js.gz": "@mermaid-js/tiny/dist/mermaid.tiny.js", "LICENSE-mermaid": "@mermaid-js/tiny/LICENSE", "LICENSE-preact": "preact/LICENSE", "LICENSE-htm": "htm/LICENSE" };

for (const [ours, theirs] of Object.entries(FILES)) {
  test(`${ours} is ${theirs}`, () => {
    const plain = (file) => (file.endsWith(".gz") ? zlib.gunzipSync(fs.readFileSync(file)).toString("utf8") : fs.readFileSync(file, "utf8"));
    const read = (file) => plain(file).replace(/\n?\/\/# sourceMappingURL=.*/, "").trimEnd();
    const modules = path.resolve(path.dirname(require.resolve("playwright-core/package.json")), "..");
    assert.equal(read(path.join(web, "vendor", ours)), read(path.join(modules, theirs)));
  });
}

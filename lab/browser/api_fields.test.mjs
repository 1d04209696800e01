// The fields that the page reads are fields that the API describes (crates/server/openapi.json). Needs no browser.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const { schemas } = JSON.parse(fs.readFileSync(path.join(root, "crates/server/openapi.json"), "utf8")).components;

/// Names of the properties of a schema and of all that it is made of.
function fieldsOf(schema) {
  if (schema.$ref) return fieldsOf(schemas[schema.$ref.split("/").at(-1)]);
  const parts = [...(schema.oneOf ?? []), ...(schema.anyOf ?? []), ...(schema.allOf ?? [])];
  return [...Object.keys(schema.properties ?? {}), ...parts.flatMap(fieldsOf)];
}

/// Fields that are read of a variable, as `name.field`, `name?.field` or `const { field } = name`.
function readOf(source, name) {
  const dotted = [...source.matchAll(new RegExp(`(?<![./\\w])${name}\\??\\.(\\w+)`, "g"))].map(([, field]) => field);
  const taken = [...source.matchAll(new RegExp(`\\{([^{}]*)\\} = ${name}[;,)]`, "g"))].flatMap(([, list]) => list.split(",").map((part) => part.split(/[:=]/)[0].trim()));
  return new Set([...dotted, ...taken].filter(Boolean));
}

// Which variable of which file holds what the API sent.
const USES = [
  ["model/family.js", "event", "RunEvent"],
  ["model/family.js", "reply", "EffectReply"],
  ["model/family.js", "usage", "EffectUsage"],
  ["view/answer.js", "answer", "Answer"],
  ["view/answer.js", "sentence", "Sentence"],
  ["view/answer.js", "source", "Source"],
  ["view/turn.js", "answer", "Answer"],
  ["view/turn.js", "row", "Run"],
  ["view/compare.js", "answer", "Answer"],
  ["view/person.js", "open", "Waiting"],
  ["model/follow_ups.js", "answer", "Answer"],
];

for (const [file, variable, schema] of USES) {
  test(`${file}: ${variable} is a ${schema}`, () => {
    const source = fs.readFileSync(path.join(root, "web/js", file), "utf8");
    const known = new Set(fieldsOf(schemas[schema]));
    const read = readOf(source, variable);
    assert.ok(read.size > 0, `${file} reads nothing of ${variable}; name another variable here`);
    assert.deepEqual([...read].filter((field) => !known.has(field)), [], `the API has no such field of ${schema}`);
  });
}

test("a field that the API does not have is found", () => {
  assert.deepEqual([...readOf("const { seq, wrong } = event; event.run; other.event.x; event?.task", "event")].sort(), ["run", "seq", "task", "wrong"]);
});

// Texts that confused people are gone from the page in all its languages, from the command line and from the server: no string of theirs has them.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import test from "node:test";
import { CATALOGUE } from "../../web/js/words/catalogue.js";
import { root } from "./harness.mjs";

const CONFUSING = [
  "thinks here", "thinks nothing of its own", "left alone for another", "the line broke", "held against its sources", "no source carries", "by words, by meaning", "looking which tools there are",
  "try to go on", "what you like", "may destroy", "goes outside", "this really does it", "a token, please", "it did not, and leave it", "may this be looked up", "begun now ago", "cannot be listened on",
  "are no json", "no server has any tool", "nothing more urgent was said", "nothing else is there", "looking who is there", "looking what is to be researched", "nobody asks anything", "gave up in the middle",
  "too much is going on", "what was begun goes on", "to hear all of them",
];
/// Headings and labels of the page; these words may be part of other texts, or data of a program.
const WHOLE = ["the work", "look", "kept", "only reads"];

function* files(folder, ending) {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) yield* files(file, ending);
    else if (entry.name.endsWith(ending)) yield file;
  }
}

/// A source without its comments and its tests, and each string of it.
const texts = (source) => {
  const code = source.split("#[cfg(test)]")[0].replace(/^\s*\/\/.*$/gm, "");
  return [code, ...[...code.matchAll(/"((?:[^"\\]|\\[\s\S])*)"|`((?:[^`\\]|\\[\s\S])*)`/g)].map(([, double, template]) => double ?? template)];
};

/// Those of a list that a text has, or is.
function confusing(text, wholes = WHOLE) {
  const plain = text.replace(/\\\n\s*/g, "").replace(/\s+/g, " ").toLowerCase();
  return [...CONFUSING.filter((one) => plain.includes(one)), ...wholes.filter((one) => plain.trim() === one)];
}

test("a text of the list is found", () => {
  const source = '// "goes outside"\nlet a = "This really \\\n    does it."; t("Look")\n#[cfg(test)] "the line broke"';
  assert.deepEqual(texts(source).map((text) => confusing(text)), [["this really does it"], ["this really does it"], ["look"]]);
});

for (const [where, folder, ending] of [["the page", "web/js", ".js"], ["the programs", "crates", ".rs"], ["prompts and documents beside the code", "crates", ".md"], ["the guide", "guide/src", ".md"]]) {
  test(`no text of the list is left in ${where}`, () => {
    let count = 0;
    for (const file of files(path.join(root, folder), ending)) {
      if (/tests?(\.rs|\/)|_tests\.rs/.test(path.relative(root, file))) continue;
      const source = fs.readFileSync(file, "utf8");
      for (const text of ending === ".md" ? [source] : texts(source)) {
        count += 1;
        assert.deepEqual(confusing(text, ending === ".js" ? WHOLE : []), [], path.relative(root, file));
      }
    }
    assert.ok(count > 10, `${count} texts`);
  });
}

test("nor is one in the catalogue", () => {
  for (const [key, forms] of Object.entries(CATALOGUE)) for (const text of [key, ...forms]) assert.deepEqual(confusing(text), [], key);
});

// Colours for source code: comments, strings, numbers, keywords. One set of rules for each family of languages; no grammar is parsed.
//
//   highlighted(text, language) -> [{text, kind}]      kind: "comment", "string", "number", "keyword" or null; the texts together are the whole

const C = "abstract as async await bool boolean break byte case catch char class const continue crate default delete do double dyn else enum export extends extern false final finally float fn for foreach from func function go if impl implements import in instanceof int interface internal is let long loop match mod module move mut namespace new nil null nullptr object of override package private protected pub public readonly record ref return sealed self Self short signed sizeof static string struct super switch template this throw throws trait true try type typedef typeof undefined union unsafe unsigned use using val var virtual void volatile where while with yield";
const PYTHON = "and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try while with yield";
const SHELL = "case do done elif else esac export fi for function if in local return then until while";
const SQL = "add all alter and as asc begin between by case check column commit constraint create default delete desc distinct drop else end exists foreign from full group having if in index inner insert into is join key left like limit not null offset on or order outer primary references returning right rollback select set table then union unique update values view when where with";
const RUBY = "alias and begin break case class def do else elsif end ensure false for if in module next nil not or redo rescue retry return self super then true undef unless until when while yield";

const words = (list, isAnyCase = false) => new RegExp(`^(?:${list.split(" ").join("|")})$`, isAnyCase ? "i" : "");
const LINE = { slash: "\\/\\/[^\\n]*|\\/\\*[\\s\\S]*?(?:\\*\\/|$)", hash: "#[^\\n]*", dash: "--[^\\n]*|\\/\\*[\\s\\S]*?(?:\\*\\/|$)", markup: "<!--[\\s\\S]*?(?:-->|$)", none: "(?!)" };
const STRING = "\"\"\"[\\s\\S]*?(?:\"\"\"|$)|'''[\\s\\S]*?(?:'''|$)|\"(?:[^\"\\\\\\n]|\\\\.)*\"?|'(?:[^'\\\\\\n]|\\\\.)*'?|`(?:[^`\\\\]|\\\\.)*`?";
const NUMBER = "\\b(?:0[xXbBoO][\\da-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)\\w*";

const rules = (comment, keywords, isAnyCase) => ({
  // One pass: whichever begins first counts, so that a number in a string is a string.
  pattern: new RegExp(`(${LINE[comment]})|(${STRING})|(${NUMBER})|([A-Za-z_$][\\w$]*)`, "g"),
  keywords: keywords ? words(keywords, isAnyCase) : /(?!)/,
});

const FAMILIES = { c: rules("slash", C), python: rules("hash", PYTHON), shell: rules("hash", SHELL), sql: rules("dash", SQL, true), ruby: rules("hash", RUBY), data: rules("hash", "true false null yes no on off"), markup: rules("markup", ""), json: rules("none", "true false null") };

const LANGUAGES = {
  c: "c cpp c++ cs csharp java js javascript jsx ts typescript tsx rust rs go kotlin swift scala php dart zig proto css scss",
  python: "python py",
  shell: "sh bash zsh shell console fish powershell dockerfile makefile make",
  sql: "sql postgres postgresql sqlite mysql",
  ruby: "ruby rb elixir lua r perl",
  data: "yaml yml toml ini conf properties env",
  markup: "html xml svg markdown md",
  json: "json jsonc json5",
};

/// A longer text is not coloured.
const CHARS_MAX = 50_000;

const familyOf = (language) => Object.keys(LANGUAGES).find((family) => LANGUAGES[family].split(" ").includes(language.toLowerCase())) ?? null;

export function highlighted(text, language) {
  const family = familyOf(language ?? "");
  if (!family || text.length > CHARS_MAX) return [{ text, kind: null }];
  const { pattern, keywords } = FAMILIES[family];
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(pattern)) {
    const [whole, comment, string, number, word] = found;
    if (whole === "") continue;
    const kind = comment ? "comment" : string ? "string" : number ? "number" : word && keywords.test(word) ? "keyword" : null;
    if (kind === null) continue;
    if (found.index > at) parts.push({ text: text.slice(at, found.index), kind: null });
    parts.push({ text: whole, kind });
    at = found.index + whole.length;
  }
  if (at < text.length) parts.push({ text: text.slice(at), kind: null });
  return parts;
}

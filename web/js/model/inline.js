// The text of one block: bold, code, links, citations. Runs are split where the sentence changes, also in the middle of bold words.
//
//   words({text, offsets}, context) -> [{sentence: index | null, runs: [{text, strong?, em?, code?, href?, cite?, math?, image?}]}]
//
// `offsets[i]` is where the i-th character stands in the whole Markdown; `context.sentenceAt` gives the sentence there.
import { webAddress } from "./text.js";

/// How far from its beginning a mark may end.
const REACH_CHARS = 1_000;
/// The longest picture that is part of the text.
const DATA_CHARS_MAX = 2_000_000;

/// A block's runs, those of one sentence together.
export function words(part, context) {
  const runs = [];
  inline(part, {}, context, runs);
  const groups = [];
  for (const { sentence, ...run } of runs) {
    const last = groups.at(-1);
    if (last && last.sentence === sentence) last.runs.push(run);
    else groups.push({ sentence, runs: [run] });
  }
  return groups;
}

/// A part of a text with the offsets of its characters.
export const slice = ({ text, offsets }, from, to = text.length) => ({ text: text.slice(from, to), offsets: offsets.slice(from, to) });

export function trimmed(part) {
  const start = part.text.length - part.text.trimStart().length;
  return slice(part, start, Math.max(start, part.text.trimEnd().length));
}

function inline(part, style, context, runs) {
  const { text, offsets } = part;
  let plain = "";
  let owner = null;
  const flush = () => {
    if (plain !== "") runs.push({ ...style, text: plain, sentence: owner });
    plain = "";
  };
  const add = (char, at) => {
    const sentence = context.sentenceAt(offsets[at]);
    if (sentence !== owner) flush();
    owner = sentence;
    plain += char;
  };
  let at = 0;
  while (at < text.length) {
    let found = null;
    for (const one of INLINE) {
      found = one(text, at, style, context);
      if (found) break;
    }
    if (!found) {
      add(text[at], at);
      at += 1;
      continue;
    }
    if (found.plain !== undefined) for (const char of found.plain) add(char, at);
    else flush();
    if (found.inner) inline(slice(part, ...found.inner), { ...style, ...found.style }, context, runs);
    if (found.run) runs.push({ ...style, ...found.run, sentence: context.sentenceAt(offsets[at]) });
    at = found.next;
  }
  flush();
}

/// Where each kind of formula begins and ends.
const FORMULAS = [
  ["$$", "$$", true],
  ["\\[", "\\]", true],
  ["\\(", "\\)", false],
];

const INLINE = [
  function formula(text, at) {
    if (text[at] !== "$" && text[at] !== "\\") return null;
    const near = text.slice(0, at + 2 * REACH_CHARS);
    for (const [open, close, isBlock] of FORMULAS) {
      if (!text.startsWith(open, at)) continue;
      const end = near.indexOf(close, at + open.length);
      if (end <= at + open.length) return null;
      const tex = text.slice(at + open.length, end).trim();
      return tex === "" ? null : { run: { text: tex, math: true, isBlock }, next: end + close.length };
    }
    // One dollar may be money: a formula touches both of its marks, and no digit follows.
    const found = /^\$(?![\s$])((?:[^$\\\n]|\\.)*[^\s$\\])\$(?!\d)/.exec(text.slice(at, at + REACH_CHARS));
    return found && /[\\^_{}=+<>]|^[A-Za-z]$/.test(found[1]) ? { run: { text: found[1], math: true, isBlock: false }, next: at + found[0].length } : null;
  },
  function escaped(text, at) {
    return text[at] === "\\" && /[\\`*_{}[\]()#+.!|<>~-]/.test(text[at + 1] ?? "") ? { plain: text[at + 1], next: at + 2 } : null;
  },
  function code(text, at) {
    if (text[at] !== "`") return null;
    const [ticks] = /^`+/.exec(text.slice(at));
    const end = text.indexOf(ticks, at + ticks.length);
    return end < 0 ? null : { run: { text: text.slice(at + ticks.length, end), code: true }, next: end + ticks.length };
  },
  function strong(text, at, style) {
    const mark = text.slice(at, at + 2);
    if ((mark !== "**" && mark !== "__") || style.strong || /\s/.test(text[at + 2] ?? " ")) return null;
    const end = text.slice(0, at + REACH_CHARS).indexOf(mark, at + 2);
    return end < 0 ? null : { inner: [at + 2, end], style: { strong: true }, next: end + 2 };
  },
  function emphasis(text, at, style) {
    const mark = text[at];
    if ((mark !== "*" && mark !== "_") || style.em || /[\s*_]/.test(text[at + 1] ?? " ")) return null;
    if (mark === "_" && /\w/.test(text[at - 1] ?? "")) return null;
    // Within reach, so that a thousand lone stars cost no more than a thousand words.
    const near = text.slice(0, at + REACH_CHARS);
    let end = near.indexOf(mark, at + 1);
    while (end > 0 && (/[\s\\]/.test(text[end - 1]) || (mark === "_" && /\w/.test(text[end + 1] ?? "")))) end = near.indexOf(mark, end + 1);
    return end < 0 ? null : { inner: [at + 1, end], style: { em: true }, next: end + 1 };
  },
  function picture(text, at) {
    if (text[at] !== "!") return null;
    const data = /^!\[([^\]]*)\]\((data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+)\)/.exec(text.slice(at, at + DATA_CHARS_MAX));
    if (data) return { run: { text: data[1], image: data[2] }, next: at + data[0].length };
    const found = /^!\[([^\]]*)\]\((?:<([^>]*)>|([^)\s]*))(?:\s+"[^"]*")?\)/.exec(text.slice(at, at + REACH_CHARS));
    return found ? { run: { text: found[1], image: found[2] ?? found[3] }, next: at + found[0].length } : null;
  },
  function link(text, at, style) {
    if (text[at] !== "[" || style.href) return null;
    const found = /^\[([^\]]+)\]\((?:<([^>]*)>|([^)\s]+))\)/.exec(text.slice(at, at + REACH_CHARS));
    if (!found) return null;
    const href = webAddress(found[2] ?? found[3]);
    return { inner: [at + 1, at + 1 + found[1].length], style: href ? { href } : {}, next: at + found[0].length };
  },
  function cite(text, at, style, context) {
    if (text[at] !== "[") return null;
    const found = /^\[(\d{1,4}(?:\s*,\s*\d{1,4})*)\]/.exec(text.slice(at, at + REACH_CHARS));
    if (!found) return null;
    const numbers = found[1].split(",").map(Number);
    if (!numbers.every((number) => number >= 1 && number <= context.sources)) return null;
    return { run: { text: found[0], cite: numbers }, next: at + found[0].length };
  },
  function address(text, at, style) {
    if (style.href || text[at] !== "h" || /\w/.test(text[at - 1] ?? "")) return null;
    const found = /^https?:\/\/[^\s<>"'`]+/.exec(text.slice(at, at + REACH_CHARS));
    if (!found) return null;
    const bare = found[0].replace(/[.,;:!?)\]*_]+$/, "");
    const href = webAddress(bare);
    return href ? { run: { text: bare, href }, next: at + bare.length } : null;
  },
];

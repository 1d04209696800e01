// Markdown as far as answers use it, read into plain values that a component draws. There is no HTML in it at any point: a tag in an answer is
// words like any other, so nothing that a model or a page wrote can become markup.
//
//   blocks(text, {sources}) -> [{kind: "paragraph" | "heading" | "list" | "code" | "quote" | "table" | "rule", …}]
//   words of a block: [{sentence: index | null, runs: [{text, strong?, em?, code?, href?, cite?}]}]
//
// Sentences are marked in the text by `marks.js`; a mark may stand anywhere, also in the middle of bold words, so the words of a block are a flat
// list of runs that each know their style and their sentence.
import { END, START, isMark, sentenceOf } from "./marks.js";
import { webAddress } from "./text.js";

const DEPTH_MAX = 6;
/// How far from its beginning a mark may end.
const REACH_CHARS = 1_000;

export function blocks(text, { sources = 0 } = {}) {
  const context = { sentence: null, sources };
  return blocksOf(text.replaceAll("\r\n", "\n").split("\n"), context, 0);
}

function blocksOf(lines, context, depth) {
  const all = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (line.trim() === "") {
      at += 1;
      continue;
    }
    const kind = KINDS.find((one) => one.begins(lines, at));
    const { block, next } = (kind ?? PARAGRAPH).read(lines, at, context, depth);
    all.push(block);
    at = Math.max(next, at + 1);
  }
  return all;
}

const ITEM = /^(\s*)([-*+•]|\d{1,9}[.)])\s+(.*)$/;
const FENCE = /^\s*(```+|~~~+)\s*([\w+#.-]*)\s*$/;
const CELLS = /^\s*:?-{1,}:?\s*$/;

const KINDS = [
  {
    begins: (lines, at) => FENCE.test(lines[at]),
    read(lines, at) {
      const [, fence, language] = FENCE.exec(lines[at]);
      let end = at + 1;
      while (end < lines.length && !lines[end].trim().startsWith(fence)) end += 1;
      return { block: { kind: "code", language, text: unmarked(lines.slice(at + 1, end).join("\n")) }, next: end + 1 };
    },
  },
  {
    begins: (lines, at) => /^#{1,6}\s/.test(bare(lines[at])),
    read(lines, at, context) {
      const [, hashes, text] = /^(#{1,6})\s+(.*?)\s*#*\s*$/.exec(lines[at]) ?? [null, "#", lines[at]];
      return { block: { kind: "heading", level: hashes.length, words: words(text, context) }, next: at + 1 };
    },
  },
  {
    begins: (lines, at) => /^\s*([-*_])(\s*\1){2,}\s*$/.test(lines[at]),
    read: (lines, at) => ({ block: { kind: "rule" }, next: at + 1 }),
  },
  {
    begins: (lines, at) => /^\s*>/.test(bare(lines[at])),
    read(lines, at, context, depth) {
      let end = at;
      const inner = [];
      while (end < lines.length && /^\s*>/.test(bare(lines[end]))) inner.push(lines[end++].replace(/>\s?/, ""));
      return { block: { kind: "quote", blocks: depth < DEPTH_MAX ? blocksOf(inner, context, depth + 1) : [] }, next: end };
    },
  },
  {
    begins: (lines, at) => lines[at].includes("|") && at + 1 < lines.length && cells(lines[at + 1]).length > 1 && cells(lines[at + 1]).every((cell) => CELLS.test(cell)),
    read(lines, at, context) {
      const head = cells(lines[at]).map((cell) => words(cell, context));
      const rows = [];
      let end = at + 2;
      while (end < lines.length && lines[end].includes("|")) rows.push(cells(lines[end++]).map((cell) => words(cell, context)));
      return { block: { kind: "table", head, rows }, next: end };
    },
  },
  {
    begins: (lines, at) => ITEM.test(bare(lines[at])),
    read(lines, at, context, depth) {
      const [, indent, mark] = ITEM.exec(bare(lines[at]));
      const isOrdered = /\d/.test(mark);
      const items = [];
      let end = at;
      while (end < lines.length) {
        const item = ITEM.exec(bare(lines[end]));
        if (!item || item[1].length > indent.length + 1 || /\d/.test(item[2]) !== isOrdered) break;
        const width = item[1].length + item[2].length + 1;
        const inner = [lines[end].replace(/^(\s*)([-*+•]|\d{1,9}[.)])\s+/, "")];
        end += 1;
        while (end < lines.length && (continues(lines, end, width) || (lines[end].trim() === "" && continues(lines, end + 1, width)))) {
          inner.push(lines[end++].slice(0, width).trimStart() + lines[end - 1].slice(width));
        }
        items.push(depth < DEPTH_MAX ? blocksOf(inner, context, depth + 1) : []);
        while (end < lines.length && lines[end].trim() === "" && ITEM.test(bare(lines[end + 1] ?? ""))) end += 1;
      }
      return { block: { kind: "list", isOrdered, start: isOrdered ? parseInt(mark, 10) : 1, items }, next: end };
    },
  },
];

const PARAGRAPH = {
  read(lines, at, context) {
    let end = at;
    while (end < lines.length && lines[end].trim() !== "" && (end === at || !KINDS.some((kind) => kind.begins(lines, end)))) end += 1;
    return { block: { kind: "paragraph", words: words(lines.slice(at, end).map((line) => line.trim()).join("\n"), context) }, next: end };
  },
};

const bare = (line) => line.replace(new RegExp(`^(${START}.|${END})+`), "");
const continues = (lines, at, width) => at < lines.length && lines[at].trim() !== "" && lines[at].slice(0, Math.min(width, 2)).trim() === "" && /^\s{2,}/.test(lines[at]);

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/// A text's runs, those of one sentence together.
export function words(text, context = { sentence: null, sources: 0 }) {
  const runs = [];
  inline(text, {}, context, runs);
  const groups = [];
  for (const run of runs) {
    const last = groups.at(-1);
    if (last && last.sentence === run.sentence) last.runs.push(run);
    else groups.push({ sentence: run.sentence, runs: [run] });
  }
  return groups;
}

function inline(text, style, context, runs) {
  let plain = "";
  const flush = () => {
    if (plain !== "") runs.push({ ...style, text: plain, sentence: context.sentence });
    plain = "";
  };
  let at = 0;
  while (at < text.length) {
    const char = text[at];
    if (isMark(char)) {
      flush();
      if (char === START) {
        context.sentence = sentenceOf(text[at + 1]);
        at += 2;
      } else {
        context.sentence = null;
        at += 1;
      }
      continue;
    }
    const found = style.code ? null : INLINE.map((one) => one(text, at, style, context)).find(Boolean);
    if (!found) {
      plain += char;
      at += 1;
      continue;
    }
    flush();
    if (found.inner !== undefined) inline(found.inner, { ...style, ...found.style }, context, runs);
    if (found.run) runs.push({ ...style, ...found.run, sentence: context.sentence });
    if (found.plain) plain += found.plain;
    at = found.next;
  }
  flush();
}

const INLINE = [
  function escaped(text, at) {
    return text[at] === "\\" && /[\\`*_{}[\]()#+.!|<>~-]/.test(text[at + 1] ?? "") ? { plain: text[at + 1], next: at + 2 } : null;
  },
  function code(text, at) {
    if (text[at] !== "`") return null;
    const [ticks] = /^`+/.exec(text.slice(at));
    const end = text.indexOf(ticks, at + ticks.length);
    return end < 0 ? null : { run: { text: unmarked(text.slice(at + ticks.length, end)), code: true }, next: end + ticks.length };
  },
  function strong(text, at, style) {
    const mark = text.slice(at, at + 2);
    if ((mark !== "**" && mark !== "__") || style.strong || /\s/.test(text[at + 2] ?? " ")) return null;
    const end = text.slice(0, at + REACH_CHARS).indexOf(mark, at + 2);
    return end < 0 ? null : { inner: text.slice(at + 2, end), style: { strong: true }, next: end + 2 };
  },
  function emphasis(text, at, style) {
    const mark = text[at];
    if ((mark !== "*" && mark !== "_") || style.em || /[\s*_]/.test(text[at + 1] ?? " ")) return null;
    if (mark === "_" && /\w/.test(text[at - 1] ?? "")) return null;
    // Within reach, so that a thousand lone stars cost no more than a thousand words.
    const near = text.slice(0, at + REACH_CHARS);
    let end = near.indexOf(mark, at + 1);
    while (end > 0 && (/[\s\\]/.test(text[end - 1]) || (mark === "_" && /\w/.test(text[end + 1] ?? "")))) end = near.indexOf(mark, end + 1);
    return end < 0 ? null : { inner: text.slice(at + 1, end), style: { em: true }, next: end + 1 };
  },
  function picture(text, at) {
    if (text[at] !== "!") return null;
    const found = /^!\[([^\]]*)\]\((?:<[^>]*>|[^)\s]*)\)/.exec(text.slice(at, at + REACH_CHARS));
    return found ? { plain: found[1], next: at + found[0].length } : null;
  },
  function link(text, at, style) {
    if (text[at] !== "[" || style.href) return null;
    const found = /^\[([^\]]+)\]\((?:<([^>]*)>|([^)\s]+))\)/.exec(text.slice(at, at + REACH_CHARS));
    if (!found) return null;
    const href = webAddress(found[2] ?? found[3]);
    return { inner: found[1], style: href ? { href } : {}, next: at + found[0].length };
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
    const found = /^https?:\/\/[^\s<>"'`\uE000-\uF8FF]+/.exec(text.slice(at, at + REACH_CHARS));
    if (!found) return null;
    const bare = found[0].replace(/[.,;:!?)\]*_]+$/, "");
    const href = webAddress(bare);
    return href ? { run: { text: bare, href }, next: at + bare.length } : null;
  },
];

const unmarked = (text) => text.replace(new RegExp(`${START}.|${END}`, "g"), "");

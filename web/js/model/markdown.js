// Markdown as far as answers use it, read into plain values that a component draws. There is no HTML in it at any point: a tag in an answer is
// text like any other, so nothing that a model or a page wrote can become markup.
//
//   blocks(text, {sources, sentenceAt}) -> [{kind: "paragraph" | "heading" | "list" | "code" | "quote" | "table" | "rule", …}]
//   words of a block: [{sentence: index | null, isEnd, runs: [{text, strong?, em?, code?, href?, cite?}]}]
//
// The text is parsed once. Every line and every character keeps its offset, and `sentenceAt(offset)` (see `marks.js`) returns which sentence it
// belongs to; `isEnd` is set on the last piece of each sentence.
import { slice, trimmed, words } from "./inline.js";

const DEPTH_MAX = 6;
const ITEM = /^(\s*)([-*+•]|\d{1,9}[.)])\s+(.*)$/;
const FENCE = /^(\s*)(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const RULE_CELL = /^\s*:?-{1,}:?\s*$/;

export function blocks(text, { sources = 0, sentenceAt = () => null } = {}) {
  const groups = [];
  const levels = [];
  const context = {
    /// How deep a heading is below the headings before it, from 1, so that no level is skipped.
    rank(level) {
      while (levels.length > 0 && levels.at(-1) >= level) levels.pop();
      return levels.push(level);
    },
    words(part) {
      const own = words(part, { sources, sentenceAt });
      groups.push(...own);
      return own;
    },
  };
  const all = blocksOf(linesOf(text), context, 0);
  const isEnded = new Set();
  for (const group of groups.reverse()) {
    group.isEnd = group.sentence !== null && !isEnded.has(group.sentence);
    isEnded.add(group.sentence);
  }
  return all;
}

/// `{text, at}`: a line without its end, and the offset of its first character.
function linesOf(text) {
  const lines = [];
  let at = 0;
  for (const line of text.split("\n")) {
    lines.push({ text: line.endsWith("\r") ? line.slice(0, -1) : line, at });
    at += line.length + 1;
  }
  return lines;
}

const after = (line, count) => ({ text: line.text.slice(count), at: line.at + Math.min(count, line.text.length) });
const partOf = (line) => ({ text: line.text, offsets: Array.from({ length: line.text.length }, (_, index) => line.at + index) });
const isBlank = (line) => line.text.trim() === "";

function blocksOf(lines, context, depth) {
  const all = [];
  let at = 0;
  while (at < lines.length) {
    if (isBlank(lines[at])) {
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

const KINDS = [
  {
    begins: (lines, at) => FENCE.test(lines[at].text),
    read(lines, at) {
      const [, indent, fence, language] = FENCE.exec(lines[at].text);
      let end = at + 1;
      while (end < lines.length && !isFenceEnd(lines[end].text, fence)) end += 1;
      const code = lines.slice(at + 1, end).map((line) => line.text.slice(0, indent.length).trimStart() + line.text.slice(indent.length));
      return { block: { kind: "code", language, text: code.join("\n") }, next: end + 1 };
    },
  },
  {
    begins: (lines, at) => /^#{1,6}\s/.test(lines[at].text),
    read(lines, at, context) {
      const [, mark, text] = /^(#{1,6}\s+)(.*?)\s*#*\s*$/.exec(lines[at].text) ?? [null, "# ", ""];
      const inner = slice(partOf(lines[at]), mark.length, mark.length + text.length);
      return { block: { kind: "heading", level: mark.trim().length, rank: context.rank(mark.trim().length), words: context.words(inner) }, next: at + 1 };
    },
  },
  {
    begins: (lines, at) => /^\s*([-*_])(\s*\1){2,}\s*$/.test(lines[at].text),
    read: (lines, at) => ({ block: { kind: "rule" }, next: at + 1 }),
  },
  {
    begins: (lines, at) => /^\s*>/.test(lines[at].text),
    read(lines, at, context, depth) {
      let end = at;
      const inner = [];
      while (end < lines.length && /^\s*>/.test(lines[end].text)) {
        inner.push(after(lines[end], /^\s*>\s?/.exec(lines[end].text)[0].length));
        end += 1;
      }
      return { block: { kind: "quote", blocks: depth < DEPTH_MAX ? blocksOf(inner, context, depth + 1) : [] }, next: end };
    },
  },
  {
    begins: (lines, at) => lines[at].text.includes("|") && at + 1 < lines.length && isTableRule(lines[at + 1]),
    read(lines, at, context) {
      const row = (line) => cells(line).map((cell) => context.words(cell));
      const rule = cells(lines[at + 1]).map((cell) => cell.text);
      const head = row(lines[at]);
      const rows = [];
      let end = at + 2;
      while (end < lines.length && lines[end].text.includes("|")) rows.push(row(lines[end++]));
      return { block: { kind: "table", head, rows, aligns: rule.map(alignOf) }, next: end };
    },
  },
  {
    begins: (lines, at) => ITEM.test(lines[at].text),
    read(lines, at, context, depth) {
      const [, indent, mark] = ITEM.exec(lines[at].text);
      const isOrdered = /\d/.test(mark);
      const items = [];
      let end = at;
      while (end < lines.length) {
        const item = ITEM.exec(lines[end].text);
        if (!item || item[1].length > indent.length + 1 || /\d/.test(item[2]) !== isOrdered) break;
        const width = item[1].length + item[2].length + 1;
        const inner = [after(lines[end], lines[end].text.length - item[3].length)];
        end += 1;
        let next = nextOfItem(lines, end, width);
        while (next > end) {
          for (; end < next; end += 1) inner.push(after(lines[end], indentWithin(lines[end].text, width)));
          next = nextOfItem(lines, end, width);
        }
        items.push(depth < DEPTH_MAX ? blocksOf(inner, context, depth + 1) : []);
        while (end < lines.length && isBlank(lines[end]) && ITEM.test(lines[end + 1]?.text ?? "")) end += 1;
      }
      return { block: { kind: "list", isOrdered, start: isOrdered ? parseInt(mark, 10) : 1, items }, next: end };
    },
  },
];

const PARAGRAPH = {
  read(lines, at, context) {
    let end = at;
    while (end < lines.length && !isBlank(lines[end]) && (end === at || !KINDS.some((kind) => kind.begins(lines, end)))) end += 1;
    return { block: { kind: "paragraph", words: context.words(joined(lines.slice(at, end).map((line) => trimmed(partOf(line))))) }, next: end };
  },
};

/// Parts with a line break between them; the break belongs to what is before it.
function joined(parts) {
  const texts = [];
  const offsets = [];
  parts.forEach((part, index) => {
    if (index > 0) {
      texts.push("\n");
      offsets.push((offsets.at(-1) ?? part.offsets[0] - 1) + 1);
    }
    texts.push(part.text);
    for (const offset of part.offsets) offsets.push(offset);
  });
  return { text: texts.join(""), offsets };
}

const isFenceEnd = (text, fence) => text.trim().startsWith(fence) && new Set(text.trim()).size === 1;
const isTableRule = (line) => line.text.includes("|") && cells(line).every((cell) => RULE_CELL.test(cell.text));

function alignOf(cell) {
  const [left, right] = [cell.trim().startsWith(":"), cell.trim().endsWith(":")];
  return left && right ? "center" : right ? "end" : null;
}

/// Cells between bars that are not escaped.
function cells(line) {
  const part = trimmed(partOf(line));
  const start = part.text.startsWith("|") ? 1 : 0;
  const end = /(?<!\\)\|$/.test(part.text) && part.text.length > start ? part.text.length - 1 : part.text.length;
  const all = [];
  let from = start;
  for (let at = start; at <= end; at += 1) {
    if (at < end && (part.text[at] !== "|" || part.text[at - 1] === "\\")) continue;
    all.push(trimmed(slice(part, from, at)));
    from = at + 1;
  }
  return all;
}

/// How much of a line's beginning is indentation of the item it belongs to.
const indentWithin = (text, width) => Math.min(width, text.length - text.trimStart().length);

/// The line after the next one that belongs to an item, or `at` if none does. Blank lines belong to it if an indented line follows.
function nextOfItem(lines, at, width) {
  let next = at;
  while (next < lines.length && isBlank(lines[next])) next += 1;
  const line = lines[next];
  const isPart = line !== undefined && line.text.slice(0, Math.min(width, 2)).trim() === "" && /^\s{2,}/.test(line.text);
  return isPart ? next + 1 : at;
}

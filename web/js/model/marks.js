// Where sentences begin and end, written into the Markdown with characters that mean nothing to anybody, so that one pass reads both.

export const START = "\uE000";
export const END = "\uE001";
const FIRST = 0xe100;
const SENTENCES_MAX = 0xf8ff - FIRST;
/// What flows append to sentences for readers without a page; here it is seen and heard in another way.
const SPOKEN = / ?\*\((?:not supported by the sources|weakly supported)\)\*/g;
const SOURCES = /\n+\*\*Sources\*\*\n[\s\S]*$/;

export const isMark = (char) => char === START || char === END;
export const sentenceOf = (char) => char.charCodeAt(0) - FIRST;

/// The text of an answer with its sentences marked, without what the page shows by itself.
export function marked(markdown, sentences, hasSources) {
  // Nobody else's marks; of the same length in UTF-16 and in bytes, so that ranges stay true.
  const clean = markdown.replace(/[\uE000-\uF8FF]/g, "\uFFFD");
  const ranges = placed(clean, sentences.slice(0, SENTENCES_MAX));
  let text = "";
  let at = 0;
  for (const { start, end, index } of ranges) {
    if (start < at) continue;
    const inner = clean.slice(start, end);
    // List marks and the edges of table rows stay outside.
    const [lead] = /^\s*(?:(?:[-*+•]|\d{1,9}[.)]|#{1,6}|>)\s+|\|\s*)?/.exec(inner);
    const [tail] = /\s*\|?\s*$/.exec(inner);
    const body = inner.slice(lead.length, Math.max(lead.length, inner.length - tail.length));
    text += clean.slice(at, start) + lead + START + String.fromCharCode(FIRST + index) + body + END + (lead.length + body.length + tail.length === inner.length ? tail : "");
    at = end;
  }
  text += clean.slice(at);
  if (sentences.length > 0) text = text.replace(SPOKEN, "");
  return hasSources ? text.replace(SOURCES, "") : text;
}

function placed(text, sentences) {
  const bytes = byteOffsets(text);
  const inUnits = sentences.map((sentence) => pair(sentence.range));
  const inBytes = inUnits.map((range) => range && [bytes(range[0]), bytes(range[1])]);
  // A server may count in bytes or as JavaScript does; the words say which.
  const ranges = fit(text, sentences, inBytes) > fit(text, sentences, inUnits) ? inBytes : inUnits;
  const all = ranges.map((range, index) => range && { start: range[0], end: range[1], index });
  return all.filter((one) => one && one.end > one.start && one.end <= text.length).sort((a, b) => a.start - b.start);
}

function pair(range) {
  if (Array.isArray(range)) return range;
  return range && typeof range === "object" ? [range.start, range.end] : null;
}

function fit(text, sentences, ranges) {
  return sentences.filter((sentence, index) => {
    const range = ranges[index];
    return range && text.slice(range[0], range[1]).replace(/[^\p{L}\p{N}]/gu, "").startsWith(sentence.text.replace(/[^\p{L}\p{N}]/gu, "").slice(0, 12));
  }).length;
}

/// From an offset in UTF-8 bytes to one in UTF-16 units.
function byteOffsets(text) {
  if (!/[^\x00-\x7f]/.test(text)) return (offset) => offset;
  const units = [];
  let unit = 0;
  for (const char of text) {
    const code = char.codePointAt(0);
    const length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (let byte = 0; byte < length; byte += 1) units.push(unit);
    unit += char.length;
  }
  units.push(unit);
  return (offset) => units[Math.min(offset, units.length - 1)];
}

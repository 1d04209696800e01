// Which sentence each character of an answer belongs to. The Markdown is parsed without it; the parser then looks up the sentence of every
// character by its offset, so that a sentence never changes how the text is read.

/// What flows append to sentences for readers without a page. The page shows the status in another way.
const STATUS_NOTES = / ?\*\((?:not supported by the sources|contradicted by the sources|weakly supported)\)\*/g;
const NO_SENTENCE = -1;

/// `{text, sentenceAt(offset)}`: the Markdown without what the page shows by itself, and the index of the sentence at an offset in it, or `null`.
export function located(source, sentences) {
  const ranges = placed(source, sentences);
  const { text, newOffset } = sentences.length > 0 ? without(source, STATUS_NOTES) : { text: source, newOffset: (offset) => offset };
  const owners = new Int32Array(text.length).fill(NO_SENTENCE);
  let end = 0;
  for (const range of ranges) {
    const from = newOffset(Math.min(range.start, source.length));
    if (from < end) continue;
    end = newOffset(Math.min(range.end, source.length));
    owners.fill(range.index, from, end);
  }
  return { text, sentenceAt: (offset) => (offset < owners.length && owners[offset] !== NO_SENTENCE ? owners[offset] : null) };
}

/// A text without every match of a pattern, and where an offset of the original is in it.
function without(source, pattern) {
  const cuts = [...source.matchAll(pattern)].map((match) => ({ start: match.index, end: match.index + match[0].length }));
  let text = "";
  let at = 0;
  for (const cut of cuts) {
    text += source.slice(at, cut.start);
    at = cut.end;
  }
  const newOffset = (offset) => {
    let removed = 0;
    for (const cut of cuts) {
      if (cut.start >= offset) break;
      removed += Math.min(cut.end, offset) - cut.start;
    }
    return offset - removed;
  };
  return { text: text + source.slice(at), newOffset };
}

function placed(text, sentences) {
  const bytes = byteOffsets(text);
  const inUnits = sentences.map((sentence) => pair(sentence.range));
  const inBytes = inUnits.map((range) => range && [bytes(range[0]), bytes(range[1])]);
  // A server may count in bytes or in UTF-16 units; the words of the sentences show which.
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

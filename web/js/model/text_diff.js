// The difference of two texts, line by line: `[{ kind: "same" | "left" | "right", text }]`.

/// Longer texts are compared by their first lines.
const LINES_MAX = 2_000;

export function textDiff(left, right) {
  const [a, b] = [lines(left), lines(right)];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const [middleA, middleB] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const same = (text) => ({ kind: "same", text });
  return [...a.slice(0, start).map(same), ...between(middleA, middleB), ...a.slice(a.length - end).map(same)];
}

const lines = (text) => (text ?? "").split("\n").slice(0, LINES_MAX);

/// By the longest common subsequence of lines.
function between(a, b) {
  const width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] = a[i] === b[j] ? lengths[(i + 1) * width + j + 1] + 1 : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  const parts = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      parts.push({ kind: "same", text: a[i] });
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) {
      parts.push({ kind: "left", text: a[i] });
      i += 1;
    } else {
      parts.push({ kind: "right", text: b[j] });
      j += 1;
    }
  }
  return parts;
}

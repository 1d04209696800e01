// Questions that an answer suggests, made from the answer itself without a model: what its sources leave open, and what they may say more about.
//
//   followUps(answer) -> [{kind, about}]      kind: "contrary", "source", "heading" or "more"; at most three

const ABOUT_CHARS_MAX = 140;
const COUNT_MAX = 3;

export function followUps(answer) {
  const all = [];
  const sentence = (status) => (answer.sentences ?? []).find((one) => one.status === status)?.text;
  const add = (kind, about) => {
    const text = (about ?? "").replace(/\[\d+(?:\s*,\s*\d+)*\]/g, "").replace(/[*_`#|]+/g, "").replace(/\s+/g, " ").trim();
    if (text.length >= 3 && text.length <= ABOUT_CHARS_MAX) all.push({ kind, about: text });
  };
  add("contrary", sentence("contradicted"));
  add("source", sentence("unsupported") ?? sentence("weak"));
  for (const [, heading] of (answer.markdown ?? "").matchAll(/^#{1,4}\s+(.+)$/gm)) add("heading", heading);
  for (const source of answer.sources ?? []) add("more", source.title);
  return all.slice(0, COUNT_MAX);
}

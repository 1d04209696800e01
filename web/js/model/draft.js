// What a model has written so far, as text for a person: plain text as it is, JSON as the sentences in it.

/// Purposes whose words become the answer.
const SPEAKING = new Set(["answer", "synthesis", "expert"]);
/// Fields that hold words for the reader, whichever flow asked.
const FIELDS = /"(sentence|short_answer|response_content|answer|final_answer|response|text)"\s*:\s*"((?:[^"\\]|\\.)*)("?)/g;

/// The states of a model call whose text is on the screen: while the run goes on, and after it ended early.
const RUNNING = ["running"];
const CUT_OFF = ["running", "stopped", "failed"];

/// The newest draft of the answer, or "".
export function draftOf(family, isOver = false) {
  const states = isOver ? CUT_OFF : RUNNING;
  let words = "";
  for (const run of family.runs.values()) {
    for (const task of run.tasks.values()) {
      if (task.kind !== "model" || !SPEAKING.has(task.name) || !states.includes(task.state)) continue;
      const draft = family.drafts.get(task.key);
      if (draft) words = sentences(draft.text);
    }
  }
  return words;
}

export function sentences(text) {
  if (!/^\s*[[{]/.test(text)) return text;
  const parts = [];
  for (const [, , words] of text.matchAll(FIELDS)) parts.push(untagged(unescaped(words)));
  return parts.join(" ");
}

/// Some flows ask for simple HTML. Nothing of it is drawn as such; a tag that is not whole yet is left out too.
function untagged(words) {
  const lines = words.replace(/<\/(p|h\d|ul|ol|pre|tr|table)>/gi, "\n\n").replace(/<li>/gi, "\n- ").replace(/<br\s*\/?>/gi, "\n");
  return lines.replace(/<\/?[a-z][^>]*>/gi, "").replace(/<\/?[a-z0-9]*$/i, "").trim();
}

function unescaped(words) {
  // The last escape may be cut in half.
  for (let cut = 0; cut < 7 && cut <= words.length; cut += 1) {
    try {
      return JSON.parse(`"${words.slice(0, words.length - cut)}"`);
    } catch (_) {
      // One character less.
    }
  }
  return words;
}

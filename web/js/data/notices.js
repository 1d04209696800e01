// Short words about what just happened, seen in a corner and read aloud by screen readers.
import { cell } from "../core/cell.js";

const SHOWN_MS = 6_000;

export const notices = cell([]);
let next = 0;

export function say(text, kind = "info") {
  const notice = { id: (next += 1), text, kind };
  notices.value = [...notices.value.slice(-3), notice];
  // What went wrong stays until it is read.
  if (kind !== "bad") setTimeout(() => dismiss(notice.id), SHOWN_MS);
}

export function dismiss(id) {
  notices.value = notices.value.filter((notice) => notice.id !== id);
}

/// Does it, and shows what went wrong.
export async function attempt(work) {
  try {
    return await work();
  } catch (trouble) {
    say(trouble.message, "bad");
    return undefined;
  }
}

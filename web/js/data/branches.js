// Which version of each turn is shown, for each conversation. Kept in this browser.
import { cell } from "../core/cell.js";
import { keep, kept } from "../core/kept.js";

const THREADS_MAX = 100;

/// `{thread: {turn: the turn after it that is shown}}`, the oldest first.
export const chosen = cell(kept("branches", {}));

export const chosenIn = (all, thread) => all[thread] ?? {};

export function choose(thread, choices) {
  const { [thread]: before, ...others } = chosen.value;
  const rest = Object.entries(others).slice(-(THREADS_MAX - 1));
  chosen.value = { ...Object.fromEntries(rest), [thread]: { ...before, ...choices } };
  keep("branches", chosen.value);
}

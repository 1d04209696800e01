// Text of runs that ended before their answer was complete. The server keeps only complete answers, so what was on the screen is kept in this
// browser.
import { keep, kept } from "../core/kept.js";

const RUNS_MAX = 20;
const CHARS_MAX = 20_000;

/// Newest first: `[{run, text}]`
let partials = kept("partials", []);

export const partialOf = (run) => partials.find((one) => one.run === run)?.text ?? "";

export function keepPartial(run, text) {
  if (!text || partialOf(run) === text) return;
  partials = [{ run, text: text.slice(0, CHARS_MAX) }, ...partials.filter((one) => one.run !== run)].slice(0, RUNS_MAX);
  keep("partials", partials);
}

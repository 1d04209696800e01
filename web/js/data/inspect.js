// What authors of flows look at: the steps of a run with their states, and its journal.
import { get } from "../core/api.js";

const of = (run) => `/api/runs/${encodeURIComponent(run)}`;

export const stepsOf = (run) => get(`${of(run)}/steps`);
export const stateAt = (run, step) => get(`${of(run)}/steps/${step}`);
export const journalOf = (run, from) => get(`${of(run)}/journal?from=${from}`);

/// The state of a run at the step where it is now.
export async function currentState(run) {
  const { steps } = await stepsOf(run);
  return stateAt(run, steps.at(-1)?.step ?? 0);
}

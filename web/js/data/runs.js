// Runs that are shown: their events, folded, and what they wait for.
import { Trouble, get, post } from "../core/api.js";
import { cell, useCell } from "../core/cell.js";
import { follow } from "../core/stream.js";
import { t } from "../core/words.js";
import { applyDelta, applyEvent, newFamily, speaker } from "../model/family.js";
import { useEffect } from "preact/hooks";

/// Words come faster than anybody reads.
const DRAW_MS = 40;
const AGAIN_MS = 1_000;
const OVER = ["done", "failed", "cancelled"];
/// A run that is no longer shown is kept for a short time, because a closed drawer is often opened again.
const KEPT_MS = 10_000;

const watched = new Map();
const NOTHING = cell(null);

export const isOver = (status) => OVER.includes(status);

/// Follows a run while the component that asks is there: `{family, row, version}`, or `null` for no run.
export function useRun(run) {
  const one = run ? entry(run) : null;
  useEffect(() => (run ? hold(run) : undefined), [run]);
  return useCell(one ? one.cell : NOTHING);
}

function entry(run) {
  if (!watched.has(run)) watched.set(run, { run, holders: 0, leaving: 0, isOn: false, cell: cell(known(run)), stop: () => {} });
  return watched.get(run);
}

const known = (run) => ({ family: newFamily(run), row: null, version: 0 });

function hold(run) {
  const one = entry(run);
  one.holders += 1;
  clearTimeout(one.leaving);
  if (!one.isOn) begin(one);
  return () => {
    one.holders -= 1;
    if (one.holders > 0) return;
    one.leaving = setTimeout(() => {
      one.stop();
      if (watched.get(run) === one) watched.delete(run);
    }, KEPT_MS);
  };
}

function begin(one) {
  const { run } = one;
  const { family } = one.cell.value;
  one.isOn = true;
  let drawing = 0;
  const draw = () => {
    drawing ||= setTimeout(() => {
      drawing = 0;
      one.cell.value = { ...one.cell.value, version: one.cell.value.version + 1 };
    }, DRAW_MS);
  };
  let asking = 0;
  const look = () => {
    clearTimeout(asking);
    asking = setTimeout(async () => {
      try {
        const row = await get(`/api/runs/${encodeURIComponent(run)}`);
        if (one.cell.value.family === family) one.cell.value = { ...one.cell.value, row };
      } catch (trouble) {
        // Busy, or away for a moment. What is gone is not asked for again.
        if (one.isOn && trouble.status !== 404) asking = setTimeout(look, AGAIN_MS);
      }
    }, DRAW_MS);
  };
  const on = ({ event, data }) => {
    if (event === "delta") applyDelta(family, data);
    if (event === "told") {
      // Two clocks may disagree; nothing goes on since the future.
      applyEvent(family, data, Math.min(data.at_ms || Infinity, Date.now()));
      const isForPeople = data.event === "held" || data.event === "doubted" || data.effect?.ask_person;
      if (isForPeople || data.event === "ended" || (data.event === "replied" && one.cell.value.row?.waiting?.length > 0)) look();
    }
    if (event === "end") {
      family.status = data.status;
      look();
    }
    draw();
    return event === "end" && isOver(data.status) && (data.run ?? run) === run;
  };
  const stop = follow(`/api/runs/${encodeURIComponent(run)}/events`, on, { begun: look });
  one.stop = () => {
    one.isOn = false;
    stop();
    clearTimeout(drawing);
    clearTimeout(asking);
  };
}

const started = new Set();

/// Whether this page asked for the run. Such a run may be over before the page has seen it running.
export const isStartedHere = (run) => started.has(run);

/// A question, answered as soon as the server can be reached: the same key never starts two runs.
export async function ask(request, { tries = 60 } = {}) {
  const key = fresh();
  for (let left = tries; ; left -= 1) {
    try {
      const row = await post("/api/runs", request, { "Idempotency-Key": key });
      started.add(row.run);
      return row;
    } catch (trouble) {
      if (trouble.status !== 0 || left <= 1) throw trouble;
      await new Promise((done) => setTimeout(done, 1_000));
    }
  }
}

export const cancel = (run) => post(`/api/runs/${encodeURIComponent(run)}/cancel`, { reason: "stopped on the page" });
export const answer = ({ run, task, attempt }, value) => post(`/api/runs/${encodeURIComponent(run)}/answer`, { task, attempt, value });
export const fork = (run, request) => post(`/api/runs/${encodeURIComponent(run)}/fork`, request);

/// A run that was interrupted goes on. One that was stopped or failed is over for good: its past is taken over by a new one in the same
/// conversation, which begins with the step that was not finished.
export async function resumed(row, family) {
  if (!isOver(row.status)) return post(`/api/runs/${encodeURIComponent(row.run)}/resume`);
  const main = family && speaker(family);
  const last = main?.steps.at(-1);
  if (!last) throw new Trouble(t("The steps of this run are not loaded yet. Open the steps, then try again."));
  return fork(main.id, { at_step: last.step, thread: row.thread });
}

const answers = new Map();
const ANSWERS_MAX = 200;

/// The checked answer of a run that is over. It never changes, so it is asked for once.
export function answerOf(run) {
  if (!answers.has(run)) {
    const asked = patiently(() => get(`/api/runs/${encodeURIComponent(run)}/answer`));
    asked.catch(() => answers.delete(run));
    answers.set(run, asked);
    if (answers.size > ANSWERS_MAX) answers.delete(answers.keys().next().value);
  }
  return answers.get(run);
}

/// A server that is being started again, or has too much to do, is asked again.
async function patiently(asked, tries = 5) {
  for (let left = tries; ; left -= 1) {
    try {
      return await asked();
    } catch (trouble) {
      const isForNow = trouble.status === 0 || trouble.status === 429 || trouble.status >= 500;
      if (!isForNow || left <= 1) throw trouble;
      await new Promise((done) => setTimeout(done, AGAIN_MS));
    }
  }
}

export const spanOf = (run, n) => get(`/api/runs/${encodeURIComponent(run)}/spans/${n}`);

function fresh() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// One conversation: its turns, each a run with its question and the reply to it.
import { get } from "../core/api.js";
import { cell } from "../core/cell.js";
import { line } from "../core/stream.js";
import { onThread } from "./threads.js";

const PAGE = 200;
const PAGES_MAX = 50;

/// `{thread, row, turns: [{run, question, reply, created_ms}], after: {run: the run it follows}, isLoading, trouble}`
export const conversation = cell(nothing(null));

function nothing(thread) {
  return { thread, row: null, turns: [], after: {}, isLoading: thread !== null, trouble: null };
}

/// Runs that were started here on a branch, and the run that each follows.
const followed = new Map();
const merged = (after) => ({ ...Object.fromEntries(followed), ...after });

/// Questions that were asked here and that the server has not listed yet.
const asked = new Map();

export function open(thread) {
  if (conversation.value.thread === thread) return;
  conversation.value = nothing(thread);
  if (thread) load(thread);
}

export function remember(run, question) {
  asked.set(run, question);
}

/// A run that was just started here is shown before the server lists it. `after` is the run that it follows, on a branch.
export function add(thread, run, question, flow, after = null) {
  remember(run, question);
  if (after !== null) followed.set(run, after);
  if (conversation.value.thread !== thread) conversation.value = { ...nothing(thread), isLoading: false };
  const { turns } = conversation.value;
  if (turns.some((turn) => turn.run?.run === run)) return;
  const row = { run, thread, flow, title: question, status: "running", created_ms: Date.now(), parent: null };
  conversation.value = { ...conversation.value, turns: [...turns, { run: row, question, reply: null }], after: merged(conversation.value.after) };
  load(thread);
}

export const reload = () => conversation.value.thread && load(conversation.value.thread);

onThread((changed) => {
  if (changed.thread === conversation.value.thread) load(changed.thread);
});

line.listen((now) => now.isLost || reload());

let loading = null;

async function load(thread) {
  // One at a time; what changes meanwhile is asked for once more.
  if (loading === thread) {
    isStale = true;
    return;
  }
  loading = thread;
  isStale = false;
  try {
    let messages = [];
    let page;
    let from = 0;
    for (let n = 0; n < PAGES_MAX && from !== null; n += 1) {
      page = await get(`/api/threads/${encodeURIComponent(thread)}?from=${from}&limit=${PAGE}`);
      messages = messages.concat(page.messages);
      from = page.next ?? null;
    }
    if (conversation.value.thread === thread) {
      conversation.value = { thread, row: page.thread, turns: turns(messages, page.runs, conversation.value.turns), after: merged(page.after ?? {}), isLoading: false, trouble: null };
    }
  } catch (trouble) {
    if (conversation.value.thread === thread) conversation.value = { ...conversation.value, isLoading: false, trouble };
  } finally {
    loading = null;
    if (isStale && conversation.value.thread === thread) load(thread);
  }
}

let isStale = false;

/// Messages and runs, put together. A message of no known run (an import) is a turn of its own.
export function turns(messages, runs, before = []) {
  const roots = runs.filter((run) => !run.parent).sort((a, b) => a.created_ms - b.created_ms);
  const all = roots.map((run) => {
    const own = messages.filter((message) => message.run === run.run);
    const question = own.find((message) => message.role === "user")?.content ?? asked.get(run.run) ?? run.question ?? run.title ?? "";
    return { run, question, reply: own.findLast((message) => message.role === "assistant")?.content ?? null, at_ms: run.created_ms };
  });
  const known = new Set(roots.map((run) => run.run));
  let last = null;
  for (const message of messages.filter((one) => !known.has(one.run))) {
    if (message.role === "user") {
      last = { run: null, question: message.content, reply: null, at_ms: message.created_ms };
      all.push(last);
    } else if (last && last.reply === null) last.reply = message.content;
    else all.push((last = { run: null, question: null, reply: message.content, at_ms: message.created_ms }));
  }
  // What was asked here a moment ago may not be in the list yet.
  for (const turn of before) {
    if (turn.run && asked.has(turn.run.run) && !known.has(turn.run.run)) all.push(turn);
  }
  return all.sort((a, b) => (a.at_ms ?? Infinity) - (b.at_ms ?? Infinity));
}

// A run and its children, as their events tell of them. Events in, one plain value out; no clock, no network.
//
//   applyEvent(family, event)      an event that is in a journal: asked, replied, noted …
//   applyDelta(family, delta)     words as they come, kept nowhere else
//
// The journal has how long things took and not when they were, so each run has a clock of its own: what is asked begins where the clock stands,
// a reply moves it to that beginning plus the time it took. A child begins where its parent asked for it.

export function newFamily(root) {
  return { root, runs: new Map(), drafts: new Map(), status: "running" };
}

export const keyOf = (run, [step, index]) => `${run}/${step}.${index}`;

/// `now_ms` is only used to show since when something goes on; nothing is decided by it.
export function applyEvent(family, event, now_ms = 0) {
  const run = memberOf(family, event);
  if (!run || event.seq < run.next) return false;
  run.next = event.seq + 1;
  const known = HANDLERS[event.event];
  if (known) known(family, run, event, now_ms);
  return true;
}

/// `at` is the position of this text in the draft; a late watcher receives all of it again, from 0.
export function applyDelta(family, { run, task, attempt, at = null, text }) {
  const key = keyOf(run, task);
  const draft = family.drafts.get(key);
  const before = draft && draft.attempt === attempt ? draft.text : "";
  family.drafts.set(key, { attempt, text: before.slice(0, at ?? before.length) + text });
}

function memberOf(family, event) {
  const id = event.run ?? family.root;
  let run = family.runs.get(id);
  if (!run && event.event !== "started") {
    // A stream that begins in the middle; what was before is simply not there.
    run = newRun(id, "");
    family.runs.set(id, run);
  }
  if (!run) {
    run = newRun(id, event.flow ?? "");
    run.caller = id === family.root ? null : callerOf(family, event.parent);
    if (run.caller) {
      run.caller.child = id;
      run.began_us = run.clock_us = run.caller.attempts.at(-1)?.start_us ?? 0;
    }
    family.runs.set(id, run);
  }
  return run;
}

const newRun = (id, flow) => ({
  id,
  flow,
  // Its answer is the one the user gets.
  answers: false,
  next: 0,
  caller: null,
  began_us: 0,
  clock_us: 0,
  steps: [],
  tasks: new Map(),
  notes: [],
  messages: [],
  edits: [],
  outcome: null,
});

/// The call a child run answers, as its first event names it.
const callerOf = (family, parent) => (parent && family.runs.get(parent.run)?.tasks.get(keyOf(parent.run, parent.task))) ?? null;

const HANDLERS = {
  started(_, run, event) {
    run.flow = event.flow;
    run.answers = event.answers === true;
    run.thread = event.thread;
  },

  entered(_, run, event) {
    run.steps.push({ step: event.step, node: event.node, to: null, start_us: run.clock_us, end_us: null });
  },

  asked(family, run, event, now_ms) {
    const key = keyOf(run.id, event.task);
    let task = run.tasks.get(key);
    if (!task) {
      task = newTask(run, event, key);
      run.tasks.set(key, task);
    }
    const wait_us = (event.after_ms ?? 0) * 1_000;
    const start_us = Math.max(run.clock_us, task.attempts.at(-1)?.end_us ?? 0);
    task.state = task.kind === "person" ? "asking" : "running";
    task.failure = null;
    task.effect = event.effect;
    task.attempts.push({ attempt: event.attempt, start_us: start_us + wait_us, end_us: null, since_ms: now_ms, reply: null, failure: null, again_ms: null });
  },

  replied(family, run, event) {
    const task = run.tasks.get(keyOf(run.id, event.task));
    if (!task) return;
    const attempt = task.attempts.find((one) => one.attempt === event.attempt && !one.reply) ?? task.attempts.at(-1);
    if (!attempt) return;
    const { reply } = event;
    attempt.reply = reply;
    attempt.again_ms = event.again_ms;
    const childEnd_us = task.child ? (family.runs.get(task.child)?.clock_us ?? 0) : 0;
    attempt.end_us = Math.max(attempt.start_us + (reply.took_us ?? 0), childEnd_us);
    run.clock_us = Math.max(run.clock_us, attempt.end_us);
    // The server sends `result` as `{Ok: value}` or `{Err: failure}`; only this line reads it.
    const { Ok: value, Err: failure = null } = reply.result;
    attempt.failure = failure;
    task.failure = failure;
    task.value = value;
    task.state = !failure ? "done" : event.again_ms !== null && event.again_ms !== undefined ? "again" : "failed";
    const usage = reply.usage ?? {};
    task.usage.tokens_in += usage.tokens_in ?? 0;
    task.usage.tokens_out += usage.tokens_out ?? 0;
    task.usage.usd_micros += usage.usd_micros ?? 0;
    if (task.state !== "again") run.lastReplied = task.key;
  },

  skipped(_, run, event) {
    const key = keyOf(run.id, event.task);
    const task = run.tasks.get(key) ?? newTask(run, { ...event, label: "skipped", effect: {} }, key);
    run.tasks.set(key, task);
    task.state = "skipped";
    task.failure = event.failure;
  },

  doubted(_, run, event) {
    const task = run.tasks.get(keyOf(run.id, event.task));
    if (task) task.state = "doubted";
  },

  held(_, run, event) {
    const task = run.tasks.get(keyOf(run.id, event.task));
    if (task) {
      task.state = "held";
      task.why = event.why;
    }
  },

  noted(_, run, event) {
    run.notes.push({ step: event.step, name: event.name, value: event.value });
  },

  said(_, run, event) {
    run.messages.push({ role: event.role, content: event.content });
  },

  left(_, run, event) {
    const step = run.steps.findLast((one) => one.step === event.step);
    if (step) {
      step.to = event.to;
      step.end_us = run.clock_us;
    }
    run.lastReplied = null;
  },

  edited(_, run, event) {
    run.edits.push({ step: event.step, patch: event.patch });
  },

  ended(_, run, event) {
    run.outcome = event.outcome;
    for (const task of run.tasks.values()) {
      if (["running", "again", "asking", "held", "doubted"].includes(task.state)) task.state = "stopped";
    }
  },
};

function newTask(run, event, key) {
  const [step, index] = event.task;
  const { kind, name } = whom(event.effect);
  return {
    key,
    run: run.id,
    step,
    index,
    label: event.label,
    kind,
    name,
    effect: event.effect,
    state: "waiting",
    attempts: [],
    usage: { tokens_in: 0, tokens_out: 0, usd_micros: 0 },
    failure: null,
    value: undefined,
    child: null,
    // Asked after another reply of the same step, it was waiting for that one.
    behind: run.lastReplied && run.tasks.get(run.lastReplied)?.step === step ? run.lastReplied : null,
  };
}

function whom(effect) {
  if (effect?.call_model) return { kind: "model", name: effect.call_model.purpose };
  if (effect?.call_tool) return { kind: "tool", name: effect.call_tool.tool };
  if (effect?.call_agent) return { kind: "agent", name: effect.call_agent.agent };
  if (effect?.ask_person) return { kind: "person", name: "person" };
  return { kind: "other", name: "" };
}

/// The run whose answer the user gets. A flow that passes on another's answer is marked too, and started before it.
export const speaker = (family) => [...family.runs.values()].findLast((run) => run.answers) ?? family.runs.get(family.root) ?? null;

export const note = (run, name) => run?.notes.findLast((one) => one.name === name)?.value;

/// What was spent by all of them.
export function spent(family) {
  const sum = { tokens_in: 0, tokens_out: 0, usd_micros: 0, calls: 0 };
  for (const run of family.runs.values()) {
    for (const task of run.tasks.values()) {
      if (task.kind === "agent" && task.child) continue;
      sum.tokens_in += task.usage.tokens_in;
      sum.tokens_out += task.usage.tokens_out;
      sum.usd_micros += task.usage.usd_micros;
      sum.calls += task.kind === "person" ? 0 : task.attempts.length;
    }
  }
  return sum;
}

/// How long a task took or has been going on.
export function took_us(task, now_ms) {
  const first = task.attempts[0];
  const last = task.attempts.at(-1);
  if (!first) return null;
  if (last.end_us !== null) return last.end_us - first.start_us;
  return last.start_us - first.start_us + Math.max(0, now_ms - last.since_ms) * 1_000;
}

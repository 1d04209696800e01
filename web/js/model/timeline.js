// One bar per effect, children below the call that started them.
//
//   bars(family, now_ms) -> { rows: [{task, depth, parts: [{start, width, state}]}], total_us }      start and width are shares of the whole

export function bars(family, now_ms) {
  const rows = [];
  const root = family.runs.get(family.root);
  if (root) add(rows, family, root, 0);
  let total_us = 1_000;
  for (const { task } of rows) {
    for (const attempt of task.attempts) total_us = Math.max(total_us, end(attempt, task, now_ms));
  }
  for (const row of rows) {
    row.parts = row.task.attempts.map((attempt) => {
      const end_us = end(attempt, row.task, now_ms);
      return {
        start: attempt.start_us / total_us,
        width: Math.max(0.004, (end_us - attempt.start_us) / total_us),
        state: attempt.failure ? "failed" : attempt.reply ? "done" : row.task.state,
      };
    });
  }
  return { rows, total_us };
}

function end(attempt, task, now_ms) {
  if (attempt.end_us !== null) return attempt.end_us;
  const isGoing = task.state === "running" || task.state === "asking";
  return attempt.start_us + (isGoing ? Math.max(0, now_ms - attempt.since_ms) * 1_000 : 0);
}

function add(rows, family, run, depth) {
  for (const task of run.tasks.values()) {
    rows.push({ task, depth });
    const child = task.child && family.runs.get(task.child);
    if (child) add(rows, family, child, depth + 1);
  }
}

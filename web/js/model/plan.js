// A plan in whatever form a flow notes it: `tasks` of search, `steps` of reason, `sections` of a report, lists of words of panel and research.
import { t } from "../core/words.js";

/// Every list of steps in a value, by its name.
export function lists(value) {
  if (Array.isArray(value)) return value.length > 0 ? { steps: value } : {};
  if (!value || typeof value !== "object") return {};
  const found = Object.entries(value).filter(([name, list]) => Array.isArray(list) && /(^|_)(tasks|steps|sections|capabilities|plan)$/.test(name));
  return Object.fromEntries(found);
}

/// One step, whatever its fields are called.
export function item(step, at) {
  if (typeof step === "string") return { number: at + 1, tool: "", arguments: {}, text: step, needs: [], failed: null };
  const args = step.tool_arguments ?? step.arguments ?? {};
  return {
    number: step.task_number ?? at + 1,
    tool: step.tool_name ?? step.tool ?? step.capability ?? "",
    arguments: args,
    text: step.description ?? step.about ?? step.step ?? step.heading ?? "",
    needs: needs(args),
    failed: step.status === "failed" ? (step.error ?? t("cannot be called")) : null,
  };
}

/// `{{2.data.url}}` in an argument is what step 2 found.
export function needs(args) {
  const numbers = [...JSON.stringify(args ?? {}).matchAll(/\{\{\s*(\d+)/g)].map(([, number]) => Number(number));
  return [...new Set(numbers)];
}

/// The steps a run has in mind now: of its last plan, as a person may have changed it.
export function planned(run) {
  let steps = null;
  for (const one of run.notes) {
    const isPlan = one.name === "plan" || one.name === "planner" || (one.name === "approval" && one.value?.edited);
    if (!isPlan) continue;
    const all = Object.values(lists(one.value)).flat();
    if (all.length > 0) steps = { step: one.step, items: all.map(item), why: one.value?.reasoning ?? "" };
  }
  return steps;
}

/// Which call carries out which step of the plan: by its tool and its words, in order.
export function carriedOut(run, plan) {
  const taken = new Set();
  const calls = [...run.tasks.values()].filter((task) => task.step > plan.step && (task.kind === "tool" || task.kind === "agent"));
  return plan.items.map((step) => {
    if (step.failed) return null;
    // A section is carried out by the run that is labelled with it.
    const section = calls.find((one) => !taken.has(one.key) && step.text !== "" && one.label.endsWith(`: ${step.text}`));
    if (step.tool === "" && section) return taken.add(section.key), section;
    const fits = (task) => !taken.has(task.key) && (step.tool === "" || task.name === step.tool);
    const task = calls.find((one) => fits(one) && step.text !== "" && one.label === step.text) ?? calls.find(fits);
    if (task) taken.add(task.key);
    return task ?? null;
  });
}

/// The lists of an answer to a question about a plan, as its schema names them, with what they hold now.
export function proposal(schema, family, noted) {
  const fields = Object.entries(schema?.properties ?? {}).filter(([, field]) => field.type === "array");
  if (fields.length === 0) return null;
  const holds = (value) => value && typeof value === "object" && fields.every(([name]) => Array.isArray(value[name]));
  let value = holds(noted) ? noted : null;
  for (const run of family ? family.runs.values() : []) {
    for (const one of run.notes) if (!holds(noted) && holds(one.value)) value = one.value;
  }
  if (!value) return null;
  return fields.map(([name, field]) => ({
    name,
    known: Object.keys(field.items?.properties ?? {}),
    tools: field.items?.properties?.tool_name?.enum ?? field.items?.properties?.tool?.enum ?? field.items?.enum ?? [],
    steps: value[name].filter((step) => step?.status !== "failed"),
  }));
}

// Changes of a plan by a person, as values: the fields of a step, its place, and what it is sent back as.
import { t } from "../core/words.js";
import { item } from "./plan.js";
import { shown } from "./text.js";

/// One field per argument; the words of a plain step are its only one, and a section has its heading and question.
export function stepFields(step) {
  if (typeof step === "string") return [plain("what", step)];
  if ("heading" in step) return [plain("heading", step.heading ?? ""), plain("question", step.question ?? "")];
  return Object.entries(item(step, 0).arguments).map(([name, value]) => {
    const text = shown(value);
    return { name, text, was: text, isJson: typeof value !== "string" };
  });
}

const plain = (name, text) => ({ name, text, was: text, isJson: false });

/// The steps with one moved within its list.
export function moved(steps, key, by) {
  const from = steps.findIndex((one) => one.key === key);
  const own = steps.map((one, at) => ({ one, at })).filter(({ one }) => one.list === steps[from]?.list);
  const place = own.findIndex(({ at }) => at === from);
  const to = own[place + by]?.at;
  if (from < 0 || to === undefined) return steps;
  const next = [...steps];
  [next[from], next[to]] = [next[to], next[from]];
  return next;
}

/// Steps are known by their number: a number of their own, or their place.
const hasNumber = (one) => one.step !== null && typeof one.step === "object" && one.step.task_number !== undefined;
const numberOf = (one, at) => (hasNumber(one) ? one.step.task_number : at + 1);
const REFERENCE = /\{\{\s*(\d+)/g;
const referred = (one) => [...new Set(one.fields.flatMap((field) => [...field.text.matchAll(REFERENCE)].map(([, number]) => Number(number))))];

/// Why the steps cannot be run in this order: one uses what a left-out step would find, or what a later one finds.
export function needs(steps) {
  const problems = [];
  for (const list of new Set(steps.map((one) => one.list))) {
    const own = steps.filter((one) => one.list === list);
    // A reference means a step by the number it had when the plan was made.
    const place = new Map(own.map((one, at) => [numberOf(one, one.at ?? at), at]));
    own.forEach((one, at) => {
      if (one.isOut || typeof one.step === "string" || one.fields.some((field) => field.name === "heading")) return;
      for (const number of referred(one)) {
        const other = place.get(number);
        if (other === undefined) continue;
        if (own[other].isOut) problems.push(t("Step {n} uses what step {other} finds. Keep that one, leave this one out too, or write the argument yourself.", { n: at + 1, other: other + 1 }));
        else if (other >= at) problems.push(t("Step {n} uses what step {other} finds, so it must come after it.", { n: at + 1, other: other + 1 }));
      }
    });
  }
  return problems;
}

/// The kept steps of a list with numbers and references that fit their new places. Steps with numbers of their own keep them.
export function numbered(kept) {
  const places = new Map(kept.filter((one) => one.at !== null && !hasNumber(one)).map((one) => [one.at + 1, kept.indexOf(one) + 1]));
  let next = Math.max(0, ...kept.filter(hasNumber).map((one) => one.step.task_number));
  const usesNumbers = kept.some(hasNumber);
  return kept.map((one) => {
    if (usesNumbers) return hasNumber(one) ? one : { ...one, number: (next += 1) };
    const renumber = (text) => text.replace(REFERENCE, (whole, number) => whole.replace(number, places.get(Number(number)) ?? number));
    return { ...one, fields: one.fields.map((field) => ({ ...field, text: renumber(field.text) })) };
  });
}

/// A step as the question takes it.
export function stepOf(one, list) {
  const value = (field) => (field.isJson ? JSON.parse(field.text) : field.text);
  if (typeof one.step === "string" || (one.step === null && one.fields.length === 1)) return one.fields[0].text;
  if (one.step === null || "heading" in one.step) {
    const step = Object.fromEntries(one.fields.filter((field) => field.text !== "" || !field.isOptional).map((field) => [field.name, value(field)]));
    return one.number !== undefined && list.known.includes("task_number") ? { task_number: one.number, ...step } : step;
  }
  const args = Object.fromEntries(one.fields.map((field) => [field.name, value(field)]));
  const name = "tool_arguments" in one.step ? "tool_arguments" : "arguments";
  const step = { ...one.step, [name]: args };
  // Only what the question takes goes back.
  return list.known.length > 0 ? Object.fromEntries(Object.entries(step).filter(([field]) => list.known.includes(field))) : step;
}

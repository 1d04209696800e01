// How the next question is to be answered: flow, model, approval, limits, settings of the flow. Kept in this browser.
import { cell } from "../core/cell.js";
import { keep, kept } from "../core/kept.js";
import { changed } from "../model/settings.js";
import { onlyOf } from "./sources.js";
import { flowNamed } from "./status.js";

const USUAL = { flow: "auto", model: "", approve: false, strict: false, budget: {}, settings: {}, breakpoints: {} };

// Earlier versions kept them as "wishes".
export const askOptions = cell({ ...USUAL, ...kept("askOptions", kept("wishes", {})) });

export function setAskOptions(change) {
  askOptions.value = { ...askOptions.value, ...change };
  keep("askOptions", askOptions.value);
}

/// Limits that are set, as `[name, number]`.
export const limitsOf = (budget) => Object.entries(budget).map(([name, limit]) => [name, Number(limit)]).filter(([, limit]) => limit > 0);

/// Stands for every node of a flow.
export const EVERY_NODE = "*";

/// The nodes of a flow before which runs wait; those that the flow no longer has are left out.
export function breakpointsOf(flow) {
  const nodes = (flowNamed(flow)?.graph?.nodes ?? []).map((node) => node.name);
  return (askOptions.value.breakpoints?.[flow] ?? []).filter((name) => name === EVERY_NODE || nodes.includes(name));
}

/// As the server takes it; what is left at its default is not sent. `after` is the run that it follows, on a branch.
export function asRequest(question, thread, after = null) {
  const { flow, model, approve, strict, budget, settings } = askOptions.value;
  const breakpoints = breakpointsOf(flow);
  const request = { question, flow };
  if (thread) request.thread = thread;
  if (thread && after !== null) request.after = after;
  const only = onlyOf(thread);
  if (only) request.only = only;
  if (model) request.model = model;
  if (approve) request.approve = true;
  if (strict) request.strict = true;
  const limits = limitsOf(budget).map(([name, limit]) => (name === "time_s" ? ["time_ms", Math.round(limit * 1_000)] : [name, limit]));
  if (limits.length > 0) request.budget = Object.fromEntries(limits);
  // `settings` has what was typed for each flow; the server lists what the flow takes.
  const set = changed(flowNamed(flow)?.settings ?? [], settings?.[flow]);
  if (Object.keys(set).length > 0) request.settings = set;
  if (breakpoints.length > 0) request.breakpoints = breakpoints;
  return request;
}

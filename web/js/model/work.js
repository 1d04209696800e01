// The steps of a run as a graph: what was done, step after step, and what its plan still contains.
//
//   plan ──► task 1 ──► task 3 ──► answer          done, running and planned tasks; loops are unrolled, because that is what happened
//       └──► task 2 ──────────────┘
import { t } from "../core/words.js";
import { carriedOut, planned } from "./plan.js";

/// `{nodes: [{id, title, about, state, kind, task}], edges}`, in an order in which edges go forward.
export function workGraph(run) {
  const nodes = [];
  const edges = [];
  const plan = planned(run);
  const byStep = stepsOf(run);
  let before = [];
  let isPlanDrawn = false;
  for (const [step, tasks] of byStep) {
    const calls = plan && step > plan.step ? carriedOut(run, plan) : [];
    const isPlanned = tasks.some((task) => calls.includes(task));
    const group = isPlanned && !isPlanDrawn ? plannedGroup(tasks, plan, calls) : plainGroup(tasks);
    isPlanDrawn ||= isPlanned;
    before = join(nodes, edges, before, group);
  }
  if (plan && !isPlanDrawn && !run.outcome) {
    before = join(nodes, edges, before, plannedGroup([], plan, plan.items.map(() => null)));
  }
  return { nodes, edges };
}

/// A flow as it is drawn before anything happened.
export function flowGraph(graph) {
  const order = reach(graph);
  const nodes = order.map((name) => ({ id: name, title: name.replaceAll("_", " "), about: "", state: "planned", kind: "node", task: null }));
  const edges = graph.nodes.flatMap((node) => (node.to ?? []).filter((to) => to !== "end").map((to) => ({ from: node.name, to })));
  return { nodes, edges };
}

/// Nodes in the order they can be come to.
function reach(graph) {
  const next = new Map(graph.nodes.map((node) => [node.name, node.to ?? []]));
  const order = [];
  const queue = [graph.start ?? graph.nodes[0]?.name];
  while (queue.length > 0) {
    const name = queue.shift();
    if (!next.has(name) || order.includes(name)) continue;
    order.push(name);
    queue.push(...next.get(name));
  }
  return order;
}

function stepsOf(run) {
  const steps = new Map();
  for (const task of run.tasks.values()) {
    if (!steps.has(task.step)) steps.set(task.step, []);
    steps.get(task.step).push(task);
  }
  return [...steps].sort(([a], [b]) => a - b);
}

const nodeOf = (task, title) => ({ id: task.key, title: title || task.label || task.name, about: aboutTask(task), state: task.state, kind: task.kind, task });

function aboutTask(task) {
  if (task.kind === "model") return `${t("Model")} · ${task.name}`;
  if (task.kind === "person") return task.state === "asking" ? t("needs your answer") : t("Person");
  return task.name;
}

function plainGroup(tasks) {
  const nodes = tasks.map((task) => nodeOf(task));
  const edges = tasks.filter((task) => task.behind).map((task) => ({ from: task.behind, to: task.key }));
  return { nodes, edges };
}

function plannedGroup(tasks, plan, calls) {
  const ids = plan.items.map((step, at) => calls[at]?.key ?? `plan/${plan.step}/${at}`);
  const nodes = plan.items.map((step, at) => {
    const call = calls[at];
    if (call) return nodeOf(call, step.text);
    const state = step.failed ? "failed" : "planned";
    return { id: ids[at], title: step.text || step.tool, about: step.tool, state, kind: "tool", task: null, why: step.failed };
  });
  const number = new Map(plan.items.map((step, at) => [step.number, ids[at]]));
  const edges = plan.items.flatMap((step, at) => step.needs.filter((need) => number.has(need)).map((need) => ({ from: number.get(need), to: ids[at] })));
  const rest = tasks.filter((task) => !calls.includes(task));
  const more = plainGroup(rest);
  return { nodes: [...nodes, ...more.nodes], edges: [...edges, ...more.edges] };
}

/// Puts a group behind what came before, and gives back its ends.
function join(nodes, edges, before, group) {
  const hasInto = new Set(group.edges.map((edge) => edge.to));
  const hasOut = new Set(group.edges.map((edge) => edge.from));
  nodes.push(...group.nodes);
  edges.push(...group.edges);
  for (const node of group.nodes) {
    if (!hasInto.has(node.id)) edges.push(...before.map((from) => ({ from, to: node.id })));
  }
  return group.nodes.filter((node) => !hasOut.has(node.id)).map((node) => node.id);
}

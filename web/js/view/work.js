// The steps of a run, during and after it: its plan as a graph, and below it a timeline with one bar per effect.
import { html } from "../core/html.js";
import { serverText, t } from "../core/words.js";
import { useCell } from "../core/cell.js";
import { openDrawer } from "../data/drawer.js";
import { flowNamed, status } from "../data/status.js";
import { note, speaker } from "../model/family.js";
import { planned } from "../model/plan.js";
import { words } from "../model/text.js";
import { flowGraph, workGraph } from "../model/work.js";
import { Graph } from "./graph.js";
import { Timeline } from "./timeline.js";
import { useEffect, useState } from "preact/hooks";

/// Bars of what goes on grow in such steps.
const TICK_MS = 250;

export function Work({ known, flow }) {
  useCell(status);
  const { family } = known;
  const main = speaker(family);
  const [chosen, setChosen] = useState(null);
  const isGoing = [...family.runs.values()].some((run) => [...run.tasks.values()].some((task) => task.state === "running"));
  const now_ms = useNow(isGoing);
  const run = family.runs.get(chosen) ?? main;
  const name = run?.flow || flow;
  const work = run ? workGraph(run) : { nodes: [], edges: [] };
  const graph = work.nodes.length > 0 ? work : flowNamed(name)?.graph ? flowGraph(flowNamed(name).graph) : work;
  const open = (task) => openDrawer({ kind: "task", run: family.root, task: task.key });
  const members = [...family.runs.values()].filter((one) => one.flow && (one === main || !one.answers));
  return html`
    <div class="work">
      ${members.length > 1 && html`<label class="picker work-member"><span>${t("Steps of")}</span><select value=${run?.id} onChange=${(event) => setChosen(event.target.value)}>
        ${members.map((one, at) => html`<option value=${one.id} selected=${one === run}>${flowNamed(one.flow)?.title ?? words(one.flow)}${at > 0 ? ` ${at + 1}` : ""}</option>`)}
      </select></label>`}
      <${Why} run=${run} />
      <${Graph} graph=${graph} now_ms=${now_ms} open=${open} label=${work.nodes.length > 0 ? t("The steps and what they need") : t("The flow {name}", { name: flowNamed(name)?.title ?? words(name) })} />
      <${Timeline} family=${family} now_ms=${now_ms} open=${open} />
      <${Notes} family=${family} />
      ${run && html`<button type="button" class="link work-inspect" onClick=${() => openDrawer({ kind: "inspect", run: run.id })}>${t("Inspect the state, cost and journal")}</button>`}
    </div>
  `;
}

const Why = ({ run }) => {
  const plan = run && planned(run);
  return plan?.why ? html`<p class="work-why" dir="auto">${plan.why}</p>` : null;
};

/// Notes that people want to know of: what went another way than planned.
const NOTE_TEXTS = {
  plan_fallback: (value) => t("The plan could not be used ({why}); {instead}", { why: serverText(value.why ?? value), instead: serverText(value.instead ?? "") }),
  plan_unusable: (value) => t("The plan could not be used: {why}", { why: serverText(value) }),
  plan_failed: (value) => t("The plan could not be used and is written again: {why}", { why: [].concat(value?.wrong ?? value).map(serverText).join("; ") }),
  tools_found: (value) => t("Searched for more tools ({query}): {found}", { query: value?.query ?? "", found: value?.found?.join(", ") || t("none found") }),
  no_tools: (value) => serverText(value),
  docs_failed: (value) => t("The documents could not be searched: {why}", { why: serverText(value) }),
  answer_failed: (value) => t("No model wrote the answer: {why}", { why: serverText(value) }),
  synthesis_failed: (value) => t("No model wrote the answer: {why}", { why: serverText(value) }),
  synthesis_salvaged: (value) => t("The model's reply did not have the requested form; {instead}", { instead: serverText(value) }),
  critic: (value) => t("Critic: {text}", { text: value }),
  reflection: (value) => (value?.issues?.length ? t("Reflection: {text}", { text: value.issues.join("; ") }) : ""),
  outline_fallback: (value) => t("The outline could not be used ({why}); {instead}.", { why: serverText(value.why), instead: serverText(value.instead) }),
  check_failed: (value) => t("Not everything could be checked: {why}", { why: serverText(value) }),
  approval: (value) => (value?.revise ? t("The plan was revised: {why}", { why: value.revise }) : value?.declined ? t("The plan was declined: {why}", { why: value.declined }) : value?.again ? t("Asked again: {why}", { why: value.again }) : value === "declined" ? t("The plan was declined.") : ""),
};

function Notes({ family }) {
  const all = [...family.runs.values()].flatMap((run) => run.notes).map((one) => NOTE_TEXTS[one.name]?.(one.value)).filter((text) => typeof text === "string" && text !== "");
  const why = note(family.runs.get(family.root), "flow")?.why;
  const lines = [...new Set(why ? [t("This flow was chosen because {why}.", { why: serverText(why) }), ...all] : all)];
  return lines.length === 0 ? null : html`<ul class="work-notes" aria-label=${t("Notes")}>${lines.map((text) => html`<li dir="auto">${text}</li>`)}</ul>`;
}

function useNow(isGoing) {
  const [now_ms, setNow] = useState(Date.now());
  useEffect(() => {
    if (!isGoing) return undefined;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, [isGoing]);
  return now_ms;
}

// The steps of a run, during and after it: its plan as a graph, and below it a timeline with one bar per effect.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
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
      ${members.length > 1 && html`<label class="picker work-member"><span>Steps of</span><select value=${run?.id} onChange=${(event) => setChosen(event.target.value)}>
        ${members.map((one, at) => html`<option value=${one.id} selected=${one === run}>${words(one.flow)}${at > 0 ? ` ${at + 1}` : ""}</option>`)}
      </select></label>`}
      <${Why} run=${run} />
      <${Graph} graph=${graph} now_ms=${now_ms} open=${open} label=${work.nodes.length > 0 ? "The steps and what they need" : `The flow ${words(name)}`} />
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
const TOLD = {
  plan_fallback: (value) => `The plan could not be used (${value.why ?? value}); ${value.instead ?? ""}`,
  plan_unusable: (value) => `The plan could not be used: ${value}`,
  plan_failed: (value) => `The plan could not be used and is written again: ${[].concat(value?.wrong ?? value).join("; ")}`,
  tools_found: (value) => `Searched for more tools (${value?.query ?? ""}): ${value?.found?.join(", ") || "none found"}`,
  no_tools: (value) => value,
  docs_failed: (value) => `The documents could not be searched: ${value}`,
  answer_failed: (value) => `No model wrote the answer: ${value}`,
  synthesis_failed: (value) => `No model wrote the answer: ${value}`,
  synthesis_salvaged: (value) => `The model's reply was not of the form asked for; ${value}`,
  critic: (value) => `Critic: ${value}`,
  reflection: (value) => (value?.issues?.length ? `Reflection: ${value.issues.join("; ")}` : ""),
  outline_fallback: (value) => `The outline could not be used (${value.why}); ${value.instead}.`,
  check_failed: (value) => `Not everything could be checked: ${value}`,
  approval: (value) => (value?.revise ? `The plan was revised: ${value.revise}` : value?.declined ? `The plan was declined: ${value.declined}` : value?.again ? `Asked again: ${value.again}` : value === "declined" ? "The plan was declined." : ""),
};

function Notes({ family }) {
  const all = [...family.runs.values()].flatMap((run) => run.notes).map((one) => TOLD[one.name]?.(one.value)).filter((text) => typeof text === "string" && text !== "");
  const why = note(family.runs.get(family.root), "flow")?.why;
  const lines = [...new Set(why ? [`This flow was chosen because ${why}.`, ...all] : all)];
  return lines.length === 0 ? null : html`<ul class="work-notes" aria-label="Notes">${lines.map((text) => html`<li dir="auto">${text}</li>`)}</ul>`;
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

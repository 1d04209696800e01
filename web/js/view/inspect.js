// For authors of flows, in the drawer: the state at each step and what changed, the prompts as they were sent, tokens and cost by node, and the journal as
// it is stored.
import { html } from "../core/html.js";
import { language, serverText, t } from "../core/words.js";
import { journalOf, stepsOf } from "../data/inspect.js";
import { useRun } from "../data/runs.js";
import { count, duration, labelOf, money, shown } from "../model/text.js";
import { States } from "./inspect_state.js";
import { Prompt, costOf } from "./task.js";
import { useLoaded } from "./use_loaded.js";
import { useEffect, useState } from "preact/hooks";

const VIEWS = [
  ["state", () => t("State")],
  ["prompts", () => t("Prompts")],
  ["nodes", () => t("Cost by node")],
  ["journal", () => t("Journal")],
];

export function Inspect({ run }) {
  const [view, setView] = useState("state");
  const [again, setAgain] = useState(0);
  const [steps, trouble] = useLoaded(() => stepsOf(run), [run, again]);
  return html`
    <div class="inspect">
      <p class="quiet">${t("Run")} <code>${run}</code></p>
      <div class="asking-bar" role="group" aria-label=${t("What is shown")}>
        ${VIEWS.map(([name, title]) => html`<button type="button" class="button" aria-pressed=${String(view === name)} onClick=${() => setView(name)}>${title()}</button>`)}
        <button type="button" class="button button-quiet" onClick=${() => setAgain(again + 1)}>${t("Refresh")}</button>
      </div>
      ${trouble && view !== "journal" && html`<p class="wrong" role="alert">${trouble.message}</p>`}
      ${!steps && !trouble && html`<p role="status">${t("Loading the steps …")}</p>`}
      ${steps?.is_cut && html`<p class="remark">${t("The states of this run are too large together; later steps are left out.")}</p>`}
      ${steps && view === "state" && html`<${States} key=${`${run} ${again}`} run=${run} steps=${steps.steps} />`}
      ${view === "prompts" && html`<${Prompts} run=${run} />`}
      ${steps && view === "nodes" && html`<${Nodes} nodes=${steps.nodes} />`}
      ${view === "journal" && html`<${Journal} key=${`${run} ${again}`} run=${run} />`}
    </div>
  `;
}

/// Every call of a model, in order: what was sent, and what came back.
function Prompts({ run }) {
  const known = useRun(run);
  const calls = [...(known?.family.runs.get(run)?.tasks.values() ?? [])].filter((task) => task.effect?.call_model);
  if (calls.length === 0) return html`<p class="quiet">${t("This run called no model itself. Runs that it started are chosen above its steps.")}</p>`;
  return html`<p class="quiet">${count(calls.length, "call")}</p>
    <ol class="prompts">${calls.map((task) => html`<li key=${task.key}><details><summary>${task.step}.${task.index} ${labelOf(task)} · ${costOf(task)}</summary>
      <${Prompt} call=${task.effect.call_model} />
      ${task.value !== undefined && html`<section class="part"><h3>${t("Reply")}</h3><pre tabindex="0" dir="auto">${shown(task.value)}</pre></section>`}
      ${task.failure && html`<p class="wrong">${serverText(task.failure.message)}</p>`}
    </details></li>`)}</ol>`;
}

function Nodes({ nodes }) {
  return html`<div class="table" tabindex="0" role="region" aria-label=${t("Cost by node")}><table>
    <thead><tr><th scope="col">${t("Node")}</th><th scope="col">${t("Visits")}</th><th scope="col">${t("Calls")}</th><th scope="col">${t("Tokens in")}</th><th scope="col">${t("Tokens out")}</th><th scope="col">${t("Cost")}</th><th scope="col">${t("Time")}</th></tr></thead>
    <tbody>${nodes.map((one) => html`<tr><th scope="row">${one.node}</th><td>${one.visits}</td><td>${one.calls}</td><td>${one.tokens_in.toLocaleString(language)}</td><td>${one.tokens_out.toLocaleString(language)}</td><td>${money(one.usd_micros) || "–"}</td><td>${duration(one.took_us) || "–"}</td></tr>`)}</tbody>
  </table></div>`;
}

function Journal({ run }) {
  const [lines, setLines] = useState([]);
  const [next, setNext] = useState(0);
  const [wrong, setWrong] = useState("");
  const load = (from) =>
    journalOf(run, from).then(
      (page) => {
        setLines((known) => (from === 0 ? page.lines : [...known, ...page.lines]));
        setNext(page.next ?? null);
      },
      (trouble) => setWrong(trouble.message),
    );
  useEffect(() => {
    load(0);
  }, [run]);
  return html`
    ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
    <ol class="journal" start="0">${lines.map((line) => html`<li key=${line.seq}><details><summary>${line.seq} ${Object.keys(line.entry).find((name) => name !== "v")}</summary><pre tabindex="0" dir="auto">${shown(line.entry)}</pre></details></li>`)}</ol>
    ${next !== null && lines.length > 0 && html`<button type="button" class="link" onClick=${() => load(next)}>${t("Show more lines")}</button>`}
  `;
}

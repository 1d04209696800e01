// For authors of flows, in the drawer: the state at each step and what changed, tokens and cost by node, and the journal as it is stored.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { go, to } from "../core/route.js";
import { closeDrawer } from "../data/drawer.js";
import { journalOf, stateAt, stepsOf } from "../data/inspect.js";
import { fork } from "../data/runs.js";
import { say } from "../data/notices.js";
import { duration, money, shown } from "../model/text.js";
import { Icon } from "./icons.js";
import { useEffect, useState } from "preact/hooks";

const VIEWS = [
  ["state", () => t("State")],
  ["nodes", () => t("Cost by node")],
  ["journal", () => t("Journal")],
];

export function Inspect({ run, flow }) {
  const [view, setView] = useState("state");
  const [steps, trouble] = useLoaded(() => stepsOf(run), [run]);
  return html`
    <div class="inspect">
      <p class="quiet">${t("A run of the flow {flow}", { flow })}: <code>${run}</code></p>
      <div class="asking-bar" role="group" aria-label=${t("What is shown")}>${VIEWS.map(([name, title]) => html`<button type="button" class="button" aria-pressed=${String(view === name)} onClick=${() => setView(name)}>${title()}</button>`)}</div>
      ${trouble && html`<p class="wrong" role="alert">${trouble.message}</p>`}
      ${!steps && !trouble && html`<p role="status">${t("Loading the steps …")}</p>`}
      ${steps && view === "state" && html`<${States} run=${run} steps=${steps.steps} />`}
      ${steps && view === "nodes" && html`<${Nodes} nodes=${steps.nodes} />`}
      ${view === "journal" && html`<${Journal} run=${run} />`}
    </div>
  `;
}

/// What was loaded, or why it was not.
function useLoaded(load, inputs) {
  const [found, setFound] = useState([null, null]);
  useEffect(() => {
    let isWanted = true;
    setFound([null, null]);
    load().then((value) => isWanted && setFound([value, null]), (trouble) => isWanted && setFound([null, trouble]));
    return () => (isWanted = false);
  }, inputs);
  return found;
}

function States({ run, steps }) {
  const [step, setStep] = useState(steps.at(-1)?.step ?? 0);
  const [state, trouble] = useLoaded(() => stateAt(run, step), [run, step]);
  return html`
    <label class="picker"><span>${t("On entering step")}</span><select value=${String(step)} onChange=${(event) => setStep(Number(event.target.value))}>
      ${steps.map((one) => html`<option value=${String(one.step)} selected=${one.step === step}>${one.step}: ${one.node}</option>`)}
    </select></label>
    ${trouble && html`<p class="wrong" role="alert">${trouble.message}</p>`}
    ${state && html`
      <section class="part"><h3>${t("Changed by the step before")}</h3>${state.changes.length === 0 ? html`<p class="quiet">${t("Nothing.")}</p>` : html`<ul class="changes">${state.changes.map((change) => html`<${Change} change=${change} />`)}</ul>`}</section>
      <section class="part"><h3>${t("State")}</h3><details open=${state.changes.length === 0}><summary>${step}: ${state.node}</summary><pre tabindex="0" dir="auto">${shown(state.state)}</pre></details></section>
      <${Rerun} key=${step} run=${run} step=${step} state=${state.state} />
    `}
  `;
}

function Change({ change }) {
  const side = (sign, kind, words, value) => value !== undefined && html`<pre class=${`diff-${kind}`} tabindex="0">${sign} <span class="hidden">${words} </span>${shown(value)}</pre>`;
  return html`<li><code>${change.path || "/"}</code>${side("−", "left", t("before:"), change.before)}${side("+", "right", t("after:"), change.after)}</li>`;
}

/// A new run from this step on: with another state, and to its end or only this node.
function Rerun({ run, step, state }) {
  const before = shown(state);
  const [isOpen, setOpen] = useState(false);
  const [text, setText] = useState(before);
  const [wrong, setWrong] = useState("");
  const begin = async (isOneNode) => {
    setWrong("");
    const wish = { at_step: step };
    try {
      // The whole state; a merge patch removes what was deleted.
      if (text !== before) wish.patch = patchOf(state, JSON.parse(text));
    } catch (error) {
      return setWrong(t("That is not JSON: {why}", { why: error.message }));
    }
    if (isOneNode) wish.breakpoints = ["*"];
    try {
      const { run: new_run, thread } = await fork(run, wish);
      say(isOneNode ? t("The node runs again; the new run then waits before the next one.") : t("The new run goes on from this step; the original is unchanged."));
      closeDrawer();
      go(to.thread(thread, new_run));
    } catch (trouble) {
      setWrong(trouble.message);
    }
    return undefined;
  };
  return html`
    <section class="part"><h3>${t("Run again from here")}</h3>
      ${isOpen && html`<label><span>${t("State as JSON")}</span><textarea class="mono" rows="12" value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>`}
      ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
      <div class="asking-bar">
        ${!isOpen && html`<button type="button" class="button" onClick=${() => setOpen(true)}>${t("Edit the state")}</button>`}
        <button type="button" class="button" onClick=${() => begin(false)}><${Icon} name="play" size="15" />${text === before ? t("Continue from here") : t("Continue with this state")}</button>
        <button type="button" class="button" onClick=${() => begin(true)}>${t("Run only this node")}</button>
      </div>
    </section>
  `;
}

/// The merge patch (RFC 7396) that makes one state of the other.
export function patchOf(before, after) {
  const isMap = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  if (!isMap(before) || !isMap(after)) return after;
  const patch = {};
  for (const name of Object.keys(before)) if (!(name in after)) patch[name] = null;
  for (const [name, value] of Object.entries(after)) {
    if (JSON.stringify(before[name]) !== JSON.stringify(value)) patch[name] = name in before ? patchOf(before[name], value) : value;
  }
  return patch;
}

function Nodes({ nodes }) {
  return html`<div class="table" tabindex="0" role="region" aria-label=${t("Cost by node")}><table>
    <thead><tr><th scope="col">${t("Node")}</th><th scope="col">${t("Visits")}</th><th scope="col">${t("Calls")}</th><th scope="col">${t("Tokens in")}</th><th scope="col">${t("Tokens out")}</th><th scope="col">${t("Cost")}</th><th scope="col">${t("Time")}</th></tr></thead>
    <tbody>${nodes.map((one) => html`<tr><td>${one.node}</td><td>${one.visits}</td><td>${one.calls}</td><td>${one.tokens_in.toLocaleString("en")}</td><td>${one.tokens_out.toLocaleString("en")}</td><td>${money(one.usd_micros) || "–"}</td><td>${duration(one.took_us) || "–"}</td></tr>`)}</tbody>
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
    <ol class="journal" start="0">${lines.map((line) => html`<li><details><summary>${line.seq} ${Object.keys(line.entry).find((name) => name !== "v")}</summary><pre tabindex="0" dir="auto">${shown(line.entry)}</pre></details></li>`)}</ol>
    ${next !== null && lines.length > 0 && html`<button type="button" class="link" onClick=${() => load(next)}>${t("Show more lines")}</button>`}
  `;
}

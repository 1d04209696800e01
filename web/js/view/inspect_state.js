// The state of a run on entering each step, what the step before changed, and a new run from there.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { go, to } from "../core/route.js";
import { closeDrawer } from "../data/drawer.js";
import { stateAt } from "../data/inspect.js";
import { say } from "../data/notices.js";
import { fork } from "../data/runs.js";
import { shown } from "../model/text.js";
import { Icon } from "./icons.js";
import { StateEditor, useStateEditor } from "./state_editor.js";
import { useLoaded } from "./use_loaded.js";
import { useState } from "preact/hooks";

export function States({ run, steps }) {
  const [step, setStep] = useState(steps.at(-1)?.step ?? 0);
  const [state, trouble] = useLoaded(() => stateAt(run, step), [run, step]);
  return html`
    <label class="picker"><span>${t("On entering step")}</span><select value=${String(step)} onChange=${(event) => setStep(Number(event.target.value))}>
      ${steps.map((one) => html`<option value=${String(one.step)} selected=${one.step === step}>${one.step}: ${one.node}</option>`)}
    </select></label>
    ${trouble && html`<p class="wrong" role="alert">${trouble.message}</p>`}
    ${!state && !trouble && html`<p role="status">${t("Loading the state …")}</p>`}
    ${state?.step === step && html`
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
  const editor = useStateEditor(state);
  const [isOpen, setOpen] = useState(false);
  const [wrong, setWrong] = useState("");
  const [isBusy, setBusy] = useState(false);
  const begin = async (isOneNode) => {
    setWrong("");
    setBusy(true);
    try {
      const patch = editor.patch();
      const made = await fork(run, { at_step: step, ...(patch && { patch }), ...(isOneNode && { breakpoints: ["*"] }) });
      say(isOneNode ? t("The node runs again; the new run then waits before the next one.") : t("The new run continues from this step; the original is unchanged."));
      closeDrawer();
      sessionStorage.setItem(`baton.branch.${made.run}`, run);
      go(to.thread(made.thread, made.run));
    } catch (trouble) {
      setWrong(trouble.message);
      setBusy(false);
    }
  };
  return html`
    <section class="part"><h3>${t("Run again from here")}</h3>
      ${isOpen && html`<${StateEditor} editor=${editor} wrong=${wrong} />`}
      ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
      <div class="asking-bar">
        ${!isOpen && html`<button type="button" class="button" onClick=${() => setOpen(true)}>${t("Edit the state")}</button>`}
        <button type="button" class="button" disabled=${isBusy} onClick=${() => begin(false)}><${Icon} name="play" size="15" />${editor.isChanged ? t("Continue with this state") : t("Continue from here")}</button>
        <button type="button" class="button" disabled=${isBusy} onClick=${() => begin(true)}>${t("Run only this node")}</button>
      </div>
    </section>
  `;
}

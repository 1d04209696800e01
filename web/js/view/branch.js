// "Branch from here": a new run with the past of this one up to a step, with another reply put in its place, or another state.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { go, to } from "../core/route.js";
import { closeDrawer } from "../data/drawer.js";
import { say } from "../data/notices.js";
import { fork } from "../data/runs.js";
import { shown } from "../model/text.js";
import { Icon } from "./icons.js";
import { useState } from "preact/hooks";

export function Branch({ task, root }) {
  const [isOpen, setOpen] = useState(false);
  const before = task.value === undefined ? "" : shown(task.value);
  const [reply, setReply] = useState(before);
  const [patch, setPatch] = useState("");
  const [wrong, setWrong] = useState("");
  const [isBusy, setBusy] = useState(false);
  if (task.attempts.length === 0) return null;
  const isText = typeof task.value === "string";
  const begin = async (event) => {
    event.preventDefault();
    setWrong("");
    const request = { at_step: task.step };
    try {
      if (reply !== before) request.replies = { [task.index]: isText ? reply : JSON.parse(reply) };
      if (patch.trim()) request.patch = JSON.parse(patch);
    } catch (error) {
      return setWrong(t("That is not JSON: {why}", { why: error.message }));
    }
    setBusy(true);
    try {
      const { run, thread } = await fork(task.run, request);
      say(t("The branch was started; the original run is unchanged."));
      closeDrawer();
      sessionStorage.setItem(`baton.branch.${run}`, root);
      go(to.thread(thread, run));
    } catch (trouble) {
      setWrong(trouble.message);
      setBusy(false);
    }
    return undefined;
  };
  if (!isOpen) {
    return html`<section class="part"><button type="button" class="button" onClick=${() => setOpen(true)}><${Icon} name="branch" size="16" />${t("Branch from here")}</button></section>`;
  }
  return html`
    <section class="part branch"><h3>${t("Branch from here")}</h3>
      <p class="quiet">${t("A new conversation keeps everything before step {step} and continues from there. Change the reply to see a different outcome; leave it unchanged to run the step again.", { step: task.step })}</p>
      <form onSubmit=${begin}>
        ${before !== "" && html`<label><span>${isText ? t("Reply") : t("Reply, as JSON")}</span><textarea class=${isText ? "" : "mono"} rows="8" value=${reply} onInput=${(event) => setReply(event.target.value)}></textarea></label>`}
        <details><summary>${t("Change the state too")}</summary><label><span>${t("A JSON merge patch for the flow's state on entering the step, for example:")} <code>{"question": "Another one?"}</code></span><textarea class="mono" rows="3" value=${patch} onInput=${(event) => setPatch(event.target.value)}></textarea></label></details>
        ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
        <div class="asking-bar"><button class="button button-primary" disabled=${isBusy}><${Icon} name="branch" size="16" />${isBusy ? t("Branching …") : reply !== before || patch.trim() ? t("Branch with this") : t("Branch and run again")}</button>
          <button type="button" class="button" onClick=${() => setOpen(false)}>${t("Cancel")}</button></div>
      </form>
    </section>
  `;
}

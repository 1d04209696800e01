// A run that waits at a breakpoint: it continues, with another state if somebody writes one, or ends.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { openDrawer } from "../data/drawer.js";
import { currentState } from "../data/inspect.js";
import { Icon } from "./icons.js";
import { StateEditor, useStateEditor } from "./state_editor.js";
import { useLoaded } from "./use_loaded.js";
import { useState } from "preact/hooks";

export function Paused({ open, send }) {
  const [isEditing, setEditing] = useState(false);
  return html`
    ${isEditing ? html`<${Edited} run=${open.run} send=${send} />` : html`<${Bar} send=${send} goOn=${() => send({ continue: true })} />`}
    <p class="asking-more">
      ${!isEditing && html`<button type="button" class="link" onClick=${() => setEditing(true)}>${t("Change the state first")}</button>`}
      <button type="button" class="link" onClick=${() => openDrawer({ kind: "inspect", run: open.run })}>${t("Inspect the state, cost and journal")}</button>
    </p>
  `;
}

const Bar = ({ goOn, send, title }) => html`<div class="asking-bar">
  <button type="button" class="button button-primary" onClick=${goOn}><${Icon} name="play" size="16" />${title ?? t("Continue")}</button>
  <button type="button" class="button" onClick=${() => send({ continue: false })}><${Icon} name="stop" size="16" />${t("End the run")}</button>
</div>`;

function Edited({ run, send }) {
  const [found, trouble] = useLoaded(() => currentState(run), [run]);
  if (trouble) return html`<p class="wrong" role="alert">${trouble.message}</p>`;
  if (!found) return html`<p role="status">${t("Loading the state …")}</p>`;
  return html`<${Form} state=${found.state} send=${send} />`;
}

function Form({ state, send }) {
  const editor = useStateEditor(state);
  const [wrong, setWrong] = useState("");
  const goOn = () => {
    try {
      const patch = editor.patch();
      return send(patch ? { continue: true, patch } : { continue: true });
    } catch (error) {
      return setWrong(error.message);
    }
  };
  return html`
    <${StateEditor} editor=${editor} wrong=${wrong} />
    ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
    <${Bar} send=${send} goOn=${goOn} title=${editor.isChanged ? t("Continue with this state") : null} />
  `;
}

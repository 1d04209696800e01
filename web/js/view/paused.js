// A run that waits at a breakpoint: it goes on, with another state if somebody writes one, or ends.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { Icon } from "./icons.js";
import { useState } from "preact/hooks";

export function Paused({ send }) {
  const [patch, setPatch] = useState("");
  const [wrong, setWrong] = useState("");
  const goOn = () => {
    if (patch.trim() === "") return send({ continue: true });
    try {
      return send({ continue: true, patch: JSON.parse(patch) });
    } catch (error) {
      return setWrong(t("That is not JSON: {why}", { why: error.message }));
    }
  };
  return html`
    <details><summary>${t("Change the state first")}</summary><label><span>${t("A JSON merge patch for the state of the flow; “Inspect” below the steps shows the state")}</span><textarea class="mono" rows="4" value=${patch} onInput=${(event) => setPatch(event.target.value)}></textarea></label></details>
    ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
    <div class="asking-bar">
      <button type="button" class="button button-primary" onClick=${goOn}><${Icon} name="play" size="16" />${t("Continue")}</button>
      <button type="button" class="button" onClick=${() => send({ continue: false })}><${Icon} name="stop" size="16" />${t("End the run")}</button>
    </div>
  `;
}

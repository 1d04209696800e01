// The question of a turn: shown, or being changed. A changed question starts another version of the turn.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { Icon } from "./icons.js";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export function Question({ question, run }) {
  if (run?.is_resumed) return html`<h2 class="resumed"><${Icon} name="play" size="14" />${t("Resumed")}<span class="hidden">: ${question}</span></h2>`;
  if (question === null) return null;
  return html`<h2 class="question" dir="auto"><span class="hidden">${t("You asked:")} </span>${question}</h2>`;
}

export function QuestionEditor({ question, send, close }) {
  const [text, setText] = useState(question);
  const [isBusy, setBusy] = useState(false);
  const area = useRef(null);
  useLayoutEffect(() => {
    area.current.focus();
    area.current.setSelectionRange(question.length, question.length);
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    if (text.trim() === "" || isBusy) return;
    setBusy(true);
    if (await send(text.trim())) close();
    else setBusy(false);
  };
  const press = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
    if (event.key === "Escape") {
      event.preventDefault();
      close();
    }
  };
  return html`<form class="question-editor" onSubmit=${submit} aria-label=${t("Change the question")}>
    <label><span class="hidden">${t("The question")}</span><textarea ref=${area} rows="3" value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${press}></textarea></label>
    <div class="asking-bar"><button class="button button-primary" disabled=${isBusy || text.trim() === ""}>${t("Ask this instead")}</button>
      <button type="button" class="button" onClick=${close}>${t("Cancel")}</button></div>
  </form>`;
}

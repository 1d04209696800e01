// Where one asks: the question, who answers and how, and within which limits.
import { html } from "../core/html.js";
import { useCell } from "../core/cell.js";
import { models, status } from "../data/status.js";
import { wish, wishes } from "../data/wishes.js";
import { FlowSettings } from "./flow_settings.js";
import { Icon } from "./icons.js";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

const QUESTION_CHARS_MAX = 32_000;

/// `send(question)` gives back whether it was taken; `running` is stopped by `stop`.
export function Composer({ send, running, stop, isFirst, words = "", taken = () => {} }) {
  const [text, setText] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [hasOptions, setOptions] = useState(false);
  const area = useRef(null);
  useEffect(() => {
    if (!words) return;
    setText(words);
    taken();
    area.current.focus();
  }, [words]);
  useEffect(() => {
    if (isFirst && matchMedia("(pointer: fine)").matches) area.current.focus();
  }, [isFirst]);
  useLayoutEffect(() => {
    area.current.style.height = "auto";
    area.current.style.height = `${Math.min(area.current.scrollHeight, 240)}px`;
  }, [text]);
  const submit = async (event) => {
    event?.preventDefault();
    const question = text.trim();
    if (!question || isBusy) return;
    setBusy(true);
    const isTaken = await send(question);
    setBusy(false);
    if (isTaken) setText("");
  };
  const press = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  return html`
    <form class="composer" onSubmit=${submit} aria-label="Ask">
      <label class="hidden" for="question">Your question</label>
      <textarea id="question" ref=${area} rows="1" maxlength=${QUESTION_CHARS_MAX} value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${press}
        placeholder=${isFirst ? "Ask anything. Enter sends, Shift+Enter breaks the line." : "Ask a follow-up"} autocomplete="off"></textarea>
      ${hasOptions && html`<${Options} />`}
      <div class="composer-bar">
        <${FlowPicker} />
        <${ModelPicker} />
        <button type="button" class="button button-quiet" aria-expanded=${String(hasOptions)} onClick=${() => setOptions(!hasOptions)}><${Icon} name="gear" size="16" /><span>Options</span></button>
        <span class="spring"></span>
        ${running
          ? html`<button type="button" class="button button-stop" onClick=${stop}><${Icon} name="stop" size="16" />Stop</button>`
          : html`<button type="submit" class="button button-primary" disabled=${isBusy || text.trim() === ""}><${Icon} name="send" size="16" />${isBusy ? "Sending …" : "Ask"}</button>`}
      </div>
    </form>
  `;
}

function FlowPicker() {
  const { flow } = useCell(wishes);
  const flows = (useCell(status)?.flows ?? []).filter((one) => one.is_shown !== false);
  const known = flows.some((one) => one.name === flow) ? flow : (flows[0]?.name ?? "auto");
  return html`
    <label class="picker" title=${flows.find((one) => one.name === known)?.about}>
      <select aria-label="Flow" value=${known} onChange=${(event) => wish({ flow: event.target.value })}>
        ${flows.length === 0 && html`<option value="auto">Auto</option>`}
        ${flows.map((one) => html`<option value=${one.name} title=${one.about} selected=${one.name === known}>${one.title ?? one.name}</option>`)}
      </select>
    </label>
  `;
}

function ModelPicker() {
  const { model } = useCell(wishes);
  const known = useCell(models);
  const server = useCell(status);
  const ready = (known?.options ?? []).filter((option) => option.state === "ready" && option.name);
  const chosen = known?.chosen?.name ?? server?.model?.name ?? "";
  return html`
    <label class="picker" title=${known?.chosen?.why}>
      <select aria-label="Model" value=${model} onChange=${(event) => wish({ model: event.target.value })}>
        <option value="">${chosen ? `${chosen}` : "Usual model"}</option>
        ${ready.filter((option) => option.name !== chosen).map((option) => html`<option value=${option.name} selected=${option.name === model}>${option.name}</option>`)}
        ${model && !ready.some((option) => option.name === model) && model !== chosen && html`<option value=${model} selected>${model}</option>`}
      </select>
    </label>
  `;
}

const LIMITS = [
  ["tokens", "Tokens", "1", "no limit"],
  ["usd", "US dollars", "0.01", "no limit"],
  ["time_s", "Seconds", "1", "no limit"],
  ["calls", "Calls", "1", "no limit"],
];

function Options() {
  const { approve, strict, budget, flow, model } = useCell(wishes);
  const canApprove = (useCell(status)?.flows ?? []).find((one) => one.name === flow)?.can_approve !== false;
  return html`
    <fieldset class="options">
      <legend class="hidden">Options</legend>
      <label class="check"><input type="checkbox" checked=${approve} disabled=${!canApprove} onChange=${(event) => wish({ approve: event.target.checked })} /><span><strong>Show me the plan first</strong><small>Nothing runs before you agree; you can change it.</small></span></label>
      <label class="check"><input type="checkbox" checked=${strict} onChange=${(event) => wish({ strict: event.target.checked })} /><span><strong>Only what is supported</strong><small>Sentences that no source carries are left out.</small></span></label>
      <label class="options-model"><span>Another model, by its name</span><input value=${model} placeholder="ollama/qwen3:4b, openai/gpt-4.1-mini, extract …" autocomplete="off" spellcheck="false" onInput=${(event) => wish({ model: event.target.value.trim() })} /></label>
      <div class="limits" role="group" aria-label="Budget">
        ${LIMITS.map(
          ([name, title, step, none]) =>
            html`<label><span>${title}</span><input type="number" min="0" step=${step} placeholder=${none} value=${budget[name] ?? ""} onInput=${(event) => wish({ budget: { ...budget, [name]: event.target.value } })} /></label>`,
        )}
      </div>
      <${FlowSettings} flow=${flow} />
    </fieldset>
  `;
}

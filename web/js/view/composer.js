// The form for a question: its text, the flow and the model, options, and what was pasted as a document.
import { html } from "../core/html.js";
import { useCell } from "../core/cell.js";
import { useEscape } from "../core/escape.js";
import { QUESTION_BYTES_MAX, attachText, byteLength, detach, withAttachments } from "../data/attachments.js";
import { say } from "../data/notices.js";
import { loadStatus, models, status } from "../data/status.js";
import { wish, wishes } from "../data/wishes.js";
import { bytes } from "../model/text.js";
import { Icon } from "./icons.js";
import { Options, OptionsSet } from "./options.js";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

const HEIGHT_PX_MAX = 240;

/// `send(question)` resolves to whether it was accepted; `running` is the run that `stop` ends, and `canSend()` resolves to whether it is over.
export function Composer({ send, running, canSend, stop, isFirst, words = "", taken = () => {} }) {
  const [text, setText] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [hasOptions, setOptions] = useState(false);
  const [hint, setHint] = useState("");
  const [attached, setAttached] = useState([]);
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
  useEffect(() => setHint(""), [running]);
  useEscape(hasOptions, () => {
    setOptions(false);
    area.current.focus();
  });
  useLayoutEffect(() => {
    area.current.style.height = "auto";
    area.current.style.height = `${Math.min(area.current.scrollHeight, HEIGHT_PX_MAX)}px`;
  }, [text]);

  const submit = async (event) => {
    event?.preventDefault();
    const question = withAttachments(text.trim(), attached.map((one) => one.name));
    if (!text.trim() || isBusy) return;
    const length = byteLength(question);
    if (length > QUESTION_BYTES_MAX) return setHint(`The question has ${bytes(length)}; at most ${bytes(QUESTION_BYTES_MAX)} can be sent. Shorten it, or add the long part under Documents.`);
    setBusy(true);
    setHint("");
    if (running && !(await canSend())) {
      setBusy(false);
      return setHint("The current run is not finished. Wait for it, or press Stop. Your text is kept.");
    }
    const isTaken = await send(question);
    setBusy(false);
    if (isTaken) {
      setText("");
      setAttached([]);
    }
    return undefined;
  };
  const press = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  /// What does not fit into a question becomes a document.
  const paste = async (event) => {
    const pasted = event.clipboardData?.getData("text/plain") ?? "";
    if (byteLength(text) + byteLength(pasted) <= QUESTION_BYTES_MAX) return;
    event.preventDefault();
    const length = bytes(byteLength(pasted));
    let own = null;
    const changed = (now) => {
      own = now;
      setAttached((all) => [...all.filter((one) => one.name !== now.name), { ...now, length }]);
    };
    try {
      await attachText(pasted, changed);
      loadStatus();
    } catch (trouble) {
      if (own) setAttached((all) => all.filter((one) => one.name !== own.name));
      setHint(`The pasted text has ${length}; a question has at most ${bytes(QUESTION_BYTES_MAX)}. It could not be added as a document either: ${trouble.message}`);
    }
  };
  const discard = (name) => {
    setAttached((all) => all.filter((one) => one.name !== name));
    detach(name).catch((trouble) => say(`${name}: ${trouble.message}`, "bad"));
    area.current.focus();
  };
  return html`
    <form class="composer" onSubmit=${submit} aria-label="Ask">
      <label class="hidden" for="question">Your question</label>
      <${Attached} all=${attached} discard=${discard} />
      <textarea id="question" ref=${area} rows="1" value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${press} onPaste=${paste}
        placeholder=${isFirst ? "Ask anything. Enter sends, Shift+Enter starts a new line." : "Ask a follow-up"} autocomplete="off"></textarea>
      <p class=${hint ? "composer-hint" : "hidden"} role="status">${hint}</p>
      ${hasOptions ? html`<${Options} />` : html`<${OptionsSet} open=${() => setOptions(true)} />`}
      <div class="composer-bar">
        <${FlowPicker} />
        <${ModelPicker} />
        <button type="button" class="button button-quiet" aria-label="Options" aria-expanded=${String(hasOptions)} onClick=${() => setOptions(!hasOptions)}><${Icon} name="gear" size="16" /><span>Options</span></button>
        <span class="spring"></span>
        ${running
          ? html`<button type="button" class="button button-stop" onClick=${stop}><${Icon} name="stop" size="16" />Stop</button>`
          : html`<button type="submit" class="button button-primary" disabled=${isBusy || text.trim() === ""}><${Icon} name="send" size="16" />${isBusy ? "Sending …" : "Ask"}</button>`}
      </div>
    </form>
  `;
}

const ATTACHED = { sending: "sending …", indexing: "indexing …", ready: "ready" };

const Attached = ({ all, discard }) =>
  all.length > 0 &&
  html`<ul class="attached" aria-label="Attached documents">
    ${all.map(
      (one) => html`<li key=${one.name}><${Icon} name="document" size="15" /><span>${one.name}</span><small role="status">${one.length}, ${ATTACHED[one.state]}</small>
        <button type="button" class="button-icon" aria-label=${`Remove ${one.name}`} disabled=${one.state === "sending"} onClick=${() => discard(one.name)}><${Icon} name="close" size="14" /></button></li>`,
    )}
  </ul>`;

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
        <option value="">${chosen ? `${chosen}` : "Default model"}</option>
        ${ready.filter((option) => option.name !== chosen).map((option) => html`<option value=${option.name} selected=${option.name === model}>${option.name}</option>`)}
        ${model && !ready.some((option) => option.name === model) && model !== chosen && html`<option value=${model} selected>${model}</option>`}
      </select>
    </label>
  `;
}

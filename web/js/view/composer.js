// The form for a question: its text, the flow and the model, options, and what was pasted as a document.
import { html } from "../core/html.js";
import { useCell } from "../core/cell.js";
import { useEscape } from "../core/escape.js";
import { t } from "../core/words.js";
import { QUESTION_BYTES_MAX, attachFile, attachText, byteLength, detach, withAttachments } from "../data/attachments.js";
import { say } from "../data/notices.js";
import { loadStatus, models, status } from "../data/status.js";
import { setAskOptions, askOptions } from "../data/ask_options.js";
import { bytes } from "../model/text.js";
import { Icon } from "./icons.js";
import { Options, OptionsSet } from "./options.js";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

const HEIGHT_PX_MAX = 240;

/// `send(question)` resolves to whether it was accepted; `running` is the run that `stop` ends, and `canSend()` resolves to whether it is over.
export function Composer({ begun = () => {}, thread = null, send, running, canSend, stop, isFirst, words = "", taken = () => {}, following = null, unfollow = () => {} }) {
  const [text, setText] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [hasOptions, setOptions] = useState(false);
  const [hint, setHint] = useState("");
  const [attached, setAttached] = useState([]);
  const area = useRef(null);
  useLayoutEffect(() => {
    if (!words) return;
    setText(words);
    taken();
    area.current.focus();
  }, [words]);
  useLayoutEffect(() => {
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
    // A placeholder counts like text.
  }, [text, isFirst]);

  const submit = async (event) => {
    event?.preventDefault();
    // The field, not the state: Enter may come before the last letters are drawn.
    const typed = area.current.value;
    const question = withAttachments(typed.trim(), attached.map((one) => one.name));
    if (!typed.trim() || isBusy) return;
    const length = byteLength(question);
    if (length > QUESTION_BYTES_MAX) return setHint(t("The question has {size}; at most {most} can be sent. Shorten it, or attach the long part as a file.", { size: bytes(length), most: bytes(QUESTION_BYTES_MAX) }));
    setBusy(true);
    setHint("");
    if (running && !(await canSend())) {
      setBusy(false);
      return setHint(t("The current run is not finished. Wait for it, or press Stop. Your text is kept."));
    }
    const isTaken = await send(question);
    setBusy(false);
    if (isTaken) {
      // What was typed while the question was on its way is kept.
      setText((now) => (now === typed ? "" : now));
      setAttached([]);
    }
    return undefined;
  };
  const type = (event) => {
    if (text === "") begun();
    setText(event.target.value);
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
      setHint(t("The pasted text has {size}; a question has at most {most}. It could not be added as a document either: {why}", { size: length, most: bytes(QUESTION_BYTES_MAX), why: trouble.message }));
    }
  };
  /// Each file becomes a document of the user; the question names it.
  const attach = async (files) => {
    for (const file of files) {
      const changed = (now) => setAttached((all) => [...all.filter((one) => one.name !== now.name), { ...now, length: bytes(file.size) }]);
      try {
        await attachFile(file, changed);
      } catch (trouble) {
        setAttached((all) => all.filter((one) => one.name !== file.name));
        setHint(t("{name} could not be attached: {why}", { name: file.name, why: trouble.message }));
      }
    }
    loadStatus();
  };
  const pick = async (event) => {
    const files = [...event.target.files];
    event.target.value = "";
    area.current.focus();
    await attach(files);
  };
  const drop = (event) => {
    if (!event.dataTransfer?.files.length) return;
    event.preventDefault();
    attach([...event.dataTransfer.files]);
  };
  const discard = (name) => {
    setAttached((all) => all.filter((one) => one.name !== name));
    detach(name).catch((trouble) => say(`${name}: ${trouble.message}`, "bad"));
    area.current.focus();
  };
  return html`
    <form class="composer" onSubmit=${submit} aria-label=${t("Ask")} onDragOver=${(event) => event.preventDefault()} onDrop=${drop}>
      <label class="hidden" for="question">${t("Your question")}</label>
      ${following && html`<p class="following"><${Icon} name="branch" size="14" /><span dir="auto">${t("Continues after: {question}", { question: following.question })}</span> <button type="button" class="link" onClick=${unfollow}>${t("Continue at the end instead")}</button></p>`}
      <${Attached} all=${attached} discard=${discard} />
      <textarea id="question" ref=${area} rows="1" value=${text} onInput=${type} onKeyDown=${press} onPaste=${paste}
        placeholder=${isFirst ? t("Ask anything. Enter sends, Shift+Enter starts a new line.") : t("Ask a follow-up")} autocomplete="off"></textarea>
      <p class=${hint ? "composer-hint" : "hidden"} role="status">${hint}</p>
      ${hasOptions ? html`<${Options} thread=${thread} />` : html`<${OptionsSet} thread=${thread} open=${() => setOptions(true)} />`}
      <div class="composer-bar">
        <${FlowPicker} />
        <${ModelPicker} />
        <button type="button" class="button button-quiet" aria-label=${t("Options")} aria-expanded=${String(hasOptions)} onClick=${() => setOptions(!hasOptions)}><${Icon} name="gear" size="16" /><span>${t("Options")}</span></button>
        <label class="button button-quiet attach" title=${t("Attach files to the question")}><${Icon} name="clip" size="16" /><span class="hidden">${t("Attach files")}</span><input type="file" multiple onChange=${pick} /></label>
        <span class="spring"></span>
        ${running
          ? html`<button type="button" class="button button-stop" onClick=${stop}><${Icon} name="stop" size="16" />${t("Stop")}</button>`
          : html`<button type="submit" class="button button-primary" disabled=${isBusy || text.trim() === ""}><${Icon} name="send" size="16" />${isBusy ? t("Sending …") : t("Ask")}</button>`}
      </div>
    </form>
  `;
}

const attachedStates = () => ({ sending: t("sending …"), indexing: t("indexing …"), ready: t("ready") });

const Attached = ({ all, discard }) =>
  all.length > 0 &&
  html`<ul class="attached" aria-label=${t("Attached documents")}>
    ${all.map(
      (one) => html`<li key=${one.name}><${Icon} name="document" size="15" /><span>${one.name}</span><small role="status">${one.length}, ${attachedStates()[one.state]}</small>
        <button type="button" class="button-icon" aria-label=${t("Remove {name}", { name: one.name })} disabled=${one.state === "sending"} onClick=${() => discard(one.name)}><${Icon} name="close" size="14" /></button></li>`,
    )}
  </ul>`;

function FlowPicker() {
  const { flow } = useCell(askOptions);
  const flows = (useCell(status)?.flows ?? []).filter((one) => one.is_shown !== false);
  const known = flows.some((one) => one.name === flow) ? flow : (flows[0]?.name ?? "auto");
  return html`
    <label class="picker" title=${flows.find((one) => one.name === known)?.about}>
      <select aria-label=${t("Flow")} value=${known} onChange=${(event) => setAskOptions({ flow: event.target.value })}>
        ${flows.length === 0 && html`<option value="auto">${t("Auto")}</option>`}
        ${flows.map((one) => html`<option value=${one.name} title=${one.about} selected=${one.name === known}>${one.title ?? one.name}</option>`)}
      </select>
    </label>
  `;
}

function ModelPicker() {
  const { model } = useCell(askOptions);
  const known = useCell(models);
  const server = useCell(status);
  const ready = (known?.options ?? []).filter((option) => option.state === "ready" && option.name);
  const chosen = known?.chosen?.name ?? server?.model?.name ?? "";
  return html`
    <label class="picker" title=${known?.chosen?.why}>
      <select aria-label=${t("Model")} value=${model} onChange=${(event) => setAskOptions({ model: event.target.value })}>
        <option value="">${chosen ? `${chosen}` : t("Default model")}</option>
        ${ready.filter((option) => option.name !== chosen).map((option) => html`<option value=${option.name} selected=${option.name === model}>${option.name}</option>`)}
        ${model && !ready.some((option) => option.name === model) && model !== chosen && html`<option value=${model} selected>${model}</option>`}
      </select>
    </label>
  `;
}

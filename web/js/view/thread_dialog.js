// Dialogs about one conversation: its title, its tags, the links through which others can read it.
import { html } from "../core/html.js";
import { copyText } from "../core/clipboard.js";
import { t } from "../core/words.js";
import { attempt, say } from "../data/notices.js";
import { changeThread, revoke, share, sharesOf } from "../data/thread_actions.js";
import { atTime } from "../model/text.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icons.js";
import { useEffect, useState } from "preact/hooks";

export function ThreadDialog({ kind, ...props }) {
  const Body = { rename: Rename, tags: Tags, share: Share }[kind];
  return html`<${Body} ...${props} />`;
}

const TITLE_CHARS_MAX = 200;

function Rename({ thread, row, close }) {
  return html`<${OneField} title=${t("Rename the conversation")} label=${t("Title")} about=${t("Leave it empty to use the first question.")} value=${row.title} chars=${TITLE_CHARS_MAX} close=${close} save=${(text) => changeThread(thread, { title: text })} />`;
}

function Tags({ thread, row, close }) {
  const parse = (text) => text.split(",").map((tag) => tag.trim()).filter(Boolean);
  return html`<${OneField} title=${t("Tags of the conversation")} label=${t("Tags")} about=${t("With commas between them. Search for #tag to list the conversations that have it.")} value=${(row.tags ?? []).join(", ")} chars=${800} close=${close}
    save=${(text) => changeThread(thread, { tags: parse(text) })} />`;
}

function OneField({ title, label, about, value, chars, save, close }) {
  const [text, setText] = useState(value);
  const [wrong, setWrong] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    try {
      await save(text.trim());
      close();
    } catch (trouble) {
      setWrong(trouble.message);
    }
  };
  return html`<${Dialog} title=${title} close=${close}><form onSubmit=${submit}>
    <label class="dialog-field"><span>${label}</span><input value=${text} maxlength=${chars} onInput=${(event) => setText(event.target.value)} autocomplete="off" aria-describedby="dialog-about" /></label>
    <p id="dialog-about" class="quiet">${about}</p>
    ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
    <div class="asking-bar"><button class="button button-primary">${t("Save")}</button><button type="button" class="button" onClick=${close}>${t("Cancel")}</button></div>
  </form><//>`;
}

function Share({ thread, runs, close }) {
  const [shares, setShares] = useState(null);
  const [made, setMade] = useState(null);
  const load = () => attempt(async () => setShares(await sharesOf(thread)));
  useEffect(() => {
    load();
  }, []);
  const make = () =>
    attempt(async () => {
      const { path, id } = await share(thread, runs);
      setMade({ id, link: new URL(path, location.href).href });
      await load();
    });
  const end = (id) =>
    attempt(async () => {
      await revoke(thread, id);
      if (made?.id === id) setMade(null);
      await load();
      say(t("The link is revoked."));
    });
  const copy = () => attempt(async () => (await copyText(made.link), say(t("Copied"))));
  return html`<${Dialog} title=${t("Share the conversation")} close=${close} isWide>
    <p>${t("Anybody with the link can read the questions, answers and source names of the {n} turns shown now. Later turns, steps and documents are not shown.", { n: runs.length })}</p>
    ${made && html`<label class="dialog-field"><span>${t("The link, shown only now")}</span><input readonly value=${made.link} onFocus=${(event) => event.target.select()} /></label>`}
    <div class="asking-bar">
      ${made ? html`<button type="button" class="button button-primary" onClick=${copy}><${Icon} name="copy" size="15" />${t("Copy the link")}</button>` : html`<button type="button" class="button button-primary" disabled=${runs.length === 0} onClick=${make}><${Icon} name="link" size="15" />${t("Create a link")}</button>`}
    </div>
    ${shares?.length > 0 && html`<h3>${t("Links")}</h3><ul class="shares">${shares.map((one) => html`<li key=${one.id}><span>${t("{n} turns", { n: one.turns })} · ${atTime(one.created_ms)}</span><button type="button" class="button" aria-label=${t("Revoke the link of {time}", { time: atTime(one.created_ms) })} onClick=${() => end(one.id)}>${t("Revoke")}</button></li>`)}</ul>`}
  <//>`;
}

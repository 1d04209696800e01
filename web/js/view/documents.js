// The user's documents: uploaded here, indexed in the background, cited in answers.
import { html } from "../core/html.js";
import { language, serverText, t } from "../core/words.js";
import { get, remove, upload } from "../core/api.js";
import { openDrawer } from "../data/drawer.js";
import { attempt, say } from "../data/notices.js";
import { loadStatus } from "../data/status.js";
import { ago, bytes, count } from "../model/text.js";
import { Icon } from "./icons.js";
import { useEffect, useRef, useState } from "preact/hooks";

const FILE_BYTES_MAX = 20e6;
/// How often the index is looked at while it fills.
const LOOK_MS = 1_000;

const states = () => ({ indexed: t("indexed"), waiting: t("waiting"), failed: t("failed") });

export function Documents() {
  const [known, setKnown] = useState(null);
  const [sending, setSending] = useState([]);
  const [isOver, setOver] = useState(false);
  const input = useRef(null);
  const load = async () => {
    try {
      setKnown(await get("/api/documents"));
    } catch (trouble) {
      setKnown((was) => ({ ...was, trouble }));
    }
  };
  useEffect(() => {
    load();
  }, []);
  const isFilling = known?.index?.is_filling || known?.files?.some((file) => file.state === "waiting");
  useEffect(() => {
    if (!isFilling) return undefined;
    const timer = setInterval(load, LOOK_MS);
    return () => clearInterval(timer);
  }, [isFilling]);

  const send = async (files) => {
    for (const file of files) {
      if (file.size > FILE_BYTES_MAX) {
        say(t("{name} has {size}; at most {most} can be uploaded. Split it, or pass its folder to `baton serve --docs`.", { name: file.name, size: bytes(file.size), most: bytes(FILE_BYTES_MAX) }), "bad");
        continue;
      }
      setSending((all) => [...all, { name: file.name, share: 0 }]);
      try {
        await upload(`/api/documents/${encodeURIComponent(file.name)}`, file, (share) => setSending((all) => all.map((one) => (one.name === file.name ? { ...one, share } : one))));
        say(t("{name} was uploaded and is being indexed.", { name: file.name }));
      } catch (trouble) {
        say(t("{name} was not uploaded: {why}", { name: file.name, why: trouble.message }), "bad");
      }
      setSending((all) => all.filter((one) => one.name !== file.name));
      await load();
    }
    loadStatus();
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    send([...event.dataTransfer.files]);
  };
  const discard = (name) =>
    attempt(async () => {
      if (!confirm(t("Delete {name}? Answers that cited it keep their passages.", { name }))) return;
      await remove(`/api/documents/${encodeURIComponent(name)}`);
      await load();
      say(t("{name} is deleted.", { name }));
    });
  return html`
    <section class="room-page" aria-labelledby="documents">
      <h1 id="documents">${t("Documents")}</h1>
      <p class="lead">${t("Answers search and cite these files. Other users cannot see them.")}</p>
      <div class=${`drop ${isOver ? "is-over" : ""}`} onDragOver=${(event) => (event.preventDefault(), setOver(true))} onDragLeave=${() => setOver(false)} onDrop=${drop}>
        <${Icon} name="upload" size="26" />
        <p><strong>${t("Drop files here")}</strong> ${t("or")} <button type="button" class="link" onClick=${() => input.current.click()}>${t("choose files")}</button></p>
        <p class="quiet">${t("Markdown, text, HTML, PDF, DOCX and source code; up to {size} each", { size: bytes(FILE_BYTES_MAX) })}</p>
        <label class="hidden" for="files">${t("Files to upload")}</label>
        <input id="files" ref=${input} class="hidden" type="file" multiple tabindex="-1" onChange=${(event) => send([...event.target.files]).then(() => (input.current.value = ""))} />
      </div>
      ${sending.map((one) => html`<label class="sending"><span>${one.name}</span><progress value=${one.share} max="1" aria-label=${t("Sending {name}", { name: one.name })}></progress></label>`)}
      ${known?.trouble && html`<p class="trouble" role="alert">${known.trouble.message} <button type="button" class="link" onClick=${load}>${t("Try again")}</button></p>`}
      ${known?.index &&
      html`<p class="index" role="status"><${Icon} name=${known.index.is_filling ? "wait" : "check"} size="16" />${t("{passages} indexed for keyword search, {vectors} for semantic search.", { passages: count(known.index.passages ?? 0, "passage"), vectors: (known.index.vectors ?? 0).toLocaleString(language) })}
        ${known.index.is_filling && html`<progress value=${known.index.vectors ?? 0} max=${Math.max(1, known.index.passages ?? 1)} aria-label=${t("Index")}></progress>`}</p>`}
      ${known?.files?.length > 0 &&
      html`<table class="files"><caption class="hidden">${t("Your files")}</caption><thead><tr><th scope="col">${t("File")}</th><th scope="col">${t("Size")}</th><th scope="col">${t("Changed")}</th><th scope="col">${t("State")}</th><th scope="col"><span class="hidden">${t("Delete")}</span></th></tr></thead><tbody>
        ${known.files.map((file) => html`<tr><td dir="auto"><button type="button" class="link" title=${t("Show the contents")} onClick=${() => openDrawer({ kind: "document", name: file.name })}>${file.name}</button></td><td>${bytes(file.bytes)}</td><td>${file.updated_ms ? ago(file.updated_ms) : ""}</td><td><span class=${`stand stand-${file.state}`} title=${serverText(file.why)}>${states()[file.state] ?? file.state}</span>${file.why ? html` <span class="quiet">${serverText(file.why)}</span>` : null}</td>
          <td><button type="button" class="button-icon" aria-label=${t("Delete {title}", { title: file.name })} onClick=${() => discard(file.name)}><${Icon} name="bin" size="16" /></button></td></tr>`)}
      </tbody></table>`}
      ${known?.folders?.length > 0 && html`<h2>${t("Folders")}</h2><p class="quiet">${t("Configured when the server was started; read in place.")}</p><ul class="folders">${known.folders.map((folder) => html`<li><code>${folder}</code></li>`)}</ul>`}
    </section>
  `;
}

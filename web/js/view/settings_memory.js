// What runs left for later runs, and the way to forget it.
import { html } from "../core/html.js";
import { get, remove } from "../core/api.js";
import { to } from "../core/route.js";
import { t } from "../core/words.js";
import { attempt, say } from "../data/notices.js";
import { atTime, shown, words } from "../model/text.js";
import { useEffect, useState } from "preact/hooks";

const TEXT_CHARS_MAX = 300;

export function Memory() {
  const [known, setKnown] = useState(null);
  const load = () => get("/api/memory").then(setKnown, (trouble) => setKnown({ trouble }));
  useEffect(() => {
    load();
  }, []);
  const forget = (id) => attempt(async () => (await remove(`/api/memory/${id}`), await load()));
  const all = () => confirm(t("Forget everything that was remembered?")) && attempt(async () => (await remove("/api/memory"), await load(), say(t("Everything is forgotten."))));
  const notes = known?.notes ?? [];
  return html`<section class="setting" aria-labelledby="memory"><h2 id="memory">${t("Memory")}</h2>
    <p class="quiet">${t("Flows keep notes for later questions, for example plans that worked. Nobody else sees them.")}</p>
    ${known?.trouble && html`<p class="trouble" role="alert">${known.trouble.message}</p>`}
    ${known && !known.trouble && notes.length === 0 && html`<p>${t("Nothing is remembered.")}</p>`}
    <ul class="models">${notes.map((note) => html`<li key=${note.id}><div class="server-head"><strong>${words(note.kind)}</strong><span class="quiet">${words(note.flow)} · ${atTime(note.created_ms)}</span> <a href=${to.thread(note.thread)}>${t("the conversation")}</a>
      <button type="button" class="button" aria-label=${t("Forget note {n}", { n: note.id })} onClick=${() => forget(note.id)}>${t("Forget")}</button></div><p class="quiet" dir="auto">${shown(note.key).slice(0, TEXT_CHARS_MAX)}</p></li>`)}</ul>
    ${notes.length > 0 && html`<button type="button" class="button" onClick=${all}>${t("Forget everything")}</button>`}</section>`;
}

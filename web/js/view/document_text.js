// The text of one of the user's documents as it is indexed, in the drawer, a part at a time.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { get } from "../core/api.js";
import { useEffect, useState } from "preact/hooks";

export function DocumentText({ name }) {
  const [parts, setParts] = useState([]);
  const [wrong, setWrong] = useState("");
  const load = (from) =>
    get(`/api/documents/${encodeURIComponent(name)}?from=${from}`).then(
      (part) => setParts((known) => (from === 1 ? [part] : [...known, part])),
      (trouble) => setWrong(trouble.message),
    );
  useEffect(() => {
    setParts([]);
    setWrong("");
    load(1);
  }, [name]);
  const last = parts.at(-1);
  return html`
    <p class="document-name" dir="auto"><strong>${name}</strong></p>
    ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
    ${!last && !wrong && html`<p role="status">${t("Loading …")}</p>`}
    ${parts.map((part) => html`<pre class="document-text" key=${part.from} tabindex="0" dir="auto">${part.text}</pre>`)}
    ${last && html`<p class="quiet">${t("Up to {to} of {total} (lines, pages or paragraphs).", { to: last.to, total: last.total })}</p>`}
    ${last && last.to < last.total && html`<button type="button" class="button" onClick=${() => load(last.to + 1)}>${t("Show more")}</button>`}
  `;
}

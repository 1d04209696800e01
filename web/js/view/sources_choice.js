// Which sources the questions of a conversation may use: everything, or only what is ticked.
import { html } from "../core/html.js";
import { useCell } from "../core/cell.js";
import { t } from "../core/words.js";
import { chosenSources, loadSources, setOnly } from "../data/sources.js";
import { useEffect, useState } from "preact/hooks";

/// Servers that read the web, and the one that reads documents.
const WEB = ["search", "fetch", "stories"];
const DOCS = "docs";

export function SourcesChoice({ thread }) {
  const only = useCell(chosenSources)[thread ?? ""] ?? null;
  const [known, setKnown] = useState(null);
  const isLimited = only !== null;
  useEffect(() => {
    if (isLimited && !known) loadSources().then(setKnown);
  }, [isLimited]);
  const has = (name) => only?.includes(name) ?? false;
  const set = (names, isOn) => setOnly(thread, isOn ? [...new Set([...only, ...names])] : only.filter((name) => !names.includes(name)));
  const web = WEB.filter((name) => known?.servers.includes(name));
  const tools = (known?.servers ?? []).filter((name) => name !== DOCS && !WEB.includes(name));
  const documents = [...(known?.folders ?? []), ...(known?.files ?? [])];
  const box = (names, label, more = "") => html`<label class="check"><input type="checkbox" checked=${names.every(has)} onChange=${(event) => set(names, event.target.checked)} /><span><strong>${label}</strong>${more && html`<small>${more}</small>`}</span></label>`;
  return html`
    <fieldset class="sources-choice"><legend>${t("Sources of this conversation")}</legend>
      <label class="choice"><input type="radio" name="sources" checked=${!isLimited} onChange=${() => setOnly(thread, null)} />${t("Everything")}</label>
      <label class="choice"><input type="radio" name="sources" checked=${isLimited} onChange=${() => setOnly(thread, only ?? [DOCS])} />${t("Only these")}</label>
      ${isLimited && !known && html`<p role="status">${t("Loading the sources …")}</p>`}
      ${isLimited && known && html`<div class="sources-list">
        ${web.length > 0 && box(web, t("Web"), web.join(", "))}
        ${box([DOCS], t("All documents"))}
        ${!has(DOCS) && documents.map((name) => box([`document:${name}`], name, t("document")))}
        ${tools.map((name) => box([name], name, t("tools")))}
      </div>`}
    </fieldset>
  `;
}

// What a run had found when it failed, e.g. because no model answered.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { note } from "../model/family.js";
import { webAddress } from "../model/text.js";
import { Plain } from "./answer.js";
import { Icon } from "./icons.js";

export function FoundBefore({ status, family }) {
  if (status !== "failed" || !family) return null;
  const found = [...family.runs.values()].map((run) => note(run, "found_before_failure")).findLast(Boolean);
  if (!found?.answer) return null;
  const sources = Array.isArray(found.sources) ? found.sources : [];
  return html`<section class="draft draft-partial found-before" role="group" aria-label=${t("Found before the run failed")}>
    <p class="draft-mark"><${Icon} name="info" size="14" />${t("Found before the run failed; no model wrote an answer from it.")}</p>
    <${Plain} text=${found.body ?? found.answer} />
    ${sources.length > 0 && html`<ol class="found-sources">${sources.map((source) => {
      const href = webAddress(source.address);
      return html`<li dir="auto">${href ? html`<a href=${href} target="_blank" rel="noopener noreferrer">${source.title || href}</a>` : source.title || source.address}</li>`;
    })}</ol>`}
  </section>`;
}

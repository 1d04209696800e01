// Suggested next questions below the last answer. A click puts one into the form, where it can be changed.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { followUps } from "../model/follow_ups.js";

const texts = {
  contrary: (about) => t("Why do the sources disagree on this: {about}", { about }),
  source: (about) => t("Is there a source for this: {about}", { about }),
  heading: (about) => t("Tell me more about: {about}", { about }),
  more: (about) => t("What else does “{about}” say about this?", { about }),
};

export function FollowUps({ answer, take }) {
  const all = followUps(answer);
  if (all.length === 0) return null;
  return html`<ul class="follow-ups" aria-label=${t("Suggested questions")}>
    ${all.map(({ kind, about }) => html`<li><button type="button" class="follow-up" dir="auto" title=${texts[kind](about)} onClick=${() => take(texts[kind](about))}>${texts[kind](about)}</button></li>`)}
  </ul>`;
}

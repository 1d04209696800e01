// "2 / 3": which version of a turn is shown, and the way to the others.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { Icon } from "./icons.js";

export function Switcher({ siblings, at, show }) {
  if (siblings.length < 2) return null;
  const all = siblings.length;
  return html`<span class="switcher" role="group" aria-label=${t("Versions of this turn")}>
    <button type="button" class="button-icon" disabled=${at === 0} aria-label=${t("Previous version")} onClick=${() => show(siblings[at - 1])}><${Icon} name="left" size="14" /></button>
    <span role="status"><span class="hidden">${t("Version {n} of {all}", { n: at + 1, all })}</span><span aria-hidden="true">${at + 1} / ${all}</span></span>
    <button type="button" class="button-icon" disabled=${at === all - 1} aria-label=${t("Next version")} onClick=${() => show(siblings[at + 1])}><${Icon} name="right" size="14" /></button>
  </span>`;
}

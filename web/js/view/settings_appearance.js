// Theme, language, notifications.
import { html } from "../core/html.js";
import { useCell } from "../core/cell.js";
import { setTheme, theme } from "../core/theme.js";
import { LANGUAGES, language, setLanguage, t } from "../core/words.js";
import { notifying, setNotifying } from "../data/notify.js";
import { useState } from "preact/hooks";

const themes = () => [["system", t("System")], ["light", t("Light")], ["dark", t("Dark")]];

export function Appearance() {
  const chosen = useCell(theme);
  return html`<fieldset class="setting"><legend><h2>${t("Appearance")}</h2></legend><div class="choices" role="radiogroup" aria-label=${t("Theme")}>
    ${themes().map(([one, title]) => html`<label class="choice"><input type="radio" name="theme" value=${one} checked=${chosen === one} onChange=${() => setTheme(one)} />${title}</label>`)}
  </div>
  <label class="preference"><span>${t("Language")}</span><select value=${language} onChange=${(event) => setLanguage(event.target.value)}>${LANGUAGES.map(([code, name]) => html`<option value=${code} selected=${code === language}>${name}</option>`)}</select></label>
  <${Notify} /></fieldset>`;
}

function Notify() {
  const isOn = useCell(notifying);
  const [why, setWhy] = useState("");
  const set = async (event) => setWhy(await setNotifying(event.target.checked));
  return html`<label class="check"><input type="checkbox" checked=${isOn} onChange=${set} /><span><strong>${t("Notify me when a long run ends or asks")}</strong><small>${t("While this page is open in a tab that you do not look at.")}</small></span></label>
    ${why && html`<p class="wrong" role="alert">${why}</p>`}`;
}

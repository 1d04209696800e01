// The settings of the flow that is chosen, as inputs. What is left as it is is not sent.
import { html, withCode } from "../core/html.js";
import { t } from "../core/words.js";
import { useCell } from "../core/cell.js";
import { flowNamed, status } from "../data/status.js";
import { setAskOptions, askOptions } from "../data/ask_options.js";
import { changed, grouped, typedOf } from "../model/settings.js";

export function FlowSettings({ flow }) {
  useCell(status);
  const { settings = {} } = useCell(askOptions);
  const all = flowNamed(flow)?.settings ?? [];
  if (all.length === 0) return null;
  const typed = settings[flow] ?? {};
  const set = (name, value) => setAskOptions({ settings: { ...settings, [flow]: { ...typed, [name]: value } } });
  const count = Object.keys(changed(all, typed)).length;
  const reset = () => setAskOptions({ settings: { ...settings, [flow]: {} } });
  const inputs = (list) => list.map(([label, setting]) => html`<${Input} key=${setting.name} label=${label} setting=${setting} typed=${typed[setting.name]} set=${(value) => set(setting.name, value)} />`);
  return html`
    <div class="flow-settings" role="group" aria-label=${t("Settings of the flow")}>
      ${grouped(all).map(([group, list]) =>
        group === "" ? inputs(list) : html`<details key=${group}><summary>${flowNamed(group)?.title ?? group}</summary><div class="flow-settings">${inputs(list)}</div></details>`)}
      ${count > 0 && html`<button type="button" class="button button-quiet" onClick=${reset}>${count === 1 ? t("Reset 1 setting") : t("Reset {n} settings", { n: count })}</button>`}
    </div>
  `;
}

/// `label` is the setting's name, without the flow's where that stands above.
function Input({ label, setting, typed, set }) {
  const help = html`<small>${withCode(setting.help)}</small>`;
  const usual = typedOf(setting.default);
  if (setting.kind === "boolean") {
    const isOn = typed ?? setting.default;
    return html`<label class="check"><input type="checkbox" name=${setting.name} checked=${isOn} onChange=${(event) => set(event.target.checked)} /><span><code>${label}</code>${help}</span></label>`;
  }
  if (setting.kind === "choice") {
    const value = typed ?? usual;
    const choices = setting.default === null ? ["", ...setting.choices] : setting.choices;
    return html`<label><span><code>${label}</code>${help}</span><select name=${setting.name} value=${value} onChange=${(event) => set(event.target.value)}>
      ${choices.map((choice) => html`<option value=${choice} selected=${choice === value}>${choice === "" ? t("not set") : choice}</option>`)}</select></label>`;
  }
  const isNumber = setting.kind === "integer" || setting.kind === "number";
  const placeholder = usual || (setting.kind === "list" ? t("with commas between them") : t("not set"));
  return html`<label><span><code>${label}</code>${help}</span><input name=${setting.name} type=${isNumber ? "number" : "text"} min=${setting.minimum} max=${setting.maximum} step=${setting.kind === "integer" ? "1" : "any"}
    placeholder=${placeholder} value=${typed ?? ""} autocomplete="off" spellcheck="false" onInput=${(event) => set(event.target.value)} /></label>`;
}

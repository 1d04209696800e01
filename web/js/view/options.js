// Options of the next questions. They stay set until they are changed, so a line shows them while the panel is closed.
import { html } from "../core/html.js";
import { useCell } from "../core/cell.js";
import { t } from "../core/words.js";
import { flowNamed, status } from "../data/status.js";
import { EVERY_NODE, breakpointsOf, limitsOf, setAskOptions, askOptions } from "../data/ask_options.js";
import { changed } from "../model/settings.js";
import { count } from "../model/text.js";
import { chosenSources, setOnly } from "../data/sources.js";
import { Breakpoints } from "./breakpoints.js";
import { FlowSettings } from "./flow_settings.js";
import { Icon } from "./icons.js";
import { SourcesChoice } from "./sources_choice.js";

const LIMITS = [
  ["tokens", "Tokens", "1", (n) => count(n, "token")],
  ["usd", "US dollars", "0.01", (n) => `$${n}`],
  ["time_s", "Seconds", "1", (n) => `${n} s`],
  ["calls", "Calls", "1", (n) => count(n, "call")],
];

export function Options({ thread }) {
  const { approve, strict, budget, flow, model } = useCell(askOptions);
  const canApprove = (useCell(status)?.flows ?? []).find((one) => one.name === flow)?.can_approve !== false;
  return html`
    <fieldset class="options">
      <legend class="hidden">${t("Options")}</legend>
      <label class="check"><input type="checkbox" checked=${approve} disabled=${!canApprove} onChange=${(event) => setAskOptions({ approve: event.target.checked })} /><span><strong>${t("Show me the plan first")}</strong><small>${t("Nothing runs before you approve it; you can change it.")}</small></span></label>
      <label class="check"><input type="checkbox" checked=${strict} onChange=${(event) => setAskOptions({ strict: event.target.checked })} /><span><strong>${t("Only what is supported")}</strong><small>${t("Sentences that no source supports are removed.")}</small></span></label>
      <label class="options-model"><span>${t("Another model, by its name")}</span><input value=${model} placeholder="ollama/qwen3:4b, openai/gpt-4.1-mini, extract …" autocomplete="off" spellcheck="false" onInput=${(event) => setAskOptions({ model: event.target.value.trim() })} /></label>
      <div class="limits" role="group" aria-label=${t("Limits for each question")}>
        ${LIMITS.map(
          ([name, title, step]) =>
            html`<label><span>${t(title)}</span><input type="number" min="0" step=${step} placeholder=${t("no limit")} value=${budget[name] ?? ""} onInput=${(event) => setAskOptions({ budget: { ...budget, [name]: event.target.value } })} /></label>`,
        )}
      </div>
      <${SourcesChoice} thread=${thread} />
      <${FlowSettings} flow=${flow} />
      <${Breakpoints} flow=${flow} />
    </fieldset>
  `;
}

/// What is set and applies to the next question, with a way to remove it.
export function OptionsSet({ thread, open }) {
  const only = useCell(chosenSources)[thread ?? ""] ?? null;
  const { approve, strict, budget, flow, settings } = useCell(askOptions);
  useCell(status);
  const limits = limitsOf(budget).map(([name, value]) => LIMITS.find(([known]) => known === name)[3](value));
  const typed = Object.keys(changed(flowNamed(flow)?.settings ?? [], settings?.[flow])).length;
  const breakpoints = breakpointsOf(flow);
  const parts = [
    limits.length > 0 ? t("limits: {limits}", { limits: limits.join(", ") }) : "",
    approve ? t("plan shown first") : "",
    strict ? t("only supported sentences") : "",
    typed > 0 ? count(typed, "changed setting") : "",
    breakpoints.length > 0 ? t("pauses before: {nodes}", { nodes: breakpoints.map((node) => (node === EVERY_NODE ? t("every node") : node)).join(", ") }) : "",
    only ? t("sources: {names}", { names: only.length === 0 ? t("none") : only.map((name) => name.replace(/^document:/, "")).join(", ") }) : "",
  ].filter(Boolean);
  if (parts.length === 0) return null;
  const reset = () => {
    setOnly(thread, null);
    setAskOptions({ budget: {}, approve: false, strict: false, settings: { ...settings, [flow]: {} }, breakpoints: {} });
  };
  return html`<p class="options-set"><${Icon} name="gear" size="14" /><span>${t("Options set: {list}", { list: parts.join(" · ") })}</span>
    <button type="button" class="link" onClick=${open}>${t("Change")}</button> <button type="button" class="link" onClick=${reset}>${t("Remove all")}</button></p>`;
}

// For authors of flows, among the options: the nodes before which the next runs wait until somebody continues them.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { useCell } from "../core/cell.js";
import { flowNamed, status } from "../data/status.js";
import { EVERY_NODE, breakpointsOf, setAskOptions, askOptions } from "../data/ask_options.js";
import { words } from "../model/text.js";

export function Breakpoints({ flow }) {
  useCell(status);
  const { breakpoints } = useCell(askOptions);
  const nodes = flowNamed(flow)?.graph?.nodes ?? [];
  if (nodes.length === 0) return null;
  const set = breakpointsOf(flow);
  const change = (name, isOn) => setAskOptions({ breakpoints: { ...breakpoints, [flow]: isOn ? [...set, name] : set.filter((one) => one !== name) } });
  const box = (name, label) => html`<label class="check"><input type="checkbox" checked=${set.includes(name)} disabled=${name !== EVERY_NODE && set.includes(EVERY_NODE)} onChange=${(event) => change(name, event.target.checked)} /><span>${label}</span></label>`;
  return html`<details class="breakpoints" open=${set.length > 0}><summary>${t("Breakpoints: pause before a node of the flow")}</summary>
    <div class="breakpoint-list" role="group" aria-label=${t("Breakpoints")}>${box(EVERY_NODE, t("every node"))}${nodes.map((node) => box(node.name, words(node.name)))}</div>
    <p class="quiet">${t("They hold for this flow itself, not for flows that it calls.")}</p>
  </details>`;
}

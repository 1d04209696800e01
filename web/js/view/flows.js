// The flows there are, what each is for, and how each goes, drawn from its own graph.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { useCell } from "../core/cell.js";
import { go, to } from "../core/route.js";
import { status } from "../data/status.js";
import { setAskOptions } from "../data/ask_options.js";
import { flowGraph } from "../model/work.js";
import { ofFlow } from "./badge.js";
import { Graph } from "./graph.js";
import { Icon } from "./icons.js";

export function Flows() {
  const known = useCell(status);
  const flows = (known?.flows ?? []).filter((flow) => flow.is_shown !== false);
  const take = (flow) => {
    setAskOptions({ flow });
    go(to.fresh());
  };
  return html`
    <section class="room-page" aria-labelledby="flows">
      <h1 id="flows">${t("Flows")}</h1>
      <p class="lead">${t("A flow is one way of answering. Auto picks one for each question; you can name one instead.")}</p>
      ${known?.trouble && html`<p class="trouble" role="alert">${known.trouble.message}</p>`}
      ${flows.map(
        (flow) => html`<article class="flow" key=${flow.name} aria-label=${flow.title ?? flow.name}>
          <div class="server-head"><h2><${Icon} name=${ofFlow(flow.name).icon} /> ${flow.title ?? flow.name}</h2><span class="spring"></span><button type="button" class="button button-quiet" onClick=${() => take(flow.name)}>${t("Use it")}</button></div>
          <p dir="auto">${flow.about}</p>
          ${flow.graph && html`<${Graph} graph=${flowGraph(flow.graph)} now_ms=${0} open=${() => {}} label=${t("The steps of {flow}", { flow: flow.title ?? flow.name })} />`}
        </article>`,
      )}
    </section>
  `;
}

// The start page: example questions, and what is set up.
import { html, withCode } from "../core/html.js";
import { t } from "../core/words.js";
import { useCell } from "../core/cell.js";
import { to } from "../core/route.js";
import { status } from "../data/status.js";
import { setAskOptions } from "../data/ask_options.js";
import { count } from "../model/text.js";
import { Icon } from "./icons.js";

const examples = (hasDocuments) => [
  { icon: "search", title: t("Look it up"), text: t("Plans, searches your documents and the web, and cites its sources."), question: hasDocuments ? t("What are the main subjects of my documents?") : t("Where and when was the first modern relay race run?"), flow: "search" },
  { icon: "direct", title: t("A quick answer"), text: t("One model call, after a search in your documents."), question: t("In one sentence: what is a write-ahead log?"), flow: "direct" },
  { icon: "reason", title: t("Several steps"), text: t("Plans, calls tools, checks the results, and continues until done."), question: t("What is 12% of 4350, and what is the square root of the result?"), flow: "reason" },
  { icon: "panel", title: t("With critics"), text: t("A planner, researchers and an expert; critics review their work."), question: t("Is SQLite a good choice for a web shop? What speaks against it?"), flow: "panel" },
];

export function FirstRun({ ask }) {
  const known = useCell(status);
  const flows = new Set((known?.flows ?? []).map((flow) => flow.name));
  const all = examples((known?.documents?.passages ?? 0) > 0);
  const shown = flows.size > 0 ? all.filter((one) => flows.has(one.flow)) : all;
  const take = ({ question, flow }) => {
    setAskOptions({ flow });
    ask(question);
  };
  return html`
    <div class="first">
      <h1>${t("What would you like to know?")}</h1>
      <p class="first-lead">${t("Ask a question, watch the steps, and read an answer whose sentences are checked against its sources.")}</p>
      <ul class="first-cards">
        ${shown.map(
          (one) => html`<li><button type="button" class="first-card" onClick=${() => take(one)}>
            <span class="first-title"><${Icon} name=${one.icon} />${one.title}</span><span>${one.text}</span><span class="first-question">“${one.question}”</span>
          </button></li>`,
        )}
      </ul>
      ${known && !known.trouble && html`<${Ready} known=${known} />`}
      ${known?.trouble && html`<p class="trouble" role="alert">${withCode(known.trouble.message)}</p>`}
    </div>
  `;
}

function Ready({ known }) {
  const passages = known.documents?.passages ?? 0;
  return html`
    <ul class="first-ready" aria-label=${t("What is set up")}>
      <li><${Icon} name="model" size="16" /><span>${t("Model:")} <strong>${known.model?.name ?? t("none")}</strong>${known.model?.why ? ` (${known.model.why})` : ""}. <a href=${to.room("settings")}>${t("Change")}</a></span></li>
      <li><${Icon} name="document" size="16" /><span>${passages > 0 ? t("{passages} of your documents can be cited.", { passages: count(passages, "passage") }) : t("No documents yet. Upload some, and answers can cite them.")} <a href=${to.room("documents")}>${t("Documents")}</a></span></li>
      <li><${Icon} name="tool" size="16" /><span>${t("Tools are called over MCP. A tool that sends or deletes something asks you first.")} <a href=${to.room("tools")}>${t("Tools")}</a></span></li>
    </ul>
  `;
}

// What can be done with an answer: copy, export, compare, ask again, continue from it.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { copyText } from "../core/clipboard.js";
import { attempt } from "../data/notices.js";
import { atTime } from "../model/text.js";
import { Icon } from "./icons.js";
import { Menu } from "./menu.js";
import { useState } from "preact/hooks";

const COPIED_MS = 2_000;
const FORMATS = [
  ["md", "Markdown"],
  ["html", "HTML"],
  ["docx", "Word"],
  ["pdf", "PDF"],
];

export function Actions({ run, text, hasAnswer, compare, branching }) {
  const [isCopied, setCopied] = useState(false);
  const copy = () =>
    attempt(async () => {
      await copyText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), COPIED_MS);
    });
  return html`
    <div class="actions">
      ${text && html`<button type="button" class="button button-quiet" onClick=${copy}><${Icon} name=${isCopied ? "check" : "copy"} size="15" />${isCopied ? t("Copied") : t("Copy")}</button>`}
      ${hasAnswer && html`<${Menu} title=${t("Export")} icon="down">${FORMATS.map(([format, title]) => html`<li><a href=${`/api/runs/${encodeURIComponent(run.run)}/answer.${format}`} download>${title}</a></li>`)}<//>`}
      ${branching && html`<${Branching} ...${branching} />`}
      <button type="button" class="button button-quiet actions-compare" onClick=${compare}><${Icon} name="compare" size="15" />${t("Compare")}</button>
      <time class="actions-time" datetime=${new Date(run.created_ms).toISOString()}>${atTime(run.created_ms)}</time>
    </div>
  `;
}

/// Other versions of this turn. The turn itself stays.
const Branching = ({ isBusy, again, edit, follow }) => html`
  <button type="button" class="button button-quiet" data-act="again" disabled=${isBusy} title=${t("Ask the same question again, with the flow and the model chosen below")} onClick=${again}><${Icon} name="again" size="15" />${t("Regenerate")}</button>
  <button type="button" class="button button-quiet" data-act="edit" disabled=${isBusy} onClick=${edit}><${Icon} name="edit" size="15" />${t("Edit question")}</button>
  ${follow && html`<button type="button" class="button button-quiet" disabled=${isBusy} title=${t("Ask the next question after this turn, on a new branch")} onClick=${follow}><${Icon} name="branch" size="15" />${t("Continue from here")}</button>`}
`;

// What can be done with an answer: copy, export, compare.
import { html } from "../core/html.js";
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

export function Actions({ run, text, hasAnswer, compare }) {
  const [isCopied, setCopied] = useState(false);
  const copy = () =>
    attempt(async () => {
      await copyText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), COPIED_MS);
    });
  return html`
    <div class="actions">
      ${text && html`<button type="button" class="button button-quiet" onClick=${copy}><${Icon} name=${isCopied ? "check" : "copy"} size="15" />${isCopied ? "Copied" : "Copy"}</button>`}
      ${hasAnswer && html`<${Menu} title="Export" icon="down">${FORMATS.map(([format, title]) => html`<li><a href=${`/api/runs/${encodeURIComponent(run.run)}/answer.${format}`} download>${title}</a></li>`)}<//>`}
      <button type="button" class="button button-quiet" onClick=${compare}><${Icon} name="compare" size="15" />Compare</button>
      <time class="actions-time" datetime=${new Date(run.created_ms).toISOString()}>${atTime(run.created_ms)}</time>
    </div>
  `;
}

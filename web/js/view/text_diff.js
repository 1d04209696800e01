// Two answers as one text: lines that only the left or only the right one has are marked, by a sign and not only in colour.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { textDiff } from "../model/text_diff.js";

const SIGNS = { same: " ", left: "−", right: "+" };
const WORDS = { left: () => t("only left:"), right: () => t("only right:") };

export function TextDiff({ left, right }) {
  if (!left || !right) return null;
  const parts = textDiff(left, right);
  if (parts.every((part) => part.kind === "same")) return html`<p class="quiet">${t("Both answers have the same text.")}</p>`;
  return html`
    <details class="text-diff"><summary>${t("Difference of the answers as text")}</summary>
      <pre class="code" tabindex="0" aria-label=${t("Difference of the answers")}>${parts.map((part) => html`<span class=${`diff-${part.kind}`}>${SIGNS[part.kind]} ${WORDS[part.kind] && html`<span class="hidden">${WORDS[part.kind]()} </span>`}${part.text}${"\n"}</span>`)}</pre>
    </details>
  `;
}

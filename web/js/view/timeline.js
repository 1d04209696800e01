// When things happened: one row per effect, one bar per attempt, children below the call that started them.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { took_us } from "../model/family.js";
import { count, duration, labelOf } from "../model/text.js";
import { bars } from "../model/timeline.js";
import { stateWords } from "./graph.js";
import { Icon } from "./icons.js";
import { useState } from "preact/hooks";

const ROWS_MAX = 12;

export function Timeline({ family, now_ms, open }) {
  const [isWhole, setWhole] = useState(false);
  const { rows, total_us } = bars(family, now_ms);
  if (rows.length === 0) return null;
  const shown = isWhole ? rows : rows.slice(-ROWS_MAX);
  const percent = (share) => `${(share * 100).toFixed(3)}%`;
  return html`
    <div class="timeline">
      <div class="timeline-head"><span>${t("Timeline")}</span><span>${duration(total_us)}</span></div>
      ${shown.length < rows.length && html`<button type="button" class="link" onClick=${() => setWhole(true)}>${t("Show the {n} before", { n: rows.length - shown.length })}</button>`}
      <ol aria-label=${t("Timeline")}>
        ${shown.map(
          ({ task, depth, parts }) => html`
            <li key=${task.key}>
              <button type="button" class="bar-row" onClick=${() => open(task)}>
                <span class=${`bar-label depth-${Math.min(depth, 4)}`}><${Icon} name=${task.kind} size="14" /><span dir="auto">${labelOf(task)}</span></span>
                <span class="bar-track" aria-hidden="true">
                  ${parts.map((part) => html`<span class=${`bar bar-${part.state}`} style=${{ left: percent(part.start), width: percent(Math.min(part.width, 1 - part.start)) }}></span>`)}
                </span>
                <span class="bar-time">${duration(took_us(task, now_ms))}</span>
                <span class="hidden">, ${stateWords(task.state)}${task.attempts.length > 1 ? `, ${count(task.attempts.length, "attempt")}` : ""}</span>
              </button>
            </li>
          `,
        )}
      </ol>
    </div>
  `;
}

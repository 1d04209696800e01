// An answer: Markdown, each sentence with its status, each citation a button that opens the passage.
import { html } from "../core/html.js";
import { lazy } from "../core/lazy.js";
import { t } from "../core/words.js";
import { openDrawer } from "../data/drawer.js";
import { blocks } from "../model/markdown.js";
import { located } from "../model/marks.js";
import { bytes, count, limitsInWords, placeOf, webAddress } from "../model/text.js";
import { Code } from "./code.js";
import { Contents } from "./contents.js";
import { Formula } from "./formula.js";
import { aboutSource, cardOf, hoverCard } from "./hover.js";
import { Icon } from "./icons.js";
import { Picture, isPicture } from "./picture.js";

/// Statuses that are shown at the sentence; `no_claim` and `not_checked` look like plain text.
const STATUS_TEXTS = { supported: () => "", weak: () => t("only weakly supported by the sources"), unsupported: () => t("not supported by the sources"), contradicted: () => t("a source states the contrary") };

/// Who decided about a sentence; rules are what is expected, and not named.
const decidedTexts = () => ({ verifier: t("decided by the verifier"), model: t("decided by the language model") });

const Diagram = lazy(async () => (await import("./diagram.js")).Diagram);
const NO_SOURCES = { answer: {}, sentences: [], sources: [] };

/// Text without statuses: a draft, in which diagrams are not drawn because their text still grows, or an imported message.
export const Plain = ({ text, isDraft = false }) => html`<div class="prose">${blocks(text ?? "").map((block) => html`<${Block} block=${block} context=${isDraft ? null : NO_SOURCES} />`)}</div>`;

export function Answer({ run, thread, answer }) {
  const sources = answer.sources ?? [];
  const isChecked = (answer.sentences ?? []).some((sentence) => sentence.status in STATUS_TEXTS);
  const sentences = isChecked ? answer.sentences : [];
  // The offsets of sentences hold only in the text as it is.
  const body = isChecked ? answer.body : limitsInWords(answer.body);
  const { text, sentenceAt } = located(body, sentences);
  const context = { run, thread, answer, sentences, sources };
  const drawn = blocks(text, { sources: sources.length, sentenceAt });
  return html`
    <${Contents} blocks=${drawn} />
    <div class="prose">${drawn.map((block) => html`<${Block} block=${block} context=${context} />`)}</div>
    ${answer.is_extracted && html`<p class="remark"><${Icon} name="warn" size="15" />${t("No language model wrote this answer: it consists of sentences from the sources. Settings list the available models.")}</p>`}
    ${answer.limit_reached && html`<p class="remark remark-limit"><${Icon} name="warn" size="15" />${limitText(answer.limit_reached)} ${t("Steps were left out, so the answer may be incomplete. Raise or remove the limit under Options and ask again.")}</p>`}
    <${Files} files=${answer.files ?? []} thread=${thread} />
    <${Sources} ...${context} />
  `;
}

/// What the run wrote, each to be saved; pictures are shown.
const Files = ({ files, thread }) =>
  files.length > 0 &&
  html`<section class="files" role="group" aria-label=${t("Files")}>
    <h3>${t("Files")}</h3>
    <ul>
      ${files.map((file) => {
        const href = `/api/threads/${encodeURIComponent(thread)}/files/${file.path.split("/").map(encodeURIComponent).join("/")}`;
        return html`<li><a href=${href} download><${Icon} name="document" size="15" /> <span dir="auto">${file.path}</span></a> <span class="file-size">${bytes(file.bytes)}</span>${isPicture(file.path) && html`<${Picture} alt=${file.path} address=${file.path} thread=${thread} files=${files} />`}</li>`;
      })}
    </ul>
  </section>`;

const limitTexts = () => ({ tokens: t("The token limit was reached."), usd: t("The cost limit was reached."), calls: t("The limit on calls was reached."), time: t("The time limit was reached.") });
const limitText = (limit) => limitTexts()[limit] ?? t("A limit was reached.");

/// How many sentences have which status, in one line above the answer.
export function Standing({ sentences = [] }) {
  const of = (status) => sentences.filter((sentence) => sentence.status === status).length;
  const rows = [
    ["supported", "check", t("{n} supported", { n: of("supported") })],
    ["weak", "warn", t("{n} weak", { n: of("weak") })],
    ["unsupported", "bad", t("{n} not supported", { n: of("unsupported") })],
    ["contradicted", "bad", t("{n} contradicted", { n: of("contradicted") })],
    ["not_checked", "info", t("{n} not checked", { n: of("not_checked") })],
  ].filter(([status]) => of(status) > 0);
  if (rows.length === 0) return null;
  if (rows.length === 1 && rows[0][0] === "not_checked") {
    return html`<p class="standing standing-not_checked"><${Icon} name="info" size="14" />${t("Not checked: this text was not compared with any source.")}</p>`;
  }
  return html`<ul class="standing" aria-label=${t("Sentences by status")}>
    ${rows.map(([status, icon, text]) => html`<li class=${`standing-${status}`}><${Icon} name=${icon} size="14" />${text}</li>`)}
  </ul>`;
}

function Sources({ run, answer, sources }) {
  if (sources.length === 0) return null;
  return html`
    <section class="sources" role="group" aria-label=${t("Sources")}>
      <h3>${t("Sources")}</h3>
      <ol>
        ${sources.map((source, at) => {
          const href = webAddress(source.address);
          return html`<li>
            <button type="button" class="source" onClick=${() => openSpan(run, answer, at + 1, null)}>
              <span class="source-number">${at + 1}</span>
              <span class="source-title" dir="auto">${source.title || source.address || t("Untitled")}</span>
              <span class="source-about" dir="auto">${aboutSource(source)}</span>
              <span class="source-place" dir="auto">${(source.places ?? []).slice(0, 2).map(placeOf).join(", ") || count(source.spans?.length ?? 1, "passage")}</span>
            </button>
            ${href && html`<a class="source-link" href=${href} target="_blank" rel="noopener noreferrer" aria-label=${t("Open {title} in a new tab", { title: source.title || href })}><${Icon} name="link" size="15" /></a>`}
          </li>`;
        })}
      </ol>
    </section>
  `;
}

/// A number in an answer names a source; the sentence lists which of its passages it cites.
function openSpan(run, answer, number, sentence) {
  const source = answer.sources[number - 1];
  if (!source) return;
  const own = source.spans ?? [];
  const cited = own.filter((span) => sentence?.cites?.includes(span));
  openDrawer({ kind: "span", run, spans: cited.length > 0 ? [...cited, ...own.filter((span) => !cited.includes(span))] : own, at: 0, number, source, answer, sentence });
}

const Block = ({ block, context }) => {
  const inner = (list) => list.map((one) => html`<${Block} block=${one} context=${context} />`);
  const text = (groups) => html`<${Words} groups=${groups} context=${context} />`;
  switch (block.kind) {
    case "heading":
      // The page's own headings are above those of an answer.
      return html`<${`h${Math.min(6, block.rank + 2)}`} dir="auto">${text(block.words)}<//>`;
    case "list":
      return block.isOrdered ? html`<ol start=${block.start}>${block.items.map((item) => html`<li dir="auto">${inner(item)}</li>`)}</ol>` : html`<ul>${block.items.map((item) => html`<li dir="auto">${inner(item)}</li>`)}</ul>`;
    case "code":
      if (context && block.language?.toLowerCase() === "mermaid") return html`<${Diagram} text=${block.text} />`;
      return html`<${Code} text=${block.text} language=${block.language} />`;
    case "quote":
      return html`<blockquote>${inner(block.blocks)}</blockquote>`;
    case "rule":
      return html`<hr />`;
    case "table":
      return html`<div class="table" tabindex="0" role="group" aria-label=${t("Table")}><table>
        <thead><tr>${block.head.map((cell, at) => html`<th scope="col" class=${alignClass(block, at)} dir="auto">${text(cell)}</th>`)}</tr></thead>
        <tbody>${block.rows.map((row) => html`<tr>${row.map((cell, at) => html`<td class=${alignClass(block, at)} dir="auto">${text(cell)}</td>`)}</tr>`)}</tbody>
      </table></div>`;
    default:
      return html`<p dir="auto">${text(block.words)}</p>`;
  }
};

const alignClass = (block, at) => (block.aligns?.[at] ? `align-${block.aligns[at]}` : undefined);

const Words = ({ groups, context }) =>
  groups.map(({ sentence, isEnd, runs }) => {
    const own = sentence === null ? null : context?.sentences[sentence];
    const drawn = runs.map((run, at) => html`<${Run} run=${run} sentence=${own} context=${context} isBeforeCite=${Boolean(runs[at + 1]?.cite)} />`);
    if (!own || !(own.status in STATUS_TEXTS)) return drawn;
    const statusText = STATUS_TEXTS[own.status]();
    const problems = (own.problems ?? []).map((problem) => problem.words ?? problem);
    const why = [[statusText, ...problems].filter(Boolean).join(": "), decidedTexts()[own.by]].filter(Boolean).join("; ");
    const contrary = isEnd && own.contradicted_by ? html`<${Contrary} number=${own.contradicted_by} context=${context} sentence=${own} />` : null;
    // A sentence may be in several cells; screen readers get its status once.
    return html`<span class=${`sentence sentence-${own.status}`} title=${why || undefined}>${drawn}</span>${statusText && isEnd && html`<span class="hidden"> (${statusText}) </span>`}${contrary}`;
  });

/// Opens the passage that states the contrary of a sentence.
function Contrary({ number, context, sentence }) {
  const source = (context.answer.sources ?? []).findIndex((one) => one.spans?.includes(number));
  const open = () => openDrawer({ kind: "span", run: context.run, spans: [number], at: 0, number: source < 0 ? "≠" : source + 1, source: context.sources[source], answer: context.answer, sentence });
  return html`<button type="button" class="cite cite-contrary" aria-label=${t("Open the passage that states the contrary")} title=${t("Open the passage that states the contrary")} onClick=${open}>≠</button>`;
}

function Run({ run, sentence, context, isBeforeCite }) {
  if (run.cite) {
    return run.cite.map((number) => {
      const source = context?.sources[number - 1];
      const label = source?.title ? t("Source {number}: {title}. Open the passage", { number, title: source.title }) : t("Source {number}. Open the passage", { number });
      return html`<button type="button" class="cite" aria-label=${label} ...${hoverCard(() => cardOf(context.answer, number, sentence))} onClick=${() => openSpan(context.run, context.answer, number, sentence)}>${number}</button>`;
    });
  }
  if (run.math) return html`<${Formula} tex=${run.text} isBlock=${run.isBlock} />`;
  if (run.image !== undefined) return html`<${Picture} alt=${run.text} address=${run.image} thread=${context?.thread} files=${context?.answer.files} />`;
  // A citation stands right behind its word.
  let drawn = isBeforeCite ? run.text.trimEnd() : run.text;
  if (run.code) drawn = html`<code>${drawn}</code>`;
  if (run.em) drawn = html`<em>${drawn}</em>`;
  if (run.strong) drawn = html`<strong>${drawn}</strong>`;
  if (run.href) drawn = html`<a href=${run.href} target="_blank" rel="noopener noreferrer">${drawn}</a>`;
  return drawn;
}

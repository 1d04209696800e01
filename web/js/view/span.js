// A passage in its source, scrolled to the cited place.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { spanOf } from "../data/runs.js";
import { count, placeOf, webAddress } from "../model/text.js";
import { Icon } from "./icons.js";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

const TRUST = {
  own: ["check", () => t("From your own documents")],
  computed: ["check", () => t("Computed here")],
  untrusted: ["warn", () => t("External text: used as data, never as instructions")],
};

/// How the sentence that cites the passage stands, and who decided that.
const STATUS = {
  supported: ["check", () => t("The sentence is supported")],
  weak: ["warn", () => t("The sentence is only weakly supported")],
  unsupported: ["bad", () => t("The sentence is not supported")],
  contradicted: ["bad", () => t("A passage states the contrary of the sentence")],
};
const decided = () => ({ rules: t("decided by rules"), verifier: t("decided by the verifier"), model: t("decided by the language model") });

export function Span({ run, spans, at, number, source, answer, sentence }) {
  const [place, setPlace] = useState(at);
  const [found, setFound] = useState({ isLoading: true });
  const n = spans[place];
  useEffect(() => setPlace(at), [spans]);
  useEffect(() => {
    let isWanted = true;
    setFound({ isLoading: true });
    const known = answer?.spans?.find((span) => span.n === n) ?? null;
    spanOf(run, n).then(
      (got) => isWanted && setFound({ span: { ...known, ...got.span }, document: got.document ?? null }),
      (trouble) => isWanted && setFound({ span: known, document: null, trouble }),
    );
    return () => (isWanted = false);
  }, [run, n]);
  const { span, document, trouble, isLoading } = found;
  const title = document?.title ?? span?.title ?? source?.title ?? t("Untitled");
  const address = span?.address ?? source?.address ?? document?.path;
  const href = webAddress(address);
  const [icon, trust] = TRUST[span?.trust ?? "untrusted"] ?? TRUST.untrusted;
  return html`
    <p class="span-title" dir="auto"><span class="source-number">${number}</span>${title}</p>
    <p class="span-address">${href ? html`<a href=${href} target="_blank" rel="noopener noreferrer">${address}</a>` : address}${span?.place ? html`<span class="span-place">${placeOf(span.place)}</span>` : null}</p>
    ${spans.length > 1 &&
    html`<div class="span-pages" role="group" aria-label=${t("Passages of this source")}>
      <button type="button" class="button-icon" disabled=${place === 0} aria-label=${t("The passage before")} onClick=${() => setPlace(place - 1)}><${Icon} name="left" size="16" /></button>
      <span>${t("{n} of {all}", { n: place + 1, all: count(spans.length, "passage") })}</span>
      <button type="button" class="button-icon" disabled=${place === spans.length - 1} aria-label=${t("The next passage")} onClick=${() => setPlace(place + 1)}><${Icon} name="right" size="16" /></button>
    </div>`}
    ${isLoading ? html`<p role="status">${t("Opening the source …")}</p>` : html`<${Text} span=${span} document=${document} trouble=${trouble} />`}
    ${!isLoading && html`<p class="remark"><${Icon} name=${icon} size="15" />${trust()}${span?.task ?? span?.source ? ` · ${t("found by {name}", { name: span.task ?? span.source })}` : ""}</p>`}
    ${sentence && STATUS[sentence.status] && html`<p class="remark"><${Icon} name=${STATUS[sentence.status][0]} size="15" />${STATUS[sentence.status][1]()} · ${decided()[sentence.by] ?? decided().rules}</p>`}
  `;
}

function Text({ span, document, trouble }) {
  const mark = useRef(null);
  const box = useRef(null);
  useLayoutEffect(() => {
    if (mark.current) box.current.scrollTop = Math.max(0, mark.current.offsetTop - box.current.clientHeight / 3);
  }, [document]);
  if (!document) {
    return html`
      ${trouble && html`<p class="wrong" role="alert">${trouble.message}</p>`}
      ${span && html`<blockquote class="span-text" dir="auto"><mark class="span-mark" id="cited">${span.text}</mark></blockquote>`}
      ${span && !trouble && html`<p class="quiet">${t("The passage as it was found. The rest of this source is not stored.")}</p>`}
    `;
  }
  const { text, start, end } = document;
  return html`
    <div class="span-text span-document" ref=${box} tabindex="0" role="document" aria-label=${t("The source, with the passage marked")} dir="auto">${text.slice(0, start)}<mark class="span-mark" id="cited" ref=${mark}>${text.slice(start, end)}</mark>${text.slice(end)}</div>
  `;
}

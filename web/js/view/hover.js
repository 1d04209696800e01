// A card beside a citation while the pointer or the focus is on it: the source's title, host and date, and the beginning of the passage.
import { html } from "../core/html.js";
import { cell, useCell } from "../core/cell.js";
import { t } from "../core/words.js";
import { webAddress } from "../model/text.js";
import { useLayoutEffect, useRef } from "preact/hooks";

const WAIT_MS = 150;
const EXCERPT_CHARS_MAX = 280;
const MARGIN_PX = 8;

const shown = cell(null);
let waiting = 0;

export function hideCard() {
  clearTimeout(waiting);
  shown.value = null;
}

/// Attributes of an element that shows a card; `make()` gives the content of the card.
export function hoverCard(make) {
  const show = (event) => {
    const element = event.currentTarget;
    clearTimeout(waiting);
    waiting = setTimeout(() => element.isConnected && (shown.value = { element, ...make() }), WAIT_MS);
  };
  return { onPointerEnter: (event) => event.pointerType !== "touch" && show(event), onPointerLeave: hideCard, onFocus: show, onBlur: hideCard, onPointerDown: hideCard };
}

/// Host and date of a source, as far as they are known.
export function aboutSource(source) {
  const href = webAddress(source?.address);
  const host = href ? new URL(href).host.replace(/^www\./, "") : source?.address ? t("document") : "";
  return [host, dateOf(source?.at)].filter(Boolean).join(" · ");
}

function dateOf(at) {
  if (!at) return "";
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? String(at).slice(0, 40) : date.toLocaleDateString(document.documentElement.lang, { dateStyle: "medium" });
}

export function cardOf(answer, number, sentence) {
  const source = answer.sources?.[number - 1];
  const own = source?.spans ?? [];
  const wanted = own.find((span) => sentence?.cites?.includes(span)) ?? own[0];
  const span = answer.spans?.find((one) => one.n === wanted);
  return { number, title: source?.title || source?.address || t("Untitled"), about: aboutSource(source), text: (span?.text ?? "").slice(0, EXCERPT_CHARS_MAX) };
}

export function HoverCard() {
  const card = useCell(shown);
  const box = useRef(null);
  useLayoutEffect(() => {
    if (!card) return undefined;
    const place = card.element.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = box.current;
    const isBelow = place.top < height + 2 * MARGIN_PX;
    box.current.style.left = `${Math.max(MARGIN_PX, Math.min(innerWidth - width - MARGIN_PX, place.left + place.width / 2 - width / 2))}px`;
    box.current.style.top = `${isBelow ? place.bottom + MARGIN_PX : place.top - height - MARGIN_PX}px`;
    // The element moves away under the card.
    addEventListener("scroll", hideCard, { capture: true, passive: true, once: true });
    return () => removeEventListener("scroll", hideCard, { capture: true });
  }, [card]);
  if (!card) return null;
  return html`<div class="hover-card" ref=${box} role="tooltip">
    <p class="hover-title" dir="auto"><span class="source-number">${card.number}</span>${card.title}</p>
    ${card.about && html`<p class="hover-about">${card.about}</p>`}
    ${card.text && html`<p class="hover-text" dir="auto">${card.text}${card.text.length === EXCERPT_CHARS_MAX ? " …" : ""}</p>`}
  </div>`;
}

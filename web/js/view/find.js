// Finds words in the questions and answers of one conversation, and goes from turn to turn.
import { html } from "../core/html.js";
import { useEscape } from "../core/escape.js";
import { t } from "../core/words.js";
import { Icon } from "./icons.js";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/// The turns that hold all of the words, in their order.
export function turnsWith(path, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  return path.filter(({ turn }) => {
    const text = `${turn.question ?? ""}\n${turn.reply ?? ""}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

export function Find({ path, found, close }) {
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const input = useRef(null);
  useEscape(true, close);
  useLayoutEffect(() => input.current.focus(), []);
  const all = turnsWith(path, query);
  const place = Math.min(at, all.length - 1);
  const id = all[place]?.id ?? null;
  useEffect(() => found(id), [id]);
  const move = (step) => all.length > 0 && setAt((place + step + all.length) % all.length);
  const type = (event) => {
    setQuery(event.target.value);
    setAt(0);
  };
  const press = (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    move(event.shiftKey ? -1 : 1);
  };
  return html`<div class="find" role="search" aria-label=${t("Find in this conversation")}>
    <label class="field-search"><span class="hidden">${t("Find in this conversation")}</span><${Icon} name="search" size="16" />
      <input ref=${input} type="search" placeholder=${t("Find in this conversation")} value=${query} onInput=${type} onKeyDown=${press} autocomplete="off" /></label>
    <span class="find-count" role="status">${query.trim() === "" ? "" : all.length === 0 ? t("Nothing found") : t("{n} of {all}", { n: place + 1, all: all.length })}</span>
    <button type="button" class="button-icon" aria-label=${t("Previous match")} disabled=${all.length < 2} onClick=${() => move(-1)}><${Icon} name="left" size="16" /></button>
    <button type="button" class="button-icon" aria-label=${t("Next match")} disabled=${all.length < 2} onClick=${() => move(1)}><${Icon} name="right" size="16" /></button>
    <button type="button" class="button-icon" aria-label=${t("Close the search")} onClick=${close}><${Icon} name="close" size="16" /></button>
  </div>`;
}

// All past conversations: the question, the beginning of the answer, the status. The server does the searching.
import { html } from "../core/html.js";
import { useCell } from "../core/cell.js";
import { go, route, to } from "../core/route.js";
import { t } from "../core/words.js";
import { say } from "../data/notices.js";
import { forget, more, refresh, search, threads } from "../data/threads.js";
import { ago, withoutMarks } from "../model/text.js";
import { ofFlow } from "./badge.js";
import { Icon } from "./icons.js";
import { List } from "./list.js";
import { useEffect, useRef, useState } from "preact/hooks";

const ROW_PX = 66;
const TYPING_MS = 200;
const stands = () => ({ running: t("working"), asking: t("needs your answer"), waiting: t("waiting"), failed: t("failed"), cancelled: t("stopped") });

export function Sidebar({ isOpen, close }) {
  const { list, query, isLoading, isLoaded, trouble } = useCell(threads);
  const here = useCell(route);
  const [typed, setTyped] = useState(query);
  const waiting = useRef(0);
  const searched = useRef(query);
  useEffect(() => () => clearTimeout(waiting.current), []);
  // A tag that was clicked elsewhere is a search too.
  useEffect(() => {
    // A search of this field reaches here while the user may be typing on.
    if (query !== searched.current) setTyped(query);
    searched.current = query;
  }, [query]);
  const type = (event) => {
    const words = event.target.value;
    setTyped(words);
    clearTimeout(waiting.current);
    waiting.current = setTimeout(() => {
      searched.current = words.trim();
      search(searched.current);
    }, TYPING_MS);
  };
  return html`
    <aside class=${`sidebar ${isOpen ? "is-open" : ""}`} aria-label=${t("Past conversations")}>
      <div class="sidebar-head">
        <a class="button button-primary sidebar-new" href=${to.fresh()} onClick=${close}><${Icon} name="plus" />${t("New conversation")}</a>
        <label class="field-search">
          <span class="hidden">${t("Search conversations")}</span>
          <${Icon} name="search" size="16" />
          <input type="search" placeholder=${t("Search conversations")} title=${t("Words, or #tag")} value=${typed} onInput=${type} autocomplete="off" />
        </label>
      </div>
      <${ListStatus} ...${{ list, query, isLoading, isLoaded, trouble }} />
      <${List} items=${list} rowHeight=${ROW_PX} label=${t("Conversations")} keyOf=${(one) => one.thread} more=${more} current=${here.thread ?? null}
        draw=${(one, { tabIndex, isCurrent }) => html`<${Row} one=${one} tabIndex=${tabIndex} isCurrent=${isCurrent} close=${close} />`} />
    </aside>
  `;
}

function ListStatus({ list, query, isLoading, isLoaded, trouble }) {
  if (trouble) return html`<p class="sidebar-note" role="status">${trouble.message} <button type="button" class="link" onClick=${refresh}>${t("Try again")}</button></p>`;
  if (list.length > 0 || (isLoading && !isLoaded)) return html`<p class="hidden" role="status">${query && !isLoading ? t("{n} found", { n: list.length }) : ""}</p>`;
  if (isLoading) return html`<p class="sidebar-note" role="status">${t("Searching …")}</p>`;
  return html`<p class="sidebar-note" role="status">${query ? t("Nothing found. Try other or fewer words.") : t("Your conversations will be listed here.")}</p>`;
}

function Row({ one, tabIndex, isCurrent, close }) {
  const stand = stands()[one.status];
  const { icon } = ofFlow(one.flow ?? "auto");
  const drop = async (event) => {
    event.preventDefault();
    event.stopPropagation();
    if (!confirm(t("Delete “{title}” with all its runs? This cannot be undone.", { title: one.title }))) return;
    try {
      await forget(one.thread);
      if (isCurrent) go(to.fresh());
      say(t("The conversation is deleted."));
    } catch (trouble) {
      say(trouble.message, "bad");
    }
  };
  return html`
    <a class=${`thread ${isCurrent ? "is-current" : ""}`} href=${to.thread(one.thread)} tabindex=${tabIndex} aria-current=${isCurrent ? "page" : undefined} onClick=${close}>
      <span class="thread-top">
        <${Icon} name=${icon} size="14" />
        ${one.is_pinned && html`<span class="thread-pin"><${Icon} name="pin" size="13" /><span class="hidden">${t("Pinned:")} </span></span>`}
        <span class="thread-title" dir="auto">${one.title || t("Untitled")}</span>
        <time class="thread-time" datetime=${new Date(one.updated_ms).toISOString()}>${ago(one.updated_ms)}</time>
      </span>
      <span class="thread-preview" dir="auto">${stand ? html`<span class=${`stand stand-${one.status}`}>${stand}</span>` : null}${withoutMarks(one.preview ?? "") || (stand ? "" : t("No answer yet"))}</span>
    </a>
    <button type="button" class="thread-drop" tabindex=${tabIndex} aria-label=${t("Delete {title}", { title: one.title || t("this conversation") })} onClick=${drop}><${Icon} name="bin" size="15" /></button>
  `;
}

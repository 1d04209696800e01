// Above a conversation: its title and tags, its branches, and what can be done with all of it.
import { html } from "../core/html.js";
import { lazy } from "../core/lazy.js";
import { t } from "../core/words.js";
import { attempt } from "../data/notices.js";
import { changeThread, exportPath } from "../data/thread_actions.js";
import { search } from "../data/threads.js";
import { Find } from "./find.js";
import { HoverCard } from "./hover.js";
import { Icon } from "./icons.js";
import { Lineage } from "./lineage.js";
import { Menu } from "./menu.js";
import { useState } from "preact/hooks";

const Dialog = lazy(async () => (await import("./thread_dialog.js")).ThreadDialog);

const FORMATS = [
  ["md", "Markdown"],
  ["html", "HTML"],
  ["docx", "Word"],
  ["pdf", "PDF"],
];

export function Head({ thread, row, turns, after, path, show, find }) {
  const [dialog, setDialog] = useState(null);
  const [isFinding, setFinding] = useState(false);
  const runs = path.map((one) => one.turn.run?.run).filter(Boolean);
  const title = row?.title || t("Conversation");
  const isPinned = row?.is_pinned === true;
  const stopFinding = () => {
    setFinding(false);
    find(null);
  };
  const item = (icon, text, act) => html`<li><button type="button" onClick=${act}><${Icon} name=${icon} size="15" />${text}</button></li>`;
  return html`
    <header class="head">
      <h1 class="head-title" dir="auto">${isPinned && html`<${Icon} name="pin" size="14" /><span class="hidden">${t("Pinned:")} </span>`}<span class="head-text">${title}</span></h1>
      ${(row?.tags ?? []).map((tag) => html`<button type="button" class="tag" aria-label=${t("Conversations tagged {tag}", { tag })} onClick=${() => search(`#${tag}`)}>#${tag}</button>`)}
      <span class="spring"></span>
      <${Lineage} turns=${turns} after=${after} path=${path} show=${show} />
      ${row && html`<${Menu} title=${t("Conversation")} icon="menu">
        ${item("edit", t("Rename"), () => setDialog("rename"))}
        ${item("pin", isPinned ? t("Unpin") : t("Pin"), () => attempt(() => changeThread(thread, { is_pinned: !isPinned })))}
        ${item("tag", t("Tags"), () => setDialog("tags"))}
        ${item("search", t("Find in this conversation"), () => setFinding(true))}
        ${item("link", t("Share"), () => setDialog("share"))}
        ${FORMATS.map(([ending, name]) => html`<li><a href=${exportPath(thread, ending, runs)} download><${Icon} name="down" size="15" />${t("Export as {format}", { format: name })}</a></li>`)}
      <//>`}
      ${isFinding && html`<${Find} path=${path} found=${find} close=${stopFinding} />`}
      <${HoverCard} />
      ${dialog && html`<${Dialog} kind=${dialog} thread=${thread} row=${row} runs=${runs} close=${() => setDialog(null)} />`}
    </header>
  `;
}

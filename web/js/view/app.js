// The page as a whole: bar, sidebar, the current part, the drawer.
import { html } from "../core/html.js";
import { useCell } from "../core/cell.js";
import { useEscape } from "../core/escape.js";
import { lazy } from "../core/lazy.js";
import { route } from "../core/route.js";
import { t } from "../core/words.js";
import { conversation } from "../data/conversation.js";
import { closeDrawer, drawer } from "../data/drawer.js";
import { isOver } from "../data/runs.js";
import { Conversation } from "./conversation.js";
import { Shortcuts } from "./shortcuts.js";
import { Sidebar } from "./sidebar.js";
import { Line, Notices, Token } from "./notices.js";
import { Topbar } from "./topbar.js";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

const Compare = lazy(async () => (await import("./compare.js")).Compare);
const Documents = lazy(async () => (await import("./documents.js")).Documents);
const Drawer = lazy(async () => (await import("./drawer.js")).Drawer, { isQuiet: true });
const Flows = lazy(async () => (await import("./flows.js")).Flows);
const Settings = lazy(async () => (await import("./settings.js")).Settings);
const Tools = lazy(async () => (await import("./tools.js")).Tools);

const titles = () => ({ documents: t("Documents"), tools: t("Tools"), flows: t("Flows"), settings: t("Settings"), compare: t("Compare") });

const TITLE_CHARS_MAX = 60;

export function App() {
  const here = useCell(route);
  const [isOpen, setOpen] = useState(false);
  const isAside = useCell(drawer) !== null;
  const main = useRef(null);
  const isFirst = useRef(true);
  // Layout effects run before the next input is handled; an ordinary effect may move the focus after the user has begun to type.
  useLayoutEffect(() => {
    closeDrawer();
    // Screen readers are taken to what was opened; the first page begins at its beginning. Who asked a question goes on typing.
    const isTyping = document.activeElement?.id === "question";
    if (!isFirst.current && !isTyping) main.current.focus({ preventScroll: true });
    isFirst.current = false;
  }, [here.room, here.thread]);
  useTitle(here);
  useEscape(isOpen, () => setOpen(false));
  // Here and not in the drawer, whose code may still be loading.
  useEscape(isAside, closeDrawer);
  const skip = (event) => {
    event.preventDefault();
    main.current.focus();
  };
  return html`
    <a class="skip" href="#main" onClick=${skip}>${t("Skip to the main part")}</a>
    <${Topbar} toggle=${() => setOpen(!isOpen)} isOpen=${isOpen} />
    <${Line} />
    <div class=${`frame ${isAside ? "has-drawer" : ""}`}>
      <${Sidebar} isOpen=${isOpen} close=${() => setOpen(false)} />
      ${isOpen && html`<div class="shade" onClick=${() => setOpen(false)}></div>`}
      <main id="main" class="main" tabindex="-1" ref=${main}><${Notices} /><${Room} here=${here} /></main>
    </div>
    ${isAside && html`<${Drawer} />`}
    <${Shortcuts} />
    <${Token} />
  `;
}

/// The tab names the conversation and shows whether it is still being worked on.
function useTitle(here) {
  const { thread, row, turns } = useCell(conversation);
  const isHere = here.room === "thread" && thread === here.thread;
  const last = isHere ? turns.at(-1) : null;
  const name = titles()[here.room] ?? (isHere ? (row?.title ?? last?.question ?? "") : "");
  const mark = !last?.run ? "" : last.run.status === "asking" ? "(!) " : isOver(last.run.status) ? "" : "… ";
  useEffect(() => {
    document.title = `${mark}${name ? `${name.slice(0, TITLE_CHARS_MAX)} · ` : ""}Baton`;
  }, [mark, name]);
}

function Room({ here }) {
  switch (here.room) {
    case "documents":
      return html`<${Documents} />`;
    case "tools":
      return html`<${Tools} />`;
    case "flows":
      return html`<${Flows} />`;
    case "settings":
      return html`<${Settings} />`;
    case "compare":
      return html`<${Compare} left=${here.left} right=${here.right} />`;
    default:
      return html`<${Conversation} thread=${here.thread ?? null} run=${here.run ?? null} />`;
  }
}

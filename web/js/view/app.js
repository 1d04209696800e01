// The page as a whole: bar, sidebar, the room one is in, the drawer.
import { html } from "../core/html.js";
import { useCell } from "../core/cell.js";
import { lazy } from "../core/lazy.js";
import { route } from "../core/route.js";
import { closeDrawer, drawer } from "../data/drawer.js";
import { Conversation } from "./conversation.js";
import { Drawer } from "./drawer.js";
import { Sidebar } from "./sidebar.js";
import { Line, Notices, Token } from "./told.js";
import { Topbar } from "./topbar.js";
import { useEffect, useRef, useState } from "preact/hooks";

const Compare = lazy(async () => (await import("./compare.js")).Compare);
const Documents = lazy(async () => (await import("./documents.js")).Documents);
const Flows = lazy(async () => (await import("./flows.js")).Flows);
const Settings = lazy(async () => (await import("./settings.js")).Settings);
const Tools = lazy(async () => (await import("./tools.js")).Tools);

const TITLES = { documents: "Documents", tools: "Tools", flows: "Flows", settings: "Settings", compare: "Side by side" };

export function App() {
  const here = useCell(route);
  const [isOpen, setOpen] = useState(false);
  const isAside = useCell(drawer) !== null;
  const main = useRef(null);
  const isFirst = useRef(true);
  useEffect(() => {
    document.title = TITLES[here.room] ? `${TITLES[here.room]} · Baton` : "Baton";
    closeDrawer();
    // Screen readers are taken to what was opened; the first page begins at its beginning.
    if (!isFirst.current) main.current.focus({ preventScroll: true });
    isFirst.current = false;
  }, [here.room, here.thread]);
  const skip = (event) => {
    event.preventDefault();
    main.current.focus();
  };
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the main part</a>
    <${Topbar} toggle=${() => setOpen(!isOpen)} isOpen=${isOpen} />
    <${Line} />
    <div class=${`frame ${isAside ? "has-drawer" : ""}`}>
      <${Sidebar} isOpen=${isOpen} close=${() => setOpen(false)} />
      ${isOpen && html`<div class="shade" onClick=${() => setOpen(false)}></div>`}
      <main id="main" class="main" tabindex="-1" ref=${main}><${Room} here=${here} /></main>
    </div>
    <${Drawer} />
    <${Notices} />
    <${Token} />
  `;
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

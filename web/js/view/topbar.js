// The bar at the top: navigation, and light or dark.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { useCell } from "../core/cell.js";
import { route, to } from "../core/route.js";
import { isDark, setTheme, theme } from "../core/theme.js";
import { Icon, Mark } from "./icons.js";

const ROOMS = [
  ["documents", "document", "Documents"],
  ["tools", "tool", "Tools"],
  ["flows", "graph", "Flows"],
  ["settings", "gear", "Settings"],
];

export function Topbar({ toggle, isOpen }) {
  const here = useCell(route);
  useCell(theme);
  const next = isDark() ? "light" : "dark";
  const change = next === "dark" ? t("Switch to the dark theme") : t("Switch to the light theme");
  return html`
    <header class="topbar">
      <div class="topbar-inner">
        <button type="button" class="button-icon topbar-menu" aria-label=${t("Past conversations")} aria-expanded=${String(isOpen)} onClick=${toggle}><${Icon} name="menu" /></button>
        <a class="brand" href=${to.fresh()}><${Mark} />Baton</a>
        <nav class="rooms" aria-label=${t("Main")}>
          ${ROOMS.map(([room, icon, title]) => html`<a class="room" href=${to.room(room)} aria-current=${here.room === room ? "page" : undefined}><${Icon} name=${icon} size="17" /><span>${t(title)}</span></a>`)}
        </nav>
        <button type="button" class="button-icon" aria-label=${change} title=${change} onClick=${() => setTheme(next)}><${Icon} name=${isDark() ? "sun" : "moon"} /></button>
      </div>
    </header>
  `;
}

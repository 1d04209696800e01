// Settings: appearance, models and keys, preferences, limits, MCP servers, memory, and which tools may be called without asking.
import { html } from "../core/html.js";
import { get, remove } from "../core/api.js";
import { useCell } from "../core/cell.js";
import { t } from "../core/words.js";
import { attempt } from "../data/notices.js";
import { status } from "../data/status.js";
import { Appearance } from "./settings_appearance.js";
import { Limits, Preferences } from "./settings_defaults.js";
import { Memory } from "./settings_memory.js";
import { Keys, Models } from "./settings_models.js";
import { AddServers } from "./settings_servers.js";
import { Permissions } from "./settings_permissions.js";

export function Settings() {
  const known = useCell(status);
  // The user of the machine is the operator whatever the token; `viewer` may be the scope of a token.
  const isOperator = Boolean(known) && known.role !== "viewer" && (known.role === "operator" || known.user === "local" || known.needs_token === false);
  return html`
    <section class="room-page" aria-labelledby="settings">
      <h1 id="settings">${t("Settings")}</h1>
      <${Appearance} />
      <${Models} canTest=${isOperator} />
      ${isOperator && html`<${Keys} />`}
      <${Preferences} />
      <${Limits} />
      ${isOperator && html`<${AddServers} />`}
      <${Permissions} />
      <${Memory} />
      <section class="setting"><h2>${t("About")}</h2><p class="quiet">Baton ${known?.version ?? ""}${known?.user ? `, ${t("as {user}", { user: known.user })}` : ""}. ${t("In a terminal:")} <code>baton --help</code>. ${t("The API is described at")} <a href="/api/openapi.json" target="_blank" rel="noopener">/api/openapi.json</a>. ${t("Press ? for the keyboard shortcuts.")}</p>
        ${known?.needs_token && html`<button type="button" class="button" onClick=${() => attempt(signOut)}>${t("Sign out")}</button>`}</section>
    </section>
  `;
}

/// Where the operator wants that, the provider's session is ended too.
async function signOut() {
  const { provider } = await get("/api/session");
  await remove("/api/session");
  if (provider?.end) location.assign(provider.end);
  else location.reload();
}

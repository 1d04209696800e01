// Tools that the user allowed for good.
import { html } from "../core/html.js";
import { get, remove } from "../core/api.js";
import { to } from "../core/route.js";
import { t } from "../core/words.js";
import { attempt, say } from "../data/notices.js";
import { useEffect, useState } from "preact/hooks";

const scopes = () => ({ conversation: t("this tool, in one conversation"), tool: t("this tool, always"), server: t("every tool of this server, always") });

const parts = () => ({
  server: t("how the server is reached"),
  tools: t("the server's list of tools"),
  description: t("the description"),
  arguments: t("the arguments"),
  results: t("the form of the results"),
  hints: t("the annotations"),
});

// Why the next call is asked about although it was allowed, if it is.
function outdated({ state, changed = [] }) {
  if (state === "unbound") return t("You will be asked again: this permission was given before definitions of tools were recorded.");
  if (state !== "changed") return null;
  const names = parts();
  return t("You will be asked again, because this changed: {parts}.", { parts: changed.map((part) => names[part] ?? part).join(", ") });
}

export function Permissions() {
  const [known, setKnown] = useState(null);
  const load = () => get("/api/permissions").then(setKnown, (trouble) => setKnown({ trouble }));
  useEffect(() => {
    load();
  }, []);
  const revoke = ({ id, name }) =>
    attempt(async () => {
      await remove(`/api/permissions/${id}`);
      await load();
      say(t("{name} needs permission again.", { name }));
    });
  const all = known?.permissions ?? [];
  return html`<section class="setting" aria-labelledby="permissions"><h2 id="permissions">${t("Tools that need no permission")}</h2>
    ${known?.trouble && html`<p class="trouble" role="alert">${known.trouble.message}</p>`}
    ${known && !known.trouble && all.length === 0 && html`<p class="quiet">${t("None. Before a tool that may change something is called, you are asked; the answer can allow it permanently.")}</p>`}
    <ul class="models">${all.map((one) => html`<li key=${one.id}><div class="server-head"><strong dir="ltr">${one.name}</strong><span class="quiet">${scopes()[one.scope] ?? one.scope}</span>
      ${one.thread && html`<a href=${to.thread(one.thread)}>${t("the conversation")}</a>`}
      <button type="button" class="button" aria-label=${t("Revoke {name}", { name: one.name })} onClick=${() => revoke(one)}>${t("Revoke")}</button></div>
      ${outdated(one) && html`<p class="quiet">${outdated(one)}</p>`}</li>`)}</ul></section>`;
}

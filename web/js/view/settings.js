// Settings: appearance, models and how to set them up, preferences, and which tools may be called without asking.
import { html } from "../core/html.js";
import { get, patch, remove } from "../core/api.js";
import { useCell } from "../core/cell.js";
import { to } from "../core/route.js";
import { setTheme, theme } from "../core/theme.js";
import { attempt, say } from "../data/notices.js";
import { loadModels, models, status } from "../data/status.js";
import { titled } from "../model/text.js";
import { useEffect, useState } from "preact/hooks";

export function Settings() {
  const known = useCell(status);
  return html`
    <section class="room-page" aria-labelledby="settings">
      <h1 id="settings">Settings</h1>
      <${Appearance} />
      <${Models} />
      <${Preferences} />
      <${Permissions} />
      <section class="setting"><h2>About</h2><p class="quiet">Baton ${known?.version ?? ""}${known?.user ? `, as ${known.user}` : ""}. In a terminal: <code>baton --help</code>. The API is described at <a href="/api/openapi.json" target="_blank" rel="noopener">/api/openapi.json</a>.</p>
        ${known?.needs_token && html`<button type="button" class="button" onClick=${() => attempt(signOut)}>Sign out</button>`}</section>
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

function Appearance() {
  const chosen = useCell(theme);
  return html`<fieldset class="setting"><legend><h2>Appearance</h2></legend><div class="choices" role="radiogroup" aria-label="Theme">
    ${["system", "light", "dark"].map((one) => html`<label class="choice"><input type="radio" name="theme" value=${one} checked=${chosen === one} onChange=${() => setTheme(one)} />${titled(one)}</label>`)}
  </div></fieldset>`;
}

const STATES = { ready: "ready", missing: "not set up", failed: "failed", off: "off" };

function Models() {
  const known = useCell(models);
  useEffect(() => {
    loadModels();
  }, []);
  return html`<section class="setting"><h2>Models</h2>
    ${known?.chosen && html`<p>In use: <strong>${known.chosen.name}</strong> (${known.chosen.why}).</p>`}
    ${known?.trouble && html`<p class="trouble" role="alert">${known.trouble.message}</p>`}
    <ul class="models">${(known?.options ?? []).map((option) => html`<li><div class="server-head"><strong>${option.title || option.name}</strong>${option.name && html`<code>${option.name}</code>`}<span class=${`stand stand-${option.state}`}>${STATES[option.state] ?? option.state}</span></div>
      ${option.detail && html`<p class="quiet">${option.detail}</p>`}${option.todo && html`<p class="todo">${option.todo}</p>`}</li>`)}</ul>
    <button type="button" class="button" onClick=${loadModels}>Refresh</button></section>`;
}

/// What flows take from a user's preferences. The server refuses any other.
const PREFERENCES = [
  { name: "way", title: "How to answer", about: "where no rule applies", choices: [[null, "Decided for each question"], ["direct", "Directly"], ["agentic", "With a plan and searches"]] },
  { name: "strict", title: "Sentences without support", about: "in every conversation", choices: [[null, "As set for each question"], [false, "Marked"], [true, "Removed"]] },
];

function Preferences() {
  const [known, setKnown] = useState(null);
  useEffect(() => {
    get("/api/settings").then(setKnown, (trouble) => setKnown({ trouble }));
  }, []);
  const put = (name, value) =>
    attempt(async () => {
      setKnown(await patch("/api/settings", { [name]: value }));
      say("Saved.");
    });
  return html`<section class="setting"><h2>Preferences</h2>
    ${known?.trouble && html`<p class="trouble" role="alert">${known.trouble.message}</p>`}
    ${PREFERENCES.map(({ name, title, about, choices }) => {
      const at = Math.max(0, choices.findIndex(([value]) => value === (known?.[name] ?? null)));
      return html`<label class="preference"><span>${title} <small>${about}</small></span>
        <select value=${at} disabled=${!known || known.trouble} onChange=${(event) => put(name, choices[Number(event.target.value)][0])}>${choices.map(([, words], index) => html`<option value=${index} selected=${index === at}>${words}</option>`)}</select></label>`;
    })}</section>`;
}

const SCOPES = { conversation: "this tool, in one conversation", tool: "this tool, always", server: "every tool of this server, always" };

function Permissions() {
  const [known, setKnown] = useState(null);
  const load = () => get("/api/permissions").then(setKnown, (trouble) => setKnown({ trouble }));
  useEffect(() => {
    load();
  }, []);
  const revoke = ({ id, name }) =>
    attempt(async () => {
      await remove(`/api/permissions/${id}`);
      await load();
      say(`${name} needs permission again.`);
    });
  const all = known?.permissions ?? [];
  return html`<section class="setting" aria-labelledby="permissions"><h2 id="permissions">Tools that need no permission</h2>
    ${known?.trouble && html`<p class="trouble" role="alert">${known.trouble.message}</p>`}
    ${known && !known.trouble && all.length === 0 && html`<p class="quiet">None. Before a tool that may change something is called, you are asked; the answer can allow it permanently.</p>`}
    <ul class="models">${all.map((one) => html`<li key=${one.id}><div class="server-head"><strong dir="ltr">${one.name}</strong><span class="quiet">${SCOPES[one.scope] ?? one.scope}</span>
      ${one.thread && html`<a href=${to.thread(one.thread)}>the conversation</a>`}
      <button type="button" class="button" aria-label=${`Revoke ${one.name}`} onClick=${() => revoke(one)}>Revoke</button></div></li>`)}</ul></section>`;
}

// Settings: what the page looks like, which models there are and what to do about each, and what the server keeps about the user's wishes.
import { html } from "../core/html.js";
import { get, patch, remove } from "../core/api.js";
import { useCell } from "../core/cell.js";
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
      <${Look} />
      <${Models} />
      <${Preferences} />
      <section class="setting"><h2>About</h2><p class="quiet">Baton ${known?.version ?? ""}${known?.user ? `, as ${known.user}` : ""}. The same is at the terminal: <code>baton --help</code>. Programs find the API at <a href="/api/openapi.json" target="_blank" rel="noopener">/api/openapi.json</a>.</p>
        ${known?.needs_token && html`<button type="button" class="button" onClick=${() => attempt(async () => (await remove("/api/session"), location.reload()))}>Sign out</button>`}</section>
    </section>
  `;
}

function Look() {
  const chosen = useCell(theme);
  return html`<fieldset class="setting"><legend><h2>Look</h2></legend><div class="choices" role="radiogroup" aria-label="Theme">
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
    ${known?.chosen && html`<p><strong>${known.chosen.name}</strong> thinks here: ${known.chosen.why}.</p>`}
    ${known?.trouble && html`<p class="trouble" role="alert">${known.trouble.message}</p>`}
    <ul class="models">${(known?.options ?? []).map((option) => html`<li><div class="server-head"><strong>${option.title || option.name}</strong><span class=${`stand stand-${option.state}`}>${STATES[option.state] ?? option.state}</span></div>
      ${option.detail && html`<p class="quiet">${option.detail}</p>`}${option.todo && html`<p class="todo">${option.todo}</p>`}</li>`)}</ul>
    <button type="button" class="button" onClick=${loadModels}>Look again</button></section>`;
}

function Preferences() {
  const [known, setKnown] = useState(null);
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  useEffect(() => {
    get("/api/settings").then(setKnown, (trouble) => setKnown({ trouble }));
  }, []);
  const put = (change) =>
    attempt(async () => {
      setKnown(await patch("/api/settings", change));
      say("Kept.");
    });
  const add = (event) => {
    event.preventDefault();
    if (name.trim() === "" || value.trim() === "") return;
    put({ [name.trim()]: value.trim() }).then(() => (setName(""), setValue("")));
  };
  if (known?.trouble) return html`<section class="setting"><h2>What you like</h2><p class="trouble" role="alert">${known.trouble.message}</p></section>`;
  return html`<section class="setting"><h2>What you like</h2><p class="quiet">Flows are told of these, in every conversation.</p>
    <ul class="preferences">${Object.entries(known ?? {}).map(
      ([key, held]) => html`<li><span>${titled(key)}</span>
        ${typeof held === "boolean" ? html`<label class="check"><input type="checkbox" checked=${held} onChange=${(event) => put({ [key]: event.target.checked })} /><span class="hidden">${titled(key)}</span></label>` : html`<code dir="auto">${typeof held === "string" ? held : JSON.stringify(held)}</code><button type="button" class="link" onClick=${() => put({ [key]: null })}>Forget<span class="hidden"> ${key}</span></button>`}</li>`,
    )}</ul>
    <form class="preference" onSubmit=${add}><label><span>Name</span><input value=${name} placeholder="language" onInput=${(event) => setName(event.target.value)} /></label><label><span>Value</span><input value=${value} placeholder="British English" onInput=${(event) => setValue(event.target.value)} /></label><button class="button">Add</button></form></section>`;
}

// Models and how to set them up, a test for each, and the keys that they need.
import { html, withCode } from "../core/html.js";
import { get, post, put, remove } from "../core/api.js";
import { useCell } from "../core/cell.js";
import { t } from "../core/words.js";
import { attempt, say } from "../data/notices.js";
import { loadModels, loadStatus, models } from "../data/status.js";
import { duration } from "../model/text.js";
import { useEffect, useState } from "preact/hooks";

const states = () => ({ ready: t("ready"), missing: t("not set up"), failed: t("failed"), off: t("off") });

export function Models({ canTest }) {
  const known = useCell(models);
  useEffect(() => {
    loadModels();
  }, []);
  return html`<section class="setting"><h2>${t("Models")}</h2>
    ${known?.chosen && html`<p>${t("In use:")} <strong>${known.chosen.name}</strong> (${known.chosen.why}).</p>`}
    ${known?.trouble && html`<p class="trouble" role="alert">${known.trouble.message}</p>`}
    <ul class="models">${(known?.options ?? []).map((option) => html`<li><div class="server-head"><strong>${option.title || option.name}</strong>${option.name && html`<code>${option.name}</code>`}<span class=${`stand stand-${option.state}`}>${states()[option.state] ?? option.state}</span></div>
      ${option.detail && html`<p class="quiet">${withCode(option.detail)}</p>`}${option.todo && html`<p class="todo">${withCode(option.todo)}</p>`}</li>`)}</ul>
    <button type="button" class="button" onClick=${loadModels}>${t("Refresh")}</button>
    ${canTest && html`<${Test} />`}</section>`;
}

/// One short question to a model, with the keys and endpoints as they are now.
function Test() {
  const [model, setModel] = useState(models.value?.chosen?.name ?? "");
  const [result, setResult] = useState(null);
  const test = async (event) => {
    event.preventDefault();
    setResult({ isBusy: true });
    try {
      setResult({ found: await post("/api/models/test", { model: model.trim() }) });
    } catch (trouble) {
      setResult({ trouble });
    }
  };
  return html`<form class="one-line" onSubmit=${test} aria-label=${t("Test a model")}>
    <label><span>${t("Test a model")}</span><input value=${model} placeholder="openai/gpt-4.1-mini" autocomplete="off" spellcheck="false" onInput=${(event) => setModel(event.target.value)} /></label>
    <button class="button" disabled=${model.trim() === "" || result?.isBusy}>${result?.isBusy ? t("Testing …") : t("Test")}</button>
    <p class="test-result" role="status">${result?.found ? t("{model} answered “{text}” in {time}.", { model: result.found.model, text: result.found.text, time: duration(result.found.took_ms * 1_000) }) : ""}</p>
    ${result?.trouble && html`<p class="wrong" role="alert">${result.trouble.message}</p>`}
  </form>`;
}

const keyStates = () => ({ missing: t("not set"), environment: t("in the server's environment"), stored: t("stored") });

export function Keys() {
  const [known, setKnown] = useState(null);
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const load = () => get("/api/keys").then(setKnown, (trouble) => setKnown({ trouble }));
  useEffect(() => {
    load();
  }, []);
  const store = (event) => {
    event.preventDefault();
    return attempt(async () => {
      await put(`/api/keys/${encodeURIComponent(name.trim())}`, { value });
      setValue("");
      await Promise.all([load(), loadModels(), loadStatus()]);
      say(t("The key is stored and used from now on."));
    });
  };
  const drop = (one) => attempt(async () => (await remove(`/api/keys/${encodeURIComponent(one)}`), await Promise.all([load(), loadModels(), loadStatus()]), say(t("The key is removed."))));
  const all = known?.keys ?? [];
  return html`<section class="setting" aria-labelledby="keys"><h2 id="keys">${t("Keys")}</h2>
    <p class="quiet">${t("Stored in a file on the server that only its account can read, and never shown again. A key in the server's environment counts first.")}</p>
    ${known?.trouble && html`<p class="trouble" role="alert">${known.trouble.message}</p>`}
    <ul class="models">${all.map((key) => html`<li key=${key.name}><div class="server-head"><code>${key.name}</code><span class=${`stand stand-${key.state === "missing" ? "missing" : "ready"}`}>${keyStates()[key.state]}</span>
      ${key.state === "stored" && html`<button type="button" class="button" aria-label=${t("Remove {name}", { name: key.name })} onClick=${() => drop(key.name)}>${t("Remove")}</button>`}</div></li>`)}</ul>
    <form class="one-line" onSubmit=${store} aria-label=${t("Store a key")}>
      <label><span>${t("Name")}</span><input value=${name} list="key-names" placeholder="OPENAI_API_KEY" autocomplete="off" spellcheck="false" onInput=${(event) => setName(event.target.value)} /></label>
      <datalist id="key-names">${all.map((key) => html`<option value=${key.name}></option>`)}</datalist>
      <label><span>${t("Key")}</span><input type="password" value=${value} autocomplete="off" onInput=${(event) => setValue(event.target.value)} /></label>
      <button class="button" disabled=${name.trim() === "" || value.trim() === ""}>${t("Store")}</button>
    </form></section>`;
}

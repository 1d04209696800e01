// One tool, tried: a form from its schema, and its result.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { post } from "../core/api.js";
import { count, duration, shown } from "../model/text.js";
import { useState } from "preact/hooks";

export function Try({ tool }) {
  const fields = Object.entries(tool.schema?.properties ?? {});
  const required = tool.schema?.required ?? [];
  const [values, setValues] = useState({});
  const [result, setResult] = useState(null);
  const [wrong, setWrong] = useState("");
  const [isBusy, setBusy] = useState(false);
  const call = async (event) => {
    event.preventDefault();
    setWrong("");
    setResult(null);
    let args;
    try {
      args = Object.fromEntries(fields.filter(([name]) => values[name] !== undefined && values[name] !== "").map(([name, schema]) => [name, read(schema, values[name])]));
    } catch (error) {
      return setWrong(error.message);
    }
    setBusy(true);
    try {
      setResult(await post(`/api/registry/tools/${encodeURIComponent(tool.name)}/call`, { arguments: args }));
    } catch (trouble) {
      setWrong(trouble.message);
    }
    setBusy(false);
    return undefined;
  };
  return html`
    <form class="try" onSubmit=${call} aria-label=${t("Try {name}", { name: tool.name })}>
      ${tool.destructive && html`<p class="wrong">${t("This is a real call: whatever the tool changes, deletes or sends takes effect.")}</p>`}
      ${fields.map(([name, schema]) => html`<${Field} key=${name} name=${name} schema=${schema} isRequired=${required.includes(name)} value=${values[name]} put=${(value) => setValues({ ...values, [name]: value })} />`)}
      <div class="asking-bar"><button class="button button-primary" disabled=${isBusy}>${isBusy ? t("Calling …") : t("Call it")}</button></div>
      ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
      ${result && html`<div role="status"><p class="quiet">${duration(result.took_ms * 1_000)}${result.spans?.length ? ` · ${count(result.spans.length, "passage")}` : ""}</p><pre tabindex="0" dir="auto">${result.text || shown(result.data)}</pre></div>`}
    </form>
  `;
}

function Field({ name, schema, isRequired, value, put }) {
  const type = [].concat(schema.type ?? "string")[0];
  const label = html`<span>${name}${isRequired ? "" : html` <small>${t("optional")}</small>`}${schema.description ? html`<small>${schema.description}</small>` : null}</span>`;
  if (schema.enum) return html`<label>${label}<select required=${isRequired} onChange=${(event) => put(event.target.value)}><option value=""></option>${schema.enum.map((one) => html`<option value=${one} selected=${one === value}>${one}</option>`)}</select></label>`;
  if (type === "boolean") return html`<label class="check"><input type="checkbox" checked=${value === true} onChange=${(event) => put(event.target.checked)} />${label}</label>`;
  if (type === "integer" || type === "number") return html`<label>${label}<input type="number" step=${type === "integer" ? "1" : "any"} required=${isRequired} value=${value ?? ""} onInput=${(event) => put(event.target.value)} /></label>`;
  const isJson = type === "object" || type === "array";
  return html`<label>${label}<textarea rows=${isJson ? 3 : 1} class=${isJson ? "mono" : ""} placeholder=${isJson ? "JSON" : ""} required=${isRequired} value=${value ?? ""} onInput=${(event) => put(event.target.value)}></textarea></label>`;
}

function read(schema, value) {
  const type = [].concat(schema.type ?? "string")[0];
  if (type === "integer" || type === "number") return Number(value);
  if (type !== "object" && type !== "array") return value;
  try {
    return JSON.parse(value);
  } catch (error) {
    throw new Error(t("An argument is not JSON: {why}", { why: error.message }));
  }
}

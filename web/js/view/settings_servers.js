// Adds MCP servers: by hand, from a pasted mcp.json, or from a registry. What is added is off until it is switched on under Tools.
import { html } from "../core/html.js";
import { post } from "../core/api.js";
import { to } from "../core/route.js";
import { t } from "../core/words.js";
import { useState } from "preact/hooks";

const kinds = () => [["url", t("An address")], ["command", t("A program")], ["paste", t("Pasted mcp.json")], ["registry", t("A registry")]];

export function AddServers() {
  const [kind, setKind] = useState("url");
  const [fields, setFields] = useState({});
  const [result, setResult] = useState(null);
  const field = (name) => ({ value: fields[name] ?? "", onInput: (event) => setFields({ ...fields, [name]: event.target.value }) });
  const add = async (event) => {
    event.preventDefault();
    try {
      setResult({ imported: await post("/api/registry/import", request(kind, fields)) });
      setFields({});
    } catch (trouble) {
      setResult({ trouble });
    }
  };
  return html`<section class="setting" aria-labelledby="add-servers"><h2 id="add-servers">${t("Add MCP servers")}</h2>
    <p class="quiet">${t("A server that is added is off. Switch it on under Tools; before a program is started, you see its command line.")} <a href=${to.room("tools")}>${t("Tools")}</a></p>
    <div class="choices" role="radiogroup" aria-label=${t("Where the servers come from")}>${kinds().map(([one, title]) => html`<label class="choice"><input type="radio" name="server-kind" checked=${kind === one} onChange=${() => (setKind(one), setResult(null))} />${title}</label>`)}</div>
    <form class="one-line" onSubmit=${add} aria-label=${t("Add MCP servers")}>
      ${(kind === "url" || kind === "command") && html`<label><span>${t("Name")}</span><input required autocomplete="off" ...${field("name")} /></label>`}
      ${kind === "url" && html`<label><span>${t("Address")}</span><input required type="url" placeholder="https://example.org/mcp" ...${field("url")} /></label>`}
      ${kind === "command" && html`<label class="wide"><span>${t("Command line")}</span><input required placeholder="npx -y @modelcontextprotocol/server-everything" autocomplete="off" spellcheck="false" ...${field("command")} /></label>`}
      ${kind === "paste" && html`<label class="wide"><span>mcp.json</span><textarea class="mono" rows="6" required placeholder='{"mcpServers": {"name": {"command": "npx", "args": ["-y", "…"]}}}' ...${field("json")}></textarea></label>`}
      ${kind === "registry" && html`<label class="wide"><span>${t("Address of the registry")}</span><input required type="url" placeholder="https://registry.modelcontextprotocol.io" ...${field("registry")} /></label>`}
      <button class="button">${t("Add")}</button>
    </form>
    ${result?.trouble && html`<p class="wrong" role="alert">${result.trouble.message}</p>`}
    ${result?.imported && html`<div role="status">
      <p>${result.imported.added.length > 0 ? t("Added: {names}.", { names: result.imported.added.join(", ") }) : t("Nothing was added.")}</p>
      ${result.imported.skipped?.length > 0 && html`<ul>${result.imported.skipped.map((one) => html`<li>${t("Left out: {name} ({why})", { name: one.name, why: one.why })}</li>`)}</ul>`}
    </div>`}</section>`;
}

function request(kind, fields) {
  if (kind === "registry") return { address: fields.registry.trim() };
  if (kind === "paste") {
    let parsed;
    try {
      parsed = JSON.parse(fields.json);
    } catch (error) {
      throw new Error(t("That is not JSON: {why}", { why: error.message }));
    }
    // Some hosts call the list "servers", others leave the word out.
    const servers = parsed.mcpServers ?? (Array.isArray(parsed.servers) ? null : parsed.servers);
    return { list: servers ? { mcpServers: servers } : parsed };
  }
  const [command, ...args] = (fields.command ?? "").match(/"[^"]*"|'[^']*'|\S+/g)?.map((word) => word.replace(/^(["'])(.*)\1$/, "$2")) ?? [""];
  const server = kind === "url" ? { url: fields.url.trim() } : { command, args };
  return { list: { mcpServers: { [fields.name.trim()]: server } } };
}

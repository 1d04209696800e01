// The registry: servers and their state, their tools, a switch for each, and a form to try one.
import { html, withCode } from "../core/html.js";
import { serverText, t } from "../core/words.js";
import { get, post } from "../core/api.js";
import { attempt, say } from "../data/notices.js";
import { count } from "../model/text.js";
import { Icon } from "./icons.js";
import { Try } from "./try.js";
import { useEffect, useState } from "preact/hooks";

const LOOK_MS = 5_000;

export function Tools() {
  const [known, setKnown] = useState(null);
  const [words, setWords] = useState("");
  const load = async () => {
    try {
      const [{ tools }, { servers }] = await Promise.all([get("/api/registry/tools"), get("/api/registry/servers")]);
      setKnown({ tools, servers });
    } catch (trouble) {
      setKnown((was) => ({ tools: [], servers: [], ...was, trouble }));
    }
  };
  useEffect(() => {
    load();
    const timer = setInterval(load, LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  const turn = (kind, name, isOn) =>
    attempt(async () => {
      const path = `/api/registry/${kind}/${encodeURIComponent(name)}/${isOn ? "enable" : "disable"}`;
      try {
        await post(path);
      } catch (trouble) {
        if (trouble.kind !== "confirm") throw trouble;
        if (!window.confirm(t("{name} is a program that the server starts on its machine:\n\n{program}\n\nStart it?", { name, program: trouble.program }))) return;
        await post(path, { confirm: trouble.program });
      }
      say(isOn ? t("{name} is on.", { name }) : t("{name} is off.", { name }));
      await load();
    });
  // The browser goes to the authorization server and comes back to this room.
  const signIn = (name) => attempt(async () => location.assign((await post(`/api/registry/servers/${encodeURIComponent(name)}/login`)).address));
  const signOut = (name) =>
    attempt(async () => {
      await post(`/api/registry/servers/${encodeURIComponent(name)}/logout`);
      say(t("{name} is signed out.", { name }));
      await load();
    });
  const isFound = (tool) => words.trim() === "" || `${tool.name} ${tool.title ?? ""} ${tool.description}`.toLowerCase().includes(words.trim().toLowerCase());
  return html`
    <section class="room-page" aria-labelledby="tools">
      <h1 id="tools">${t("Tools")}</h1>
      <p class="lead">${t("The tools that flows can call. A tool that is off is not offered to any flow.")}</p>
      <label class="field-search"><span class="hidden">${t("Search tools")}</span><${Icon} name="search" size="16" /><input type="search" placeholder=${t("Search tools")} value=${words} onInput=${(event) => setWords(event.target.value)} /></label>
      ${known?.trouble && html`<p class="trouble" role="alert">${known.trouble.message}</p>`}
      ${!known && html`<p role="status">${t("Loading the tools …")}</p>`}
      ${(known?.servers ?? []).map((server) => {
        const own = known.tools.filter((tool) => tool.server === server.name && isFound(tool));
        if (words.trim() !== "" && own.length === 0) return null;
        return html`<section class="server" key=${server.name} aria-label=${t("Server {name}", { name: server.name })}>
          <div class="server-head"><h2>${server.name}</h2><${Health} server=${server} /><span class="quiet">${kinds()[server.kind] ?? server.kind} · ${count(typeof server.tools === "number" ? server.tools : own.length, "tool")}</span><span class="spring"></span>
            ${server.enabled && server.sign_in === "needed" && html`<button type="button" class="button" onClick=${() => signIn(server.name)}>${t("Sign in")}<span class="hidden"> ${server.name}</span></button>`}
            ${server.sign_in === "done" && html`<button type="button" class="button button-quiet" onClick=${() => signOut(server.name)}>${t("Sign out")}<span class="hidden"> ${server.name}</span></button>`}
            <${Switch} isOn=${server.enabled} label=${t("Server {name}", { name: server.name })} turn=${(isOn) => turn("servers", server.name, isOn)} /></div>
          ${why(server) && html`<p class="wrong">${serverText(why(server))}</p>`}
          <ul class="tools">${own.map((tool) => html`<${Tool} key=${tool.name} tool=${tool} turn=${turn} />`)}</ul>
        </section>`;
      })}
    </section>
  `;
}

const states = () => ({ up: t("running"), idle: t("not started"), down: t("failed"), off: t("off") });
const kinds = () => ({ local: t("built-in"), stdio: t("program"), http: t("remote") });

/// The registry reports `"up"`, or `{"down": {…}}`, or has the word beside its details.
const stateOf = (server) => (typeof server.health === "string" ? server.health : Object.keys(server.health ?? { idle: 1 })[0]);
const why = (server) => server.why ?? server.health?.down?.why ?? "";

const Health = ({ server }) => {
  const state = server.enabled ? stateOf(server) : "off";
  return html`<span class=${`stand stand-${state}`}>${states()[state] ?? state}</span>`;
};

function Tool({ tool, turn }) {
  const [isOpen, setOpen] = useState(false);
  const marks = [tool.read_only && t("read-only"), tool.destructive && t("can change or delete"), tool.open_world && t("external access")].filter(Boolean);
  return html`
    <li class="tool">
      <div class="tool-head"><div><strong>${tool.name}</strong>${marks.map((mark) => html`<span class="mark">${mark}</span>`)}<p dir="auto">${withCode(tool.description?.split("\n")[0])}</p></div><span class="spring"></span>
        <button type="button" class="button button-quiet" aria-expanded=${String(isOpen)} disabled=${!tool.enabled} onClick=${() => setOpen(!isOpen)}><${Icon} name="play" size="14" />${t("Try")}<span class="hidden"> ${tool.name}</span></button>
        <${Switch} isOn=${tool.enabled} label=${tool.name} turn=${(isOn) => turn("tools", tool.name, isOn)} /></div>
      ${isOpen && html`<${Try} tool=${tool} />`}
    </li>
  `;
}

const Switch = ({ isOn, label, turn }) => html`<button type="button" role="switch" class="switch" aria-checked=${String(Boolean(isOn))} aria-label=${label} onClick=${() => turn(!isOn)}><span></span></button>`;

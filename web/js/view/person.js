// What a run asks a person: to agree to a plan or change it, to agree to one call, to say whether something happened, or anything else.
// The form follows the question's schema, so that a new kind of question needs no new form.
import { html } from "../core/html.js";
import { serverText, t } from "../core/words.js";
import { say } from "../data/notices.js";
import { answer } from "../data/runs.js";
import { proposal } from "../model/plan.js";
import { titled } from "../model/text.js";
import { Icon } from "./icons.js";
import { Paused } from "./paused.js";
import { PlanEditor } from "./plan.js";
import { useEffect, useRef, useState } from "preact/hooks";

export function PersonQuestion({ open, family, done }) {
  const [isSent, setSent] = useState(false);
  const card = useRef(null);
  const question = typeof open.question === "string" ? { prompt: open.question } : (open.question ?? {});
  const schema = open.schema ?? question.schema ?? null;
  useEffect(() => {
    // What does not fit is read from its beginning.
    const room = card.current.closest(".turns")?.clientHeight ?? window.innerHeight;
    card.current.scrollIntoView({ block: card.current.offsetHeight > room ? "start" : "nearest" });
  }, []);
  const send = async (value) => {
    setSent(true);
    try {
      await answer(open, value);
      done();
    } catch (trouble) {
      setSent(false);
      say(trouble.message, "bad");
    }
  };
  const lists = proposal(schema, family, open.plan);
  const form = lists ? PlanEditor : open.call ? Permission : formFor(schema);
  return html`
    <section class="asking" ref=${card} aria-label=${t("A question for you")}>
      <h3><${Icon} name="person" size="17" />${lists ? t("Is this plan right?") : headline(schema)}</h3>
      ${!lists && !open.call && html`<p class="asking-prompt" dir="auto">${serverText(question.prompt)}</p>`}
      <fieldset disabled=${isSent}><legend class="hidden">${t("Your answer")}</legend>
        <${form} open=${open} schema=${schema} lists=${lists} call=${open.call} send=${send} prompt=${question.prompt} />
      </fieldset>
      ${isSent && html`<p class="hidden" role="status">${t("Sent.")}</p>`}
    </section>
  `;
}

/// What the engine itself asks is known by the one word it wants to hear.
const headline = (schema) => ({ verdict: t("Did this happen?"), allow: t("Allow this?"), continue: t("Paused at a breakpoint") })[onlyField(schema)[0]] ?? t("A question for you");

function formFor(schema) {
  const [name, field] = onlyField(schema);
  if (name === "continue") return Paused;
  if (field?.type === "boolean") return YesNo;
  if (field?.enum) return Choice;
  return name || !schema ? Words : Json;
}

function onlyField(schema) {
  const required = schema?.required ?? [];
  return required.length === 1 ? [required[0], schema.properties?.[required[0]] ?? {}] : [null, null];
}

function YesNo({ schema, send }) {
  const [name] = onlyField(schema);
  return html`<div class="asking-bar">
    <button type="button" class="button button-primary" onClick=${() => send({ [name]: true })}><${Icon} name="check" size="16" />${t("Yes")}</button>
    <button type="button" class="button" onClick=${() => send({ [name]: false })}><${Icon} name="close" size="16" />${t("No")}</button>
  </div>`;
}

const verdicts = () => ({ done: t("It happened"), again: t("Run it again"), failed: t("It did not happen; skip it") });

function Choice({ schema, send }) {
  const [name, field] = onlyField(schema);
  return html`<div class="asking-bar">${field.enum.map((word, at) => html`<button type="button" class=${`button ${at === 0 ? "button-primary" : ""}`} onClick=${() => send({ [name]: word })}>${verdicts()[word] ?? titled(word)}</button>`)}</div>`;
}

const consents = () => ({ once: t("Once"), conversation: t("This conversation"), tool: t("Always this tool"), server: t("Always this server"), no: t("No") });

/// A tool call that needs permission: what would be called, with what, why that is asked, and how far the permission reaches.
function Permission({ schema, call, send }) {
  const [name, field] = onlyField(schema);
  return html`<dl class="asking-call">
      <div><dt>${t("Tool")}</dt><dd><code dir="ltr">${call.tool}</code></dd></div>
      <div><dt>${t("Server")}</dt><dd><code dir="ltr">${call.server}</code></dd></div>
      <div><dt>${t("Arguments")}</dt><dd><pre class="code" tabindex="0" dir="ltr">${call.arguments}</pre></dd></div>
      <div><dt>${t("Origin of the arguments")}</dt><dd><ul>${call.sources.map((source) => html`<li>${serverText(source)}</li>`)}</ul></dd></div>
      <div><dt>${t("Reason for asking")}</dt><dd>${serverText(call.why)}</dd></div>
    </dl>
    <div class="asking-bar">${field.enum.map((word, at) => html`<button type="button" class=${`button ${at === 0 ? "button-primary" : ""}`} onClick=${() => send({ [name]: word })}>${consents()[word] ?? titled(word)}</button>`)}</div>
    <p class="quiet">${t("Settings list what is allowed permanently; you can revoke it there.")}</p>`;
}

function Words({ schema, send }) {
  const [text, setText] = useState("");
  const [name] = onlyField(schema);
  const submit = (event) => {
    event.preventDefault();
    if (text.trim() !== "") send(name ? { [name]: text } : text);
  };
  return html`<form onSubmit=${submit}><label><span class="hidden">${t("Your answer")}</span><textarea rows="3" value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>
    <div class="asking-bar"><button class="button button-primary" disabled=${text.trim() === ""}>${t("Answer")}</button></div></form>`;
}

function Json({ schema, send }) {
  const [text, setText] = useState("{}");
  const [wrong, setWrong] = useState("");
  const submit = (event) => {
    event.preventDefault();
    try {
      send(JSON.parse(text));
    } catch (error) {
      setWrong(t("That is not JSON: {why}", { why: error.message }));
    }
  };
  return html`<form onSubmit=${submit}>
    <details><summary>${t("Schema of the answer")}</summary><pre class="code" tabindex="0">${JSON.stringify(schema, null, 2)}</pre></details>
    <label><span>${t("The answer as JSON")}</span><textarea class="mono" rows="5" value=${text} onInput=${(event) => setText(event.target.value)} aria-invalid=${String(wrong !== "")}></textarea></label>
    ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
    <div class="asking-bar"><button class="button button-primary">${t("Answer")}</button></div></form>`;
}

// A plan put before a person: each step can be left out, moved no further than its needs allow, and have its arguments changed.
import { html } from "../core/html.js";
import { item, needs } from "../model/plan.js";
import { shown, titled } from "../model/text.js";
import { Icon } from "./icons.js";
import { useState } from "preact/hooks";

export function PlanEditor({ schema, lists, send, prompt }) {
  const [steps, setSteps] = useState(() => lists.flatMap((list) => list.steps.map((step, at) => ({ list: list.name, step, at, isOut: false, fields: fieldsOf(step), wrong: {} }))));
  const change = (index, next) => setSteps(steps.map((one, at) => (at === index ? { ...one, ...next } : one)));
  const kept = steps.filter((one) => !one.isOut);
  const isChanged = steps.some((one) => one.isOut || one.fields.some((field) => field.text !== field.was));
  const isWrong = kept.some((one) => one.fields.some((field) => wrongOf(field) !== ""));
  const missing = missingNeeds(steps);
  const objection = /^That cannot be run:[\s\S]*?(?=\n(?:Run this plan|May ))/.exec(prompt ?? "")?.[0];
  const approve = () => {
    const value = { approve: true };
    const hash = schema.properties?.plan_hash?.default;
    if (hash) value.plan_hash = hash;
    if (isChanged) for (const list of lists) value[list.name] = kept.filter((one) => one.list === list.name).map((one) => edited(one, list));
    send(value);
  };
  return html`
    ${objection && html`<p class="wrong" role="alert">${objection}</p>`}
    ${lists.map(
      (list) => html`
        ${lists.length > 1 && html`<h4>${titled(list.name)}</h4>`}
        <ol class="plan">
          ${steps.map((one, index) => one.list === list.name && html`<${Step} key=${index} one=${one} change=${(next) => change(index, next)} />`)}
        </ol>
      `,
    )}
    ${missing.map((text) => html`<p class="wrong" role="alert">${text}</p>`)}
    <div class="asking-bar">
      <button type="button" class="button button-primary" disabled=${kept.length === 0 || isWrong || missing.length > 0} onClick=${approve}><${Icon} name="check" size="16" />${isChanged ? "Run the changed plan" : "Run it"}</button>
      <button type="button" class="button" onClick=${() => send({ approve: false })}><${Icon} name="close" size="16" />Decline</button>
    </div>
  `;
}

function Step({ one, change }) {
  const { number, tool, text } = item(one.step, one.at);
  const name = text || tool;
  const isPlain = typeof one.step === "string";
  return html`
    <li class=${`plan-step ${one.isOut ? "is-out" : ""}`}>
      <label class="check"><input type="checkbox" checked=${!one.isOut} onChange=${(event) => change({ isOut: !event.target.checked })} aria-label=${`Step ${number}: ${name}`} />
        <span dir="auto"><strong>${isPlain ? `Step ${number}` : name}</strong>${tool && text && html`<small>${tool}</small>`}</span></label>
      ${!one.isOut &&
      html`<div class="plan-fields">
        ${one.fields.map((field, at) => {
          const wrong = wrongOf(field);
          const put = (event) => change({ fields: one.fields.map((other, index) => (index === at ? { ...other, text: event.target.value } : other)) });
          return html`<label class="plan-field"><span>${field.name}</span>
            <textarea rows=${Math.min(6, field.text.split("\n").length)} class=${field.isJson ? "mono" : ""} value=${field.text} onInput=${put} aria-label=${`${field.name} of step ${number}`} aria-invalid=${String(wrong !== "")}></textarea>
            ${wrong && html`<span class="wrong" role="alert">${wrong}</span>`}</label>`;
        })}
      </div>`}
    </li>
  `;
}

/// One field per argument; the words of a plain step are its only one.
function fieldsOf(step) {
  if (typeof step === "string") return [{ name: "what", text: step, was: step, isJson: false }];
  return Object.entries(item(step, 0).arguments).map(([name, value]) => {
    const text = shown(value);
    return { name, text, was: text, isJson: typeof value !== "string" };
  });
}

function wrongOf(field) {
  if (!field.isJson) return "";
  try {
    JSON.parse(field.text);
    return "";
  } catch (error) {
    return `This must be JSON: ${error.message}`;
  }
}

function edited(one, list) {
  if (typeof one.step === "string") return one.fields[0].text;
  const args = Object.fromEntries(one.fields.map((field) => [field.name, field.isJson ? JSON.parse(field.text) : field.text]));
  const name = "tool_arguments" in one.step ? "tool_arguments" : "arguments";
  const step = { ...one.step, [name]: args };
  // Only what the question takes goes back.
  return list.known.length > 0 ? Object.fromEntries(Object.entries(step).filter(([field]) => list.known.includes(field))) : step;
}

/// A step that uses what a left-out step would have found cannot be run.
function missingNeeds(steps) {
  const out = new Set(steps.filter((one) => one.isOut).map((one) => item(one.step, one.at).number));
  return steps
    .filter((one) => !one.isOut && typeof one.step !== "string")
    .flatMap((one) => {
      const args = Object.fromEntries(one.fields.map((field) => [field.name, field.text]));
      const number = item(one.step, one.at).number;
      return needs(args).filter((need) => out.has(need)).map((need) => `Step ${number} uses what step ${need} finds. Keep that one, leave this one out too, or write the argument yourself.`);
    });
}

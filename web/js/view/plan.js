// A plan put before a person: steps are left out, moved, added and changed; the plan is approved, sent back to the planner, or declined with a reason.
import { html } from "../core/html.js";
import { serverText, t } from "../core/words.js";
import { moved, needs, numbered, stepFields, stepOf } from "../model/plan_edit.js";
import { titled } from "../model/text.js";
import { Icon } from "./icons.js";
import { useRef, useState } from "preact/hooks";

const STEPS_MAX = 20;

export function PlanEditor({ schema, lists, send, prompt }) {
  const [steps, setSteps] = useState(() => lists.flatMap((list) => list.steps.map((step, at) => ({ key: `${list.name}${at}`, list: list.name, step, at, isOut: false, fields: stepFields(step) }))));
  const [reason, setReason] = useState("");
  const added = useRef(0);
  const change = (key, next) => setSteps(steps.map((one) => (one.key === key ? { ...one, ...next } : one)));
  const move = (key, by) => setSteps(moved(steps, key, by));
  const remove = (key) => setSteps(steps.filter((one) => one.key !== key));
  const add = (list) => {
    added.current += 1;
    const last = steps.findLastIndex((one) => one.list === list.name);
    const one = { key: `new${added.current}`, list: list.name, step: null, at: null, isOut: false, fields: newFields(list) };
    setSteps([...steps.slice(0, last + 1), one, ...steps.slice(last + 1)]);
  };
  const kept = steps.filter((one) => !one.isOut);
  const order = lists.map((list) => steps.filter((one) => one.list === list.name).map((one) => one.at));
  const isMoved = order.some((places) => places.some((place, at) => place !== at));
  const isChanged = isMoved || steps.some((one) => one.isOut || one.fields.some((field) => field.text !== field.was));
  const isWrong = kept.some((one) => one.fields.some((field) => wrongOf(field) !== ""));
  const problems = needs(steps);
  const objection = /^That cannot be run:[\s\S]*?(?=\n(?:Run this plan|Research this|May ))/.exec(prompt ?? "")?.[0];
  const estimate = /^Estimate for .*$/m.exec(prompt ?? "")?.[0];
  const approve = () => {
    const value = { approve: true };
    const hash = schema.properties?.plan_hash?.default;
    if (hash) value.plan_hash = hash;
    if (isChanged) for (const list of lists) value[list.name] = numbered(kept.filter((one) => one.list === list.name)).map((one) => stepOf(one, list));
    send(value);
  };
  const refuse = (field) => send({ approve: false, ...(reason.trim() && field in (schema.properties ?? {}) ? { [field]: reason.trim() } : {}) });
  const canRevise = "revise" in (schema.properties ?? {});
  return html`
    ${objection && html`<p class="wrong" role="alert">${serverText(objection)}</p>`}
    ${lists.map((list) => {
      const own = steps.filter((one) => one.list === list.name);
      return html`
        ${lists.length > 1 && html`<h4>${listNames()[list.name] ?? titled(list.name)}</h4>`}
        <ol class="plan">
          ${own.map((one, at) => html`<${Step} key=${one.key} one=${one} number=${at + 1} isFirst=${at === 0} isLast=${at === own.length - 1} change=${(next) => change(one.key, next)} move=${(by) => move(one.key, by)} remove=${() => remove(one.key)} />`)}
        </ol>
        <button type="button" class="link" disabled=${own.length >= STEPS_MAX} onClick=${() => add(list)}><${Icon} name="plus" size="14" />${list.name === "sections" ? t("Add a section") : lists.length > 1 ? t("Add a step to {list}", { list: listNames()[list.name] ?? titled(list.name) }) : t("Add a step")}</button>
      `;
    })}
    ${problems.map((text) => html`<p class="wrong" role="alert">${text}</p>`)}
    ${estimate && html`<p class="quiet">${serverText(estimate)}</p>`}
    ${canRevise && html`<label class="plan-reason"><span>${t("What should change, or why not (optional)")}</span><textarea rows="2" value=${reason} onInput=${(event) => setReason(event.target.value)}></textarea></label>`}
    <div class="asking-bar">
      <button type="button" class="button button-primary" disabled=${kept.length === 0 || isWrong || problems.length > 0} onClick=${approve}><${Icon} name="check" size="16" />${isChanged ? t("Run the changed plan") : t("Run it")}</button>
      ${canRevise && html`<button type="button" class="button" disabled=${reason.trim() === ""} title=${t("The planner plans again with what you wrote above")} onClick=${() => refuse("revise")}><${Icon} name="reason" size="16" />${t("Revise the plan")}</button>`}
      <button type="button" class="button" onClick=${() => refuse("reason")}><${Icon} name="close" size="16" />${t("Decline")}</button>
    </div>
  `;
}

const listNames = () => ({ tasks: t("Tasks"), steps: t("Steps"), sections: t("Sections"), capabilities: t("Capabilities"), plan: t("Plan") });

function Step({ one, number, isFirst, isLast, change, move, remove }) {
  const isNew = one.at === null;
  const name = isNew ? t("New step") : titleOf(one);
  return html`
    <li class=${`plan-step ${one.isOut ? "is-out" : ""}`}>
      <div class="plan-step-head">
        ${isNew ? html`<strong>${t("New step")}</strong>` : html`<label class="check"><input type="checkbox" checked=${!one.isOut} onChange=${(event) => change({ isOut: !event.target.checked })} aria-label=${`${t("Step {n}", { n: number })}: ${name}`} /><span dir="auto"><strong>${typeof one.step === "string" ? t("Step {n}", { n: number }) : name}</strong>${subtitleOf(one)}</span></label>`}
        <span class="plan-step-tools">
          <button type="button" class="button-icon" aria-label=${t("Move step {n} up", { n: number })} disabled=${isFirst} onClick=${() => move(-1)}><${Icon} name="raise" size="15" /></button>
          <button type="button" class="button-icon" aria-label=${t("Move step {n} down", { n: number })} disabled=${isLast} onClick=${() => move(1)}><${Icon} name="lower" size="15" /></button>
          ${isNew && html`<button type="button" class="button-icon" aria-label=${t("Remove step {n}", { n: number })} onClick=${remove}><${Icon} name="close" size="15" /></button>`}
        </span>
      </div>
      ${!one.isOut && html`<div class="plan-fields">${one.fields.map((field, at) => html`<${Field} field=${field} number=${number} put=${(text) => change({ fields: one.fields.map((other, index) => (index === at ? { ...other, text } : other)) })} />`)}</div>`}
    </li>
  `;
}

/// Fields that every plan has. Others are arguments of a tool, by the names that the tool gives them.
const fieldNames = () => ({ heading: t("Heading"), question: t("Question"), tool: t("Tool"), tool_name: t("Tool"), arguments: t("Arguments"), tool_arguments: t("Arguments"), description: t("Description"), what: t("Step") });

function Field({ field, number, put }) {
  const wrong = wrongOf(field);
  const name = fieldNames()[field.name] ?? field.name;
  const label = t("{field} of step {n}", { field: name, n: number });
  if (field.choices?.length > 0) {
    return html`<label class="plan-field"><span>${name}</span><select value=${field.text} onChange=${(event) => put(event.target.value)} aria-label=${label}>${field.choices.map((choice) => html`<option value=${choice}>${choice}</option>`)}</select></label>`;
  }
  return html`<label class="plan-field"><span>${name}</span>
    <textarea rows=${Math.min(6, field.text.split("\n").length)} class=${field.isJson ? "mono" : ""} value=${field.text} onInput=${(event) => put(event.target.value)} aria-label=${label} aria-invalid=${String(wrong !== "")}></textarea>
    ${wrong && html`<span class="wrong" role="alert">${wrong}</span>`}</label>`;
}

const titleOf = (one) => (typeof one.step === "string" ? one.step : one.step.heading || one.step.description || one.step.tool_name || one.step.tool || t("Step"));

function subtitleOf({ step }) {
  const tool = typeof step === "string" ? "" : (step.tool_name ?? step.tool ?? "");
  return tool && step.description ? html`<small>${tool}</small>` : null;
}

/// What a person fills in for a step of this list.
function newFields(list) {
  const field = (name, text, more = {}) => ({ name, text, was: null, isJson: false, ...more });
  if (list.known.includes("heading")) return [field("heading", ""), field("question", "")];
  const tool = list.known.find((name) => name === "tool_name" || name === "tool");
  if (!tool) return [field("what", list.tools[0] ?? "", { choices: list.tools })];
  return [field(tool, list.tools[0] ?? "", { choices: list.tools }), field(tool === "tool" ? "arguments" : "tool_arguments", "{}", { isJson: true }), field("description", "", { isOptional: true })];
}

function wrongOf(field) {
  if (!field.isJson) return field.was === null && !field.isOptional && field.name !== "question" && field.text.trim() === "" ? t("This is needed") : "";
  try {
    JSON.parse(field.text);
    return "";
  } catch (error) {
    return t("This must be JSON: {why}", { why: error.message });
  }
}

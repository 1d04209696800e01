// One step of a run, opened: what was asked, what came back, attempt by attempt, what it cost, and a branch from here.
import { html } from "../core/html.js";
import { language, serverText, t } from "../core/words.js";
import { useRun } from "../data/runs.js";
import { took_us } from "../model/family.js";
import { duration, kindOf, labelOf, money, placeOf, shown, tokens, webAddress } from "../model/text.js";
import { Branch } from "./branch.js";
import { stateWords } from "./graph.js";
import { Icon } from "./icons.js";

const TEXT_CHARS_MAX = 20_000;

export function Task({ run, task: key }) {
  const known = useRun(run);
  const [owner] = key.split("/");
  const task = known?.family.runs.get(owner)?.tasks.get(key);
  if (!task) return html`<p role="status">${t("Loading the step …")}</p>`;
  const now_ms = Date.now();
  const { effect } = task;
  return html`
    <p class="task-title" dir="auto"><${Icon} name=${task.kind} />${labelOf(task)}</p>
    <dl class="facts">
      <div><dt>${t("State")}</dt><dd><span class=${`stand stand-${task.state}`}>${stateWords(task.state)}</span></dd></div>
      <div><dt>${kindOf(task)}</dt><dd>${task.name}${effect?.call_model?.model ? ` · ${effect.call_model.model}` : ""}</dd></div>
      <div><dt>${t("Time")}</dt><dd>${duration(took_us(task, now_ms)) || t("none yet")}</dd></div>
      <div><dt>${t("Cost")}</dt><dd>${costOf(task)}</dd></div>
      <div><dt>${t("Step")}</dt><dd>${task.step}.${task.index}</dd></div>
    </dl>
    ${task.why && html`<p class="remark"><${Icon} name="warn" size="15" />${serverText(task.why)}</p>`}
    <${Asked} task=${task} />
    <${Attempts} task=${task} />
    <${Reply} task=${task} />
    <${Branch} task=${task} root=${run} />
  `;
}

export function costOf(task) {
  const all = tokens(task.usage);
  if (!all && !task.usage.usd_micros) return t("nothing");
  return [all && t("{in} tokens in, {out} out", { in: task.usage.tokens_in.toLocaleString(language), out: task.usage.tokens_out.toLocaleString(language) }), money(task.usage.usd_micros)].filter(Boolean).join(" · ");
}

function Asked({ task }) {
  const { call_model: model, call_tool: tool, call_agent: agent, ask_person: person } = task.effect ?? {};
  if (model) {
    return html`<section class="part"><h3>${t("Prompt")}</h3><${Prompt} call=${model} /></section>`;
  }
  const asked = tool ? tool.arguments : agent ? agent.input : (person?.prompt ?? null);
  if (asked === null) return null;
  return html`<section class="part"><h3>${person ? t("Question") : t("Arguments")}</h3><pre tabindex="0">${shown(asked)}</pre></section>`;
}

/// The messages of a model call as they were sent, and the schema of its reply.
export const Prompt = ({ call }) => html`
  ${(call.messages ?? []).map((message) => html`<details class="message" open=${message.role === "user"}><summary><span class="role">${message.role}</span><span class="message-start">${message.content.slice(0, 90)}</span></summary><pre tabindex="0" dir="auto">${message.content}</pre></details>`)}
  ${call.schema && html`<details class="message"><summary><span class="role">${t("schema")}</span><span class="message-start">${t("The reply must match this")}</span></summary><pre tabindex="0">${shown(call.schema)}</pre></details>`}
`;

function Attempts({ task }) {
  if (task.attempts.length < 2 && !task.failure) return null;
  return html`<section class="part"><h3>${t("Attempts")}</h3><ol class="attempts">
    ${task.attempts.map((attempt) => {
      const { failure } = attempt;
      const state = failure ? "failed" : attempt.reply ? "done" : task.state;
      return html`<li><span class=${`stand stand-${state}`}>${stateWords(state)}</span> ${attempt.end_us !== null ? duration(attempt.end_us - attempt.start_us) : ""}
        ${failure && html`<span class="attempt-why" dir="auto">${failureKind(failure.kind)}: ${serverText(failure.message)}${attempt.again_ms !== null && attempt.again_ms !== undefined ? ` (${t("again after {ms} ms", { ms: attempt.again_ms })})` : ""}</span>`}</li>`;
    })}
    ${task.state === "skipped" && task.failure && html`<li><span class="stand stand-skipped">${t("left out")}</span> <span class="attempt-why">${serverText(task.failure.message)}</span></li>`}
  </ol></section>`;
}

const failureKinds = () => ({
  network: t("network"),
  timeout: t("timeout"),
  invalid: t("invalid"),
  refused: t("refused"),
  tool: t("error of the tool"),
  limit: t("limit"),
  budget: t("budget"),
  need: t("a needed step failed"),
  reference: t("missing value"),
  in_doubt: t("unknown whether it happened"),
  cancelled: t("stopped"),
  internal: t("internal error"),
});
const failureKind = (kind) => failureKinds()[kind] ?? String(kind ?? "").replaceAll("_", " ");

function Reply({ task }) {
  const { value } = task;
  if (value === undefined) return null;
  const spans = Array.isArray(value?.spans) ? value.spans : [];
  const about = task.attempts.at(-1)?.reply?.about;
  const rest = spans.length > 0 ? (value.text ?? "") : shown(value);
  return html`
    ${spans.length > 0 &&
    html`<section class="part"><h3>${t("Evidence")}</h3><ol class="evidence">
      ${spans.map((span) => {
        const href = webAddress(span.address);
        return html`<li><p class="evidence-head" dir="auto"><strong>${span.title ?? span.source}</strong>${span.place ? ` · ${placeOf(span.place)}` : ""} ${href ? html`<a href=${href} target="_blank" rel="noopener noreferrer">${span.address}</a>` : span.address}</p><blockquote dir="auto">${span.text}</blockquote></li>`;
      })}
    </ol></section>`}
    <section class="part"><h3>${t("Reply")}</h3><pre tabindex="0" dir="auto">${clipped(rest)}</pre>${about && html`<p class="quiet">${shown(about)}</p>`}</section>
  `;
}

const clipped = (text) => (text.length > TEXT_CHARS_MAX ? `${text.slice(0, TEXT_CHARS_MAX)}\n… ${t("{n} more characters; `baton runs show` prints all of them.", { n: (text.length - TEXT_CHARS_MAX).toLocaleString(language) })}` : text);

// Two runs side by side: answers, sources, steps, cost.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { get } from "../core/api.js";
import { to } from "../core/route.js";
import { answerOf, useRun } from "../data/runs.js";
import { speaker, spent } from "../model/family.js";
import { count, duration, faultOf, labelOf, money, shown, tokens } from "../model/text.js";
import { Answer, Plain, Standing } from "./answer.js";
import { Badge } from "./badge.js";
import { stateWords } from "./graph.js";
import { TextDiff } from "./text_diff.js";
import { useEffect, useState } from "preact/hooks";

export function Compare({ left, right }) {
  const [a, b] = [useSide(left), useSide(right)];
  return html`
    <section class="room-page compare" aria-label=${t("Two runs side by side")}>
      <h1>${t("Compare")}</h1>
      <div class="compare-sides"><${Side} side=${a} /><${Side} side=${b} /></div>
      <${TextDiff} left=${a.answer?.markdown} right=${b.answer?.markdown} />
      <${Steps} a=${a} b=${b} />
    </section>
  `;
}

function useSide(run) {
  const known = useRun(run);
  const [found, setFound] = useState({});
  useEffect(() => {
    let isWanted = true;
    const set = (part) => isWanted && setFound((was) => ({ ...was, ...part }));
    setFound({});
    get(`/api/runs/${encodeURIComponent(run)}`).then((row) => set({ row }), (trouble) => set({ trouble }));
    answerOf(run).then((answer) => set({ answer }), () => set({ answer: null }));
    return () => (isWanted = false);
  }, [run]);
  return { run, known, ...found };
}

function Side({ side }) {
  const { run, known, row, answer, trouble } = side;
  if (trouble) return html`<article class="side"><p class="wrong" role="alert">${trouble.message}</p></article>`;
  if (!row) return html`<article class="side"><p role="status">${t("Loading …")}</p></article>`;
  const sum = row.spent ?? (known ? spent(known.family) : {});
  return html`
    <article class="side" aria-label=${row.title}>
      <h2 dir="auto"><a href=${to.thread(row.thread, run)}>${row.title}</a></h2>
      <p class="side-head"><${Badge} family=${known?.family} flow=${answer?.flow ?? row.flow} outcome=${row.outcome} /> <span class=${`stand stand-${row.status}`}>${stateWords(row.status)}</span></p>
      <p class="quiet">${[duration((row.elapsed_ms ?? 0) * 1_000), count(sum.calls ?? 0, "call"), tokens(sum) ? count(tokens(sum), "token") : "", money(sum.usd_micros), answer?.model].filter(Boolean).join(" · ")}</p>
      ${answer ? html`<${Standing} sentences=${answer.sentences} /><${Answer} run=${run} thread=${row.thread} answer=${answer} />` : answer === undefined ? html`<p role="status">${t("Loading the answer …")}</p>` : html`<${Plain} text=${(row.outcome?.reason ?? (row.status === "failed" ? faultOf(row.outcome) : "")) || t("There is no answer.")} />`}
    </article>
  `;
}

/// Steps beside one another in their order; what differs is marked with a word, not only with a colour.
function Steps({ a, b }) {
  const list = (side) => (side.known ? [...(speaker(side.known.family)?.tasks.values() ?? [])] : []);
  const [left, right] = [list(a), list(b)];
  const length = Math.max(left.length, right.length);
  if (length === 0) return null;
  const row = (at) => {
    const [one, other] = [left[at], right[at]];
    const isSame = one && other && one.name === other.name && shown(asked(one)) === shown(asked(other)) && shown(one.value ?? null) === shown(other.value ?? null);
    const why = !one || !other ? t("only here") : isSame ? t("the same") : shown(asked(one)) !== shown(asked(other)) ? t("asked differently") : t("answered differently");
    return html`<tr class=${isSame ? "" : "is-other"}><td>${described(one)}</td><td>${described(other)}</td><td>${why}</td></tr>`;
  };
  return html`<div class="table" tabindex="0" role="region" aria-label=${t("Steps side by side")}><table>
    <thead><tr><th scope="col">${t("Left")}</th><th scope="col">${t("Right")}</th><th scope="col">${t("Difference")}</th></tr></thead>
    <tbody>${Array.from({ length }, (_, at) => row(at))}</tbody>
  </table></div>`;
}

const asked = (task) => task.effect?.call_tool?.arguments ?? task.effect?.call_model?.messages ?? task.effect ?? null;
const described = (task) => (task ? `${labelOf(task)} (${stateWords(task.state)})` : "–");

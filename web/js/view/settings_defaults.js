// What applies to every question of this user: preferences on the server, and limits that this browser sends along.
import { html } from "../core/html.js";
import { get, patch } from "../core/api.js";
import { useCell } from "../core/cell.js";
import { t } from "../core/words.js";
import { attempt, say } from "../data/notices.js";
import { status } from "../data/status.js";
import { setAskOptions, askOptions } from "../data/ask_options.js";
import { useEffect, useState } from "preact/hooks";

/// What flows take from a user's preferences. The server refuses any other.
const preferences = () => [
  { name: "way", title: t("How to answer"), about: t("where no rule applies"), choices: [[null, t("Decided for each question")], ["direct", t("Directly")], ["agentic", t("With a plan and searches")]] },
  { name: "strict", title: t("Sentences without support"), about: t("in every conversation"), choices: [[null, t("As set for each question")], [false, t("Marked")], [true, t("Removed")]] },
];

export function Preferences() {
  const [known, setKnown] = useState(null);
  useEffect(() => {
    get("/api/settings").then(setKnown, (trouble) => setKnown({ trouble }));
  }, []);
  const put = (name, value) =>
    attempt(async () => {
      setKnown(await patch("/api/settings", { [name]: value }));
      say(t("Saved."));
    });
  return html`<section class="setting"><h2>${t("Preferences")}</h2>
    ${known?.trouble && html`<p class="trouble" role="alert">${known.trouble.message}</p>`}
    ${preferences().map(({ name, title, about, choices }) => {
      const at = Math.max(0, choices.findIndex(([value]) => value === (known?.[name] ?? null)));
      return html`<label class="preference"><span>${title} <small>${about}</small></span>
        <select value=${at} disabled=${!known || known.trouble} onChange=${(event) => put(name, choices[Number(event.target.value)][0])}>${choices.map(([, words], index) => html`<option value=${index} selected=${index === at}>${words}</option>`)}</select></label>`;
    })}</section>`;
}

const limits = () => [["tokens", t("Tokens"), "1"], ["usd", t("US dollars"), "0.01"], ["time_s", t("Seconds"), "1"], ["calls", t("Calls"), "1"]];

export function Limits() {
  const { budget } = useCell(askOptions);
  const allowance = useCell(status)?.allowance ?? null;
  return html`<section class="setting" aria-labelledby="limits"><h2 id="limits">${t("Limits for each question")}</h2>
    <p class="quiet">${t("The same as under Options of the question. An answer that a limit ended says so.")}</p>
    <div class="limits">${limits().map(([name, title, step]) => html`<label><span>${title}</span><input type="number" min="0" step=${step} placeholder=${t("no limit")} value=${budget[name] ?? ""} onInput=${(event) => setAskOptions({ budget: { ...budget, [name]: event.target.value } })} /></label>`)}</div>
    ${allowance && html`<p>${t("Today: {usd}, {tokens} tokens, {runs} runs.", { usd: `$${allowance.usd_today.toFixed(2)}${allowance.usd_per_day ? ` / $${allowance.usd_per_day}` : ""}`, tokens: `${allowance.tokens_today}${allowance.tokens_per_day ? ` / ${allowance.tokens_per_day}` : ""}`, runs: `${allowance.runs_today}${allowance.runs_per_day ? ` / ${allowance.runs_per_day}` : ""}` })}</p>`}
  </section>`;
}

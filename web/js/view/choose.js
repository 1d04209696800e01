// Which other run to compare with: first the one it was branched from, then the newest.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { get } from "../core/api.js";
import { useEscape } from "../core/escape.js";
import { to } from "../core/route.js";
import { ago, words } from "../model/text.js";
import { Icon } from "./icons.js";
import { useEffect, useState } from "preact/hooks";

export function CompareWith({ run, close }) {
  const [runs, setRuns] = useState(null);
  const [trouble, setTrouble] = useState(null);
  useEscape(true, close);
  const origin = sessionStorage.getItem(`baton.branch.${run.run}`);
  useEffect(() => {
    get("/api/runs?limit=100").then(
      (page) => setRuns(page.runs.filter((one) => !one.parent && one.run !== run.run)),
      (error) => setTrouble(error),
    );
  }, [run.run]);
  const sorted = (runs ?? []).toSorted((a, b) => rank(b, run, origin) - rank(a, run, origin)).slice(0, 20);
  return html`
    <div class="choose" role="group" aria-label=${t("Compare with")}>
      <div class="choose-head"><h3>${t("Compare with")}</h3><button type="button" class="button-icon" aria-label=${t("Close")} onClick=${close}><${Icon} name="close" size="16" /></button></div>
      ${trouble && html`<p class="wrong" role="alert">${trouble.message}</p>`}
      ${!runs && !trouble && html`<p role="status">${t("Loading the runs …")}</p>`}
      ${runs && sorted.length === 0 && html`<p class="quiet">${t("There is no other run yet. Ask again with another flow or model, or branch from a step.")}</p>`}
      <ul>${sorted.map((one) => html`<li><a href=${to.compare(run.run, one.run)}><span dir="auto">${one.title}</span><small>${one.run === origin ? `${t("branched from this one")} · ` : ""}${words(one.flow)} · ${words(one.status)} · ${ago(one.created_ms)}</small></a></li>`)}</ul>
    </div>
  `;
}

const rank = (one, run, origin) => (one.run === origin ? 4e15 : 0) + (one.title === run.title ? 2e15 : 0) + (one.thread === run.thread ? 1e15 : 0) + one.created_ms / 10;

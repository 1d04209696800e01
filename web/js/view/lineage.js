// All branches of a conversation as a list: how each begins to differ, and the way to it.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { branchesOf, choicesTo, idOf } from "../model/branches.js";
import { atTime } from "../model/text.js";
import { Icon } from "./icons.js";
import { Menu } from "./menu.js";

const BRANCHES_MAX = 50;

export function Lineage({ turns, after, path, show }) {
  const branches = branchesOf(turns, after, path).slice(0, BRANCHES_MAX);
  if (branches.length < 2) return null;
  const byId = new Map(turns.map((turn, at) => [idOf(turn, at), turn]));
  const current = path.at(-1)?.id;
  return html`<${Menu} title=${t("{n} branches", { n: branches.length })} icon="branch">
    ${branches.map(({ id, length, shared }) => {
      const turn = byId.get(id);
      const isHere = id === current;
      return html`<li key=${id}><button type="button" class="lineage" aria-current=${isHere ? "true" : undefined} onClick=${() => show(choicesTo(turns, after, id))}>
        <span dir="auto">${isHere && html`<${Icon} name="check" size="14" />`}${turn.question || t("Untitled")}</span>
        <small>${isHere ? t("shown now") : t("differs after turn {n}", { n: shared })} · ${t("{n} turns", { n: length })}${turn.run ? ` · ${atTime(turn.run.created_ms)}` : ""}</small>
      </button></li>`;
    })}
  <//>`;
}

// How a message was taken: the intent or the flow, with its icon, above the answer.
import { html } from "../core/html.js";
import { serverText, t } from "../core/words.js";
import { flowNamed } from "../data/status.js";
import { note, speaker } from "../model/family.js";
import { titled } from "../model/text.js";
import { Icon, hasIcon } from "./icons.js";

const intents = () => ({
  search: { icon: "search", title: t("Search") },
  summarize: { icon: "summarize", title: t("Summarize") },
  conversation_query: { icon: "conversation", title: t("Conversation Query") },
});

/// The best known label: the intent that a flow noted, else the flow that `auto` selected, else the one that the request named.
export function takenAs(family, flow, outcome) {
  const run = family && speaker(family);
  const intent = note(run, "intent") ?? outcome?.output?.intent;
  const name = typeof intent === "string" ? intent : intent?.intent;
  if (name) return { ...(intents()[name] ?? { icon: "node", title: titled(name) }), why: intent.by ? t("decided by {by}", { by: serverText(intent.by) }) : "" };
  const root = family?.runs.get(family.root);
  const chosen = note(root, "flow");
  // Until `auto` has selected a flow, there is nothing to show.
  const taken = chosen?.flow ?? (run?.flow || outcome?.output?.flow || flow) ?? "auto";
  return { ...ofFlow(taken), ...(taken === "auto" ? { title: t("Auto") } : {}), why: serverText(chosen?.why ?? "") };
}

export function ofFlow(name) {
  const known = flowNamed(name);
  const icon = [known?.icon, name].find((one) => one && hasIcon(one)) ?? "node";
  return { icon, title: known?.title ?? titled(name), about: known?.about ?? "" };
}

export const Badge = ({ family, flow, outcome }) => {
  const { icon, title, why } = takenAs(family, flow, outcome);
  return html`<span class="badge" title=${why || undefined}><${Icon} name=${icon} size="15" />${title}${why ? html`<span class="hidden">, ${why}</span>` : null}</span>`;
};

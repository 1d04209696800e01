// The sources that a conversation may use: everything, or only some servers, tools and documents. Kept in this browser for each conversation.
import { get } from "../core/api.js";
import { cell } from "../core/cell.js";
import { keep, kept } from "../core/kept.js";

const THREADS_MAX = 200;
/// What is chosen before a conversation has a name.
const NEW = "";

/// `{thread: [name]}`: `server`, `server.tool` or `document:NAME`. A conversation without an entry uses everything.
export const chosenSources = cell(kept("sources", {}));

export const onlyOf = (thread) => chosenSources.value[thread ?? NEW] ?? null;

/// `null` is everything again.
export function setOnly(thread, only) {
  const { [thread ?? NEW]: _, ...others } = chosenSources.value;
  const rest = Object.fromEntries(Object.entries(others).slice(-(THREADS_MAX - 1)));
  chosenSources.value = only === null ? rest : { ...rest, [thread ?? NEW]: only };
  keep("sources", chosenSources.value);
}

/// What was chosen for a new conversation belongs to it from now on; the next one begins with everything.
export function nameSources(thread) {
  const only = onlyOf(null);
  if (only === null) return;
  setOnly(null, null);
  setOnly(thread, only);
}

/// Everything that can be chosen: `{servers: [name], documents: [name]}`. Tools are a list of the operator; others see documents only.
export async function loadSources() {
  const [tools, documents] = await Promise.allSettled([get("/api/registry/servers"), get("/api/documents")]);
  const servers = tools.status === "fulfilled" ? (tools.value?.servers ?? []).filter((one) => one.enabled !== false).map((one) => one.name) : [];
  const files = documents.status === "fulfilled" ? (documents.value?.files ?? []).map((file) => file.name) : [];
  const folders = documents.status === "fulfilled" ? (documents.value?.folders ?? []) : [];
  return { servers, files, folders };
}

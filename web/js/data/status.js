// What the server is and can: flows, models, documents. Loaded at the beginning and after every lost line.
import { get } from "../core/api.js";
import { cell } from "../core/cell.js";
import { line } from "../core/stream.js";
import { serverText } from "../core/words.js";

export const status = cell(null);
export const models = cell(null);

/// The server's own texts, in the language of the page.
const inWords = (reply) => ({
  ...reply,
  model: reply.model && { ...reply.model, why: serverText(reply.model.why) },
  flows: reply.flows?.map((flow) => ({ ...flow, title: serverText(flow.title), about: serverText(flow.about), settings: flow.settings?.map((one) => ({ ...one, help: serverText(one.help) })) })),
});

const modelsInWords = (reply) => ({
  ...reply,
  chosen: reply.chosen && { ...reply.chosen, why: serverText(reply.chosen.why) },
  options: reply.options?.map((one) => ({ ...one, title: serverText(one.title), detail: serverText(one.detail), todo: serverText(one.todo) })),
});

export async function loadStatus() {
  try {
    status.value = inWords(await get("/api/status"));
  } catch (trouble) {
    status.value = status.value ?? { trouble };
  }
}

export async function loadModels() {
  try {
    models.value = modelsInWords(await get("/api/models"));
  } catch (trouble) {
    models.value = { trouble, options: [] };
  }
}

line.listen((now) => {
  if (!now.isLost) loadStatus();
});

export const flowNamed = (name) => status.value?.flows?.find((flow) => flow.name === name) ?? null;

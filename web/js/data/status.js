// What the server is and can: flows, models, documents. Loaded at the beginning and after every lost line.
import { get } from "../core/api.js";
import { cell } from "../core/cell.js";
import { line } from "../core/stream.js";

export const status = cell(null);
export const models = cell(null);

export async function loadStatus() {
  try {
    status.value = await get("/api/status");
  } catch (trouble) {
    status.value = status.value ?? { trouble };
  }
}

export async function loadModels() {
  try {
    models.value = await get("/api/models");
  } catch (trouble) {
    models.value = { trouble, options: [] };
  }
}

line.listen((now) => {
  if (!now.isLost) loadStatus();
});

export const flowNamed = (name) => status.value?.flows?.find((flow) => flow.name === name) ?? null;

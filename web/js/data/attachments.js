// Text that is too long for a question becomes a document of the user, and the question names it.
import { get, remove, upload } from "../core/api.js";

/// The server's limit on a question, in bytes.
export const QUESTION_BYTES_MAX = 32_768;
const INDEXED_MS_MAX = 30_000;
const LOOK_MS = 500;

export const byteLength = (text) => new TextEncoder().encode(text).length;

/// `{name, bytes}` of a new document with this text. `changed(state)` is called with "sending", "indexing" and "ready".
export async function attachText(text, changed) {
  const name = `pasted-${new Date().toISOString().slice(0, 19).replaceAll(/[:T]/g, "-")}.txt`;
  changed({ name, state: "sending" });
  await upload(`/api/documents/${encodeURIComponent(name)}`, new Blob([text], { type: "text/plain" }), () => {});
  changed({ name, state: "indexing" });
  await indexed(name);
  changed({ name, state: "ready" });
}

/// The same for a file, under its own name.
export async function attachFile(file, changed) {
  const { name } = file;
  changed({ name, state: "sending" });
  await upload(`/api/documents/${encodeURIComponent(name)}`, file, () => {});
  changed({ name, state: "indexing" });
  await indexed(name);
  changed({ name, state: "ready" });
}

async function indexed(name) {
  for (const until = Date.now() + INDEXED_MS_MAX; Date.now() < until; ) {
    const { files = [] } = await get("/api/documents");
    if (files.some((file) => file.name === name && file.state !== "waiting")) return;
    await new Promise((done) => setTimeout(done, LOOK_MS));
  }
}

export const detach = (name) => remove(`/api/documents/${encodeURIComponent(name)}`);

/// A question with the names of its attachments.
export function withAttachments(question, names) {
  if (names.length === 0) return question;
  return `${question}\n\n${names.length === 1 ? "Attached document" : "Attached documents"}: ${names.join(", ")}`;
}

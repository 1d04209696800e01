// What can be done with a whole conversation: name it, pin it, tag it, share it.
import { get, patch, post, remove } from "../core/api.js";
import { reload } from "./conversation.js";
import { changed } from "./threads.js";

const at = (thread, more = "") => `/api/threads/${encodeURIComponent(thread)}${more}`;

/// `change`: any of `{title, is_pinned, tags}`.
export async function changeThread(thread, change) {
  const row = await patch(at(thread), change);
  changed(row);
  reload();
  return row;
}

export const sharesOf = async (thread) => (await get(at(thread, "/shares"))).shares;
export const share = (thread, runs) => post(at(thread, "/shares"), { runs });
export const revoke = (thread, id) => remove(at(thread, `/shares/${encodeURIComponent(id)}`));
export const exportPath = (thread, ending, runs) => at(thread, `/export/${ending}${runs.length > 0 ? `?runs=${runs.map(encodeURIComponent).join(",")}` : ""}`);

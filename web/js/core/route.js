// Where the page is: the part of the address behind `#`. Everything a person can look at has an address that can be kept and sent.
//
//   #/                       a new conversation
//   #/t/THREAD[/RUN]         a conversation, and the run to look at in it
//   #/compare/RUN/RUN        two runs side by side
//   #/documents #/tools #/flows #/settings
import { cell } from "./cell.js";

const ROOMS = ["documents", "tools", "flows", "settings"];

export function parse(hash) {
  const [room, ...rest] = hash.replace(/^#?\/?/, "").split("/").map(unescaped);
  if (room === "t" && rest[0]) return { room: "thread", thread: rest[0], run: rest[1] ?? null };
  if (room === "compare" && rest[0] && rest[1]) return { room: "compare", left: rest[0], right: rest[1] };
  if (ROOMS.includes(room)) return { room };
  return { room: "new" };
}

export const to = {
  fresh: () => "#/",
  thread: (thread, run) => `#/t/${encodeURIComponent(thread)}${run ? `/${encodeURIComponent(run)}` : ""}`,
  compare: (left, right) => `#/compare/${encodeURIComponent(left)}/${encodeURIComponent(right)}`,
  room: (name) => `#/${name}`,
};

export const route = cell(parse(location.hash));
addEventListener("hashchange", () => (route.value = parse(location.hash)));

export function go(hash, { replace = false } = {}) {
  if (replace) {
    history.replaceState(null, "", hash);
    route.value = parse(hash);
  } else location.hash = hash;
}

function unescaped(part) {
  try {
    return decodeURIComponent(part);
  } catch (_) {
    return part;
  }
}

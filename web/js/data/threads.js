// All past conversations, newest first, loaded as far as somebody scrolls, and kept true by the server's feed.
import { get, remove } from "../core/api.js";
import { cell } from "../core/cell.js";
import { follow } from "../core/stream.js";

const PAGE = 100;
/// Changes that come together are drawn together.
const GATHER_MS = 80;

export const threads = cell({ list: [], next: null, query: "", isLoading: true, isLoaded: false, trouble: null });

let turn = 0;

export function begin() {
  load("");
  let isFirst = true;
  follow("/api/feed", applyFeedEvent, {
    isKept: () => isFeedKept(),
    begun() {
      // What changed while the line was lost is in the first page.
      if (!isFirst) refresh();
      isFirst = false;
    },
  });
}

/// Whether changes are wanted while nobody looks at the page.
let isFeedKept = () => false;
export const keepFeedWhile = (isWanted) => (isFeedKept = isWanted);

export function search(query) {
  if (query !== threads.value.query) load(query);
}

export const refresh = () => load(threads.value.query, true);

async function load(query, isQuiet = false) {
  const mine = (turn += 1);
  set({ query, isLoading: true, trouble: null, ...(isQuiet ? {} : { list: query === threads.value.query ? threads.value.list : [], next: null }) });
  try {
    const [page, pinned] = await Promise.all([get(address(query, null)), query ? { threads: [] } : get("/api/threads?pinned=true")]);
    if (mine !== turn) return;
    page.threads = merged(page.threads, pinned.threads);
    if (!isQuiet || threads.value.list.length <= page.threads.length) set({ list: page.threads, next: page.next, isLoading: false, isLoaded: true });
    else set({ list: merged(threads.value.list, page.threads), isLoading: false, isLoaded: true });
  } catch (trouble) {
    if (mine === turn) set({ isLoading: false, isLoaded: true, trouble });
  }
}

export async function more() {
  const { next, isLoading, query } = threads.value;
  if (!next || isLoading) return;
  const mine = turn;
  set({ isLoading: true });
  try {
    const page = await get(address(query, next));
    if (mine !== turn) return;
    const known = new Set(threads.value.list.map((one) => one.thread));
    set({ list: [...threads.value.list, ...page.threads.filter((one) => !known.has(one.thread))], next: page.next, isLoading: false });
  } catch (trouble) {
    if (mine === turn) set({ isLoading: false, trouble });
  }
}

export async function forget(thread) {
  await remove(`/api/threads/${encodeURIComponent(thread)}`);
  gone(thread);
}

const address = (query, before) => {
  const wanted = new URLSearchParams({ limit: String(PAGE) });
  if (before) wanted.set("before", before);
  if (tagOf(query)) wanted.set("tag", tagOf(query));
  else if (query) wanted.set("q", query);
  return `/api/threads?${wanted}`;
};

const listeners = new Set();

/// Receives every thread that changed.
export function onThread(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

let gathered = new Map();

function applyFeedEvent({ event, data }) {
  if (event === "gone") gone(data.thread);
  if (event !== "thread") return false;
  for (const listener of listeners) listener(data);
  if (gathered.size === 0) {
    setTimeout(() => {
      const changed = [...gathered.values()];
      gathered = new Map();
      const { list, query } = threads.value;
      // While somebody searches, only what they see is renewed.
      const known = new Set(list.map((one) => one.thread));
      set({ list: merged(list, query ? changed.filter((one) => known.has(one.thread)) : changed) });
    }, GATHER_MS);
  }
  gathered.set(data.thread, data);
  return false;
}

function merged(list, changed) {
  const names = new Set(changed.map((one) => one.thread));
  const rest = list.filter((one) => !names.has(one.thread));
  return [...changed, ...rest].sort((a, b) => Number(b.is_pinned ?? false) - Number(a.is_pinned ?? false) || b.updated_ms - a.updated_ms);
}

/// A thread that was changed here.
export const changed = (row) => set({ list: merged(threads.value.list, [row]) });

/// Only conversations with a tag; a word that begins with # asks for one.
const tagOf = (query) => (/^#\S+$/.test(query) ? query.slice(1) : null);

function gone(thread) {
  set({ list: threads.value.list.filter((one) => one.thread !== thread) });
}

function set(change) {
  threads.value = { ...threads.value, ...change };
}

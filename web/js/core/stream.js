// A stream of server-sent events that does not end when the line does.
//
//   follow(path, on) ── open ──► reading ── cut ──► waits 0.3 s, 0.6 s … 5 s ──► open with the last cursor
//                                   └── on(event) returns true, or stop() ──► over
//
// A hidden tab closes its connections and resumes them when it is shown: a browser allows six to a server, for all tabs together.
//
// `fetch` and not `EventSource`: that one gives up for good on any status but 200, which is what a server that is being restarted behind
// something else answers, and it cannot say that a token is wanted.
import { needsToken } from "./api.js";
import { cell } from "./cell.js";

const WAIT_MS_MIN = 300;
const WAIT_MS_MAX = 5_000;
/// The server sends a comment every 15 s; a connection without data for longer is treated as lost.
const SILENT_MS_MAX = 40_000;
const HIDDEN_MS_MAX = 20_000;

/// How the lines to the server are: `{isLost, since_ms, again_ms}`. One that is lost is enough.
export const line = cell({ isLost: false });
const lost = new Map();

/// `on(event)` gets `{id, event, data}` and answers `true` when nothing more is wanted.
/// `begun` is called after every reconnection. Returns `stop()`.
/// With `isKept`, the line stays while the tab is hidden, as long as that answers `true`.
export function follow(path, on, { after = null, begun = () => {}, isKept = () => false } = {}) {
  const self = { isKept, cursor: after, isOver: false, waits: 0, wake: () => {}, abort: null };
  run(self, path, on, begun);
  return () => stop(self);
}

/// Everybody who waits tries at once.
export function tryNow() {
  for (const self of lost.keys()) self.wake();
}

function stop(self) {
  self.isOver = true;
  self.abort?.abort();
  self.wake();
  settle(self, null);
}

async function run(self, path, on, begun) {
  open.add(self);
  while (!self.isOver) {
    const end = await read(self, path, on, begun);
    if (self.isOver || end === "enough" || end === "gone") break;
    if (!self.isKept()) await untilSeen();
    if (end === "token") {
      await until((done) => needsToken.listen((needed) => !needed && done()));
      continue;
    }
    // A server that closed a line on purpose is asked again soon; one that cannot be reached, ever less often.
    self.waits += 1;
    const wait_ms = Math.min(WAIT_MS_MAX, WAIT_MS_MIN * 2 ** Math.min(self.waits - 1, 5));
    if (self.waits > 1 || end === "unreachable") settle(self, Date.now() + wait_ms);
    await until((done) => {
      self.wake = done;
      setTimeout(done, wait_ms);
    });
  }
  self.isOver = true;
  open.delete(self);
  settle(self, null);
}

const open = new Set();
let leaving = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(leaving);
  if (document.hidden) leaving = setTimeout(() => open.forEach((self) => self.isKept() || self.abort?.abort()), HIDDEN_MS_MAX);
});

async function untilSeen() {
  if (!document.hidden) return;
  await until((done) => document.addEventListener("visibilitychange", done, { once: true }));
}

const until = (begin) => new Promise((done) => begin(done));

async function read(self, path, on, begun) {
  const abort = new AbortController();
  self.abort = abort;
  let silence;
  const restartTimer = () => {
    clearTimeout(silence);
    silence = setTimeout(() => abort.abort(), SILENT_MS_MAX);
  };
  try {
    restartTimer();
    const headers = { Accept: "text/event-stream" };
    if (self.cursor !== null) headers["Last-Event-ID"] = self.cursor;
    const response = await fetch(path, { headers, signal: abort.signal, cache: "no-store" });
    if (response.status === 401) {
      needsToken.value = true;
      return "token";
    }
    if (response.status === 404) return "gone";
    if (!response.ok || !response.body) return "unreachable";
    self.waits = 0;
    settle(self, null);
    begun();
    const parse = parser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return "closed";
      restartTimer();
      for (const event of parse(value)) {
        if (event.id !== null) self.cursor = event.id;
        if (!self.isOver && event.event !== null && on(event)) return "enough";
      }
    }
  } catch (_) {
    return "unreachable";
  } finally {
    clearTimeout(silence);
    abort.abort();
  }
}

/// Takes pieces of a stream as they come and gives back the events that are whole.
export function parser() {
  let rest = "";
  let event = empty();
  return (piece) => {
    const whole = [];
    const lines = (rest + piece).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const text = line.endsWith("\r") ? line.slice(0, -1) : line;
      if (text === "") {
        if (event.data.length > 0) whole.push({ id: event.id, event: event.event ?? "message", data: json(event.data.join("\n")) });
        event = empty();
        continue;
      }
      const [, field, value] = /^([^:]*):? ?([\s\S]*)$/.exec(text);
      if (field === "data") event.data.push(value);
      else if (field === "event") event.event = value;
      else if (field === "id") event.id = value;
    }
    return whole;
  };
}

const empty = () => ({ id: null, event: null, data: [] });

function json(text) {
  try {
    return JSON.parse(text);
  } catch (_) {
    return text;
  }
}

function settle(self, again_ms) {
  if (again_ms === null) lost.delete(self);
  else lost.set(self, again_ms);
  if (lost.size === 0) {
    if (line.value.isLost) line.value = { isLost: false };
    return;
  }
  const since_ms = line.value.since_ms ?? Date.now();
  line.value = { isLost: true, since_ms, again_ms: Math.min(...lost.values()) };
}

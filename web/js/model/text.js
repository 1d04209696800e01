// Numbers and times as people read them.
import { language, serverText, t } from "../core/words.js";

export function duration(us) {
  if (us === null || us === undefined || Number.isNaN(us)) return "";
  const ms = us / 1_000;
  if (ms < 1) return "<1 ms";
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const s = ms / 1_000;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  const rest = Math.round(s % 60);
  return `${Math.floor(s / 60)} min${rest ? ` ${rest} s` : ""}`;
}

export function money(usd_micros) {
  if (!usd_micros) return "";
  const usd = usd_micros / 1e6;
  if (usd < 0.0001) return "<$0.0001";
  return `$${usd < 0.01 ? usd.toFixed(4) : usd.toFixed(2)}`;
}

/// `units` of the catalogue are `{n} token`, `{n} tokens` and so on.
export const count = (n, one, many = `${one}s`) => t(`{n} ${n === 1 ? one : many}`, { n: n.toLocaleString(language) });

export function bytes(n) {
  if (n < 1_000) return `${n} B`;
  if (n < 1e6) return `${(n / 1e3).toFixed(n < 1e4 ? 1 : 0)} kB`;
  return `${(n / 1e6).toFixed(1)} MB`;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/// How long ago, short enough for a list.
export function ago(at_ms, now_ms = Date.now()) {
  const past = now_ms - at_ms;
  if (past < MINUTE) return t("now");
  if (past < HOUR) return t("{n} min", { n: Math.floor(past / MINUTE) });
  if (past < DAY) return t("{n} h", { n: Math.floor(past / HOUR) });
  if (past < 7 * DAY) return t("{n} d", { n: Math.floor(past / DAY) });
  const at = new Date(at_ms);
  const isThisYear = at.getFullYear() === new Date(now_ms).getFullYear();
  return at.toLocaleDateString(language, isThisYear ? { day: "numeric", month: "short" } : { day: "numeric", month: "short", year: "numeric" });
}

const LIMITS = { tokens: (n) => count(n, "token"), usd_micros: (n) => money(n) || "$0", calls: (n) => count(n, "call"), time_ms: (n) => duration(n * 1_000) };

/// `calls_max = 3 is used up: …` as the engine writes it, in words for a person.
export const limitsInWords = (text) =>
  String(text).replace(/\b(tokens|usd_micros|calls|time_ms)_max = (\d+) is used up(?:: \d+ spent or promised, \d+ kept for the answer, \d+ wanted| \(\d+ ms kept for the answer\))?/g, (_, name, max) => t("the limit of {limit} was reached", { limit: LIMITS[name](Number(max)) }));

/// Why a run failed, as a sentence: messages of the server begin in small letters. Empty where it has no message.
export function faultOf(outcome) {
  const fault = outcome?.fault ?? outcome;
  const why = fault?.why ?? fault?.message ?? (fault ? JSON.stringify(fault) : "");
  return serverText(limitsInWords(why)).replace(/^./u, (letter) => letter.toUpperCase());
}

/// The beginning of a Markdown text on one line, without its marks.
export const withoutMarks = (markdown) =>
  markdown
    .replace(/^#{1,6}\s+|^>\s?|^[-*+]\s+/gm, "")
    .replace(/\*\*|__|`+|\|/g, " ")
    .replace(/\s+/g, " ")
    .trim();

export const atTime = (ms) => new Date(ms).toLocaleString(language, { dateStyle: "medium", timeStyle: "short" });

export const tokens = (spent) => (spent?.tokens_in ?? 0) + (spent?.tokens_out ?? 0);

/// `look_up` is read as "look up".
export const words = (name) => String(name ?? "").replaceAll("_", " ");

const units = () => ({ line: t("line {from}"), lines: t("lines {from}-{to}"), page: t("page {from}"), pages: t("pages {from}-{to}"), paragraph: t("paragraph {from}"), paragraphs: t("paragraphs {from}-{to}") });

/// `Measures, lines 7-9`, the place of a passage, in the language of the page.
export const placeOf = (place) => String(place ?? "").replace(/\b(lines?|pages?|paragraphs?) (\d+)(?:-(\d+))?$/, (_, unit, from, to) => units()[unit].replace("{from}", from).replace("{to}", to ?? from));

/// A step as people read it.
export const labelOf = (task) => serverText(words(task.label || task.name));

const kinds = () => ({ model: t("Model"), tool: t("Tool"), agent: t("Agent"), person: t("Person") });

/// What a task is: a call of a model, a tool or an agent, or a question to a person.
export const kindOf = (task) => kinds()[task.kind] ?? titled(task.kind);

export const titled = (name) => words(name).replace(/(^|\s)\S/g, (letter) => letter.toUpperCase());

/// A value as somebody would type it: words as they are, everything else as JSON.
export const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

/// Only addresses that a browser may open from here.
export function webAddress(address) {
  try {
    const url = new URL(address);
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
  } catch (_) {
    return null;
  }
}

// The words of the page in the chosen language. The English text is the key; `words/catalogue.js` has the German and the Chinese for each, and is loaded only
// when one of them is chosen. A text without a translation stays English.
//
//   t("Search conversations")      t("{n} of {all}", { n: 2, all: 5 })
//   serverText("planning")         serverText("section 2 of 3: History")
//
// Texts that the server writes are in `words/server.js`; a key with places, `section {n} of {all}: {heading}`, stands for every text of that form.

export const LANGUAGES = [
  ["en", "English"],
  ["de", "Deutsch"],
  ["zh", "中文"],
];

const known = (code) => LANGUAGES.some(([one]) => one === code);

/// The chosen language, or that of the browser if the page has it.
export const language = chosen();

let table = {};
let ofServer = {};
let column = -1;

export function t(text, values = null) {
  const translated = column < 0 ? text : (table[text]?.[column] ?? text);
  return values === null ? translated : translated.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/// A text that the server wrote, for people: the label of a step, what a flow is for, why something failed. One that is not known stays as it is.
export function serverText(text) {
  if (column < 0 || typeof text !== "string" || text === "") return text;
  const known = ofServer.TEXTS[text] ?? table[text];
  if (known) return known[column];
  for (const [form, names, translations] of ofServer.forms) {
    const found = text.length <= SERVER_TEXT_CHARS_MAX && form.exec(text);
    if (found) return translations[column].replace(/\{(\w+)\}/g, (whole, name) => serverText(found[names.indexOf(name) + 1] ?? whole));
  }
  return text;
}

/// Longer texts are not compared with forms.
const SERVER_TEXT_CHARS_MAX = 2_000;

/// The keys with places, as expressions.
export function formsOf(texts) {
  const forms = [];
  for (const [key, translations] of Object.entries(texts)) {
    const names = [...key.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    if (names.length === 0) continue;
    const parts = key.split(/\{\w+\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    forms.push([new RegExp(`^${parts.join("([^]+?)")}$`), names, translations]);
  }
  return forms;
}

/// Called once, before anything is drawn.
export async function loadWords() {
  document.documentElement.lang = language;
  if (language === "en") return;
  const [{ LANGUAGES: columns, CATALOGUE }, { TEXTS }] = await Promise.all([import("../words/catalogue.js"), import("../words/server.js")]);
  table = CATALOGUE;
  ofServer = { TEXTS, forms: formsOf(TEXTS) };
  column = columns.indexOf(language);
}

export function setLanguage(code) {
  try {
    localStorage.setItem("baton.language", code);
  } catch (_) {
    // Then the browser's language applies.
  }
  location.reload();
}

function chosen() {
  try {
    const kept = localStorage.getItem("baton.language");
    if (known(kept)) return kept;
  } catch (_) {
    // A browser that keeps nothing, or no browser at all.
  }
  return "en";
}

// The words of the page in the chosen language. The English text is the key; `words/catalogue.js` has the German and the Chinese for each, and is loaded only
// when one of them is chosen. A text without a translation stays English.
//
//   t("Search conversations")      t("{n} of {all}", { n: 2, all: 5 })

export const LANGUAGES = [
  ["en", "English"],
  ["de", "Deutsch"],
  ["zh", "中文"],
];

const known = (code) => LANGUAGES.some(([one]) => one === code);

/// The chosen language, or that of the browser if the page has it.
export const language = chosen();

let table = {};
let column = -1;

export function t(text, values = null) {
  const translated = column < 0 ? text : (table[text]?.[column] ?? text);
  return values === null ? translated : translated.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/// Called once, before anything is drawn.
export async function loadWords() {
  document.documentElement.lang = language;
  if (language === "en") return;
  const { LANGUAGES: columns, CATALOGUE } = await import("../words/catalogue.js");
  column = columns.indexOf(language);
  table = CATALOGUE;
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

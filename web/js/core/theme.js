// Light, dark, or that of the system. The choice is one attribute; `early.js` sets it before the first paint.
import { cell } from "./cell.js";

const THEMES = ["system", "light", "dark"];

function read() {
  try {
    const theme = localStorage.getItem("baton.theme");
    return THEMES.includes(theme) ? theme : "system";
  } catch (_) {
    return "system";
  }
}

export const theme = cell(read());

export function setTheme(next) {
  theme.value = next;
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("baton.theme", next);
  } catch (_) {
    // Then it holds until the page is closed.
  }
}

export function isDark() {
  if (theme.value !== "system") return theme.value === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

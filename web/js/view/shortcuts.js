// Keyboard shortcuts of the page, and the sheet that lists them. They do nothing while somebody types.
import { html } from "../core/html.js";
import { go, to } from "../core/route.js";
import { t } from "../core/words.js";
import { Dialog } from "./dialog.js";
import { useLayoutEffect, useState } from "preact/hooks";

const press = (selector) => document.querySelector(selector)?.click();
const last = (selector) => [...document.querySelectorAll(selector)].at(-1);

function step(by) {
  const turns = [...document.querySelectorAll(".turn[data-turn]")];
  const box = document.querySelector(".turns");
  if (!box || turns.length === 0) return;
  const top = box.getBoundingClientRect().top;
  const at = turns.findLastIndex((turn) => turn.getBoundingClientRect().top <= top + 30);
  turns[Math.max(0, Math.min(turns.length - 1, at + by))].scrollIntoView({ block: "start" });
}

/// The key, what it does in words, and the deed.
const SHORTCUTS = [
  ["?", () => t("Show this list"), null],
  ["/", () => t("Go to the question"), () => document.getElementById("question")?.focus()],
  ["s", () => t("Search the conversations"), () => document.querySelector(".sidebar input[type=search]")?.focus()],
  ["n", () => t("New conversation"), () => go(to.fresh())],
  ["j", () => t("Next turn"), () => step(1)],
  ["k", () => t("Previous turn"), () => step(-1)],
  ["l", () => t("Jump to latest"), () => (press(".latest button"), last(".turn")?.scrollIntoView({ block: "end" }))],
  ["r", () => t("Regenerate the last answer"), () => last(".turn .actions [data-act=again]")?.click()],
  ["e", () => t("Edit the last question"), () => last(".turn .actions [data-act=edit]")?.click()],
  [",", () => t("Settings"), () => go(to.room("settings"))],
];

const isTyping = (element) => element?.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(element?.tagName) || element?.closest("dialog");

export function Shortcuts() {
  const [isOpen, setOpen] = useState(false);
  useLayoutEffect(() => {
    const onKey = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented || isTyping(event.target)) return;
      const found = SHORTCUTS.find(([key]) => key === event.key);
      if (!found) return;
      event.preventDefault();
      if (found[2]) found[2]();
      else setOpen(true);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  if (!isOpen) return null;
  return html`<${Dialog} title=${t("Keyboard shortcuts")} close=${() => setOpen(false)}><div class="shortcuts"><dl>
    ${SHORTCUTS.map(([key, words]) => html`<dt><kbd>${key}</kbd></dt><dd>${words()}</dd>`)}
    <dt><kbd>Enter</kbd></dt><dd>${t("Send the question")}</dd>
    <dt><kbd>Shift</kbd> <kbd>Enter</kbd></dt><dd>${t("New line in the question")}</dd>
    <dt><kbd>Esc</kbd></dt><dd>${t("Close what was opened last")}</dd>
  </dl></div><//>`;
}

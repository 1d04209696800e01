// A button that opens a short list. A click on one of its items, a click elsewhere and Escape close it; Escape gives the focus back to the button.
import { html } from "../core/html.js";
import { useEscape } from "../core/escape.js";
import { Icon } from "./icons.js";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export function Menu({ title, icon, children }) {
  const [isOpen, setOpen] = useState(false);
  const box = useRef(null);
  useEscape(isOpen, () => {
    setOpen(false);
    box.current.querySelector("summary").focus();
  });
  useLayoutEffect(() => {
    if (!isOpen) return undefined;
    const press = (event) => box.current?.contains(event.target) || setOpen(false);
    document.addEventListener("pointerdown", press);
    return () => document.removeEventListener("pointerdown", press);
  }, [isOpen]);
  // The browser's own toggle is announced a task later; Escape in between would find nothing open.
  const toggle = (event) => {
    event.preventDefault();
    setOpen(!isOpen);
  };
  return html`<details class="menu" ref=${box} open=${isOpen}>
    <summary class="button button-quiet" onClick=${toggle}><${Icon} name=${icon} size="15" />${title}</summary>
    <ul class="menu-list" onClick=${() => setOpen(false)}>${children}</ul>
  </details>`;
}

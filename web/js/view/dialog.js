// A dialog above the page: Escape and the cross close it, and the focus goes back to where it was.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { Icon } from "./icons.js";
import { useLayoutEffect, useRef } from "preact/hooks";

export function Dialog({ title, close, children, isWide = false }) {
  const box = useRef(null);
  useLayoutEffect(() => {
    const opener = document.activeElement;
    box.current.showModal();
    return () => opener?.isConnected && opener.focus();
  }, []);
  return html`<dialog class=${`dialog ${isWide ? "dialog-wide" : ""}`} ref=${box} aria-labelledby="dialog-title" onClose=${close} onCancel=${close}>
    <div class="dialog-head"><h2 id="dialog-title">${title}</h2><button type="button" class="button-icon" aria-label=${t("Close")} onClick=${() => box.current.close()}><${Icon} name="close" size="16" /></button></div>
    ${children}
  </dialog>`;
}

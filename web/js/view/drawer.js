// The drawer at the side. It does not block the page; Escape closes it, and the focus goes back to where it came from.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { useCell } from "../core/cell.js";
import { closeDrawer, drawer } from "../data/drawer.js";
import { DocumentText } from "./document_text.js";
import { Icon } from "./icons.js";
import { Inspect } from "./inspect.js";
import { Span } from "./span.js";
import { Task } from "./task.js";
import { useLayoutEffect, useRef } from "preact/hooks";

const KINDS = { span: [() => t("Source"), Span], task: [() => t("Step"), Task], inspect: [() => t("Inspect"), Inspect], document: [() => t("Contents of the document"), DocumentText] };

export function Drawer() {
  const content = useCell(drawer);
  const box = useRef(null);
  const isOpen = content !== null;
  useLayoutEffect(() => {
    if (isOpen) box.current.focus();
  }, [isOpen, content]);
  if (!isOpen) return null;
  const [name, view] = KINDS[content.kind] ?? KINDS.task;
  const title = name();
  return html`
    <div class="drawer" role="dialog" aria-label=${title} tabindex="-1" ref=${box}>
      <div class="drawer-head"><h2>${title}</h2><button type="button" class="button-icon" aria-label=${t("Close")} onClick=${closeDrawer}><${Icon} name="close" /></button></div>
      <div class="drawer-body"><${view} ...${content} /></div>
    </div>
  `;
}

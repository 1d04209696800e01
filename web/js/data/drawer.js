// What the drawer at the side shows: a passage in its source, one step of a run, or what its author looks at. The element that opened it gets the focus back.
import { cell } from "../core/cell.js";

export const drawer = cell(null);
let opener = null;

export function openDrawer(content) {
  if (drawer.value === null) opener = document.activeElement;
  drawer.value = content;
}

export function closeDrawer() {
  if (drawer.value === null) return;
  drawer.value = null;
  // At once: what is typed next belongs to the page. An opener that is gone is replaced by the page's main part.
  (opener?.isConnected ? opener : document.getElementById("main"))?.focus();
}

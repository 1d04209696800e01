// What the drawer at the side shows: a passage in its source, or one step of a run. Whoever opened it gets the focus back.
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
  // Drawn again, it may be another element; then the page's main part is as good.
  requestAnimationFrame(() => (opener?.isConnected ? opener : document.getElementById("main"))?.focus());
}

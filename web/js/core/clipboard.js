// Copies text. `navigator.clipboard` exists only over HTTPS and on localhost, so pages served over plain HTTP use a selection instead.
import { t } from "./words.js";

export async function copyText(text) {
  if (navigator.clipboard && window.isSecureContext) {
    try {
      return await navigator.clipboard.writeText(text);
    } catch (_) {
      // The browser refused, e.g. for lack of a permission; the selection may still work.
    }
  }
  if (!copySelection(text)) throw new Error(t("The browser does not allow copying. Select the text and press Ctrl+C."));
  return undefined;
}

function copySelection(text) {
  const focused = document.activeElement;
  const area = document.createElement("textarea");
  area.value = text;
  area.readOnly = true;
  area.className = "hidden";
  area.setAttribute("aria-hidden", "true");
  document.body.append(area);
  area.select();
  try {
    return document.execCommand("copy");
  } finally {
    area.remove();
    focused?.focus();
  }
}

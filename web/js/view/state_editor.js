// The state of a flow as JSON that a person changes: before a run continues at a breakpoint, and before a step is run again.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { patchOf } from "../model/merge_patch.js";
import { shown } from "../model/text.js";
import { useState } from "preact/hooks";

/// What the editor holds: `patch()` is the merge patch that makes the typed state of `state`, `null` if nothing was changed. It throws on text that is not
/// a JSON object.
export function useStateEditor(state) {
  const before = shown(state);
  const [typed, setTyped] = useState(null);
  const text = typed ?? before;
  const patch = () => {
    if (text === before) return null;
    let after;
    try {
      after = JSON.parse(text);
    } catch (error) {
      throw new Error(t("That is not JSON: {why}", { why: error.message }));
    }
    if (after === null || typeof after !== "object" || Array.isArray(after)) throw new Error(t("The state must be a JSON object."));
    return patchOf(state, after);
  };
  return { text, setText: setTyped, isChanged: text !== before, patch };
}

export function StateEditor({ editor, wrong }) {
  return html`<label class="state-editor"><span>${t("State as JSON")}</span><textarea class="mono" rows="12" spellcheck="false" value=${editor.text} aria-invalid=${String(Boolean(wrong))} onInput=${(event) => editor.setText(event.target.value)}></textarea></label>`;
}

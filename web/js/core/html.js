// Templates: htm bound to Preact, so that components read like HTML and nothing has to be compiled.
// What is put into a template becomes text or an attribute, never markup.
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);

/// A text with `commands` in it; what stands between backticks is code.
export const withCode = (text) => String(text ?? "").split("`").map((part, at) => (at % 2 === 1 ? html`<code>${part}</code>` : part));

// A formula. Its parser is loaded with the first one; until then, and for commands that it does not know, the source is shown.
import { h } from "preact";
import { html } from "../core/html.js";
import { useEffect, useState } from "preact/hooks";

let parser = null;

export function Formula({ tex, isBlock }) {
  const [read, setRead] = useState(() => parser);
  useEffect(() => {
    // Without the parser the source stays.
    if (!parser) import("../model/math.js").then(({ mathOf }) => setRead(() => (parser = mathOf)), () => {});
  }, []);
  const tree = read?.(tex) ?? null;
  if (!tree) return html`<code class=${isBlock ? "math-source math-source-block" : "math-source"}>${tex}</code>`;
  return h("math", { display: isBlock ? "block" : "inline", "aria-label": tex, class: "math" }, drawn(tree));
}

const drawn = ({ tag, attrs, inner }) => h(tag, attrs, inner.map((one) => (typeof one === "string" ? one : drawn(one))));

// A part of the page that is loaded when it is first shown.
import { html } from "./html.js";
import { t } from "./words.js";
import { useEffect, useState } from "preact/hooks";

/// `load` gives the component, e.g. `lazy(async () => (await import("./tools.js")).Tools)`.
/// `isQuiet`: nothing is shown until it is there.
export function lazy(load, { isQuiet = false } = {}) {
  let found = null;
  return function Lazy(props) {
    const [part, setPart] = useState({ View: found, isLost: false });
    const fetched = () =>
      load().then(
        (View) => {
          found = View;
          setPart({ View, isLost: false });
        },
        () => setPart({ View: null, isLost: true }),
      );
    useEffect(() => {
      if (!found) fetched();
    }, []);
    if (part.View) return html`<${part.View} ...${props} />`;
    if (!part.isLost) return isQuiet ? null : html`<p class="loading" role="status">${t("Loading …")}</p>`;
    return html`<p class="trouble" role="alert">${t("This part of the page could not be loaded.")} <button type="button" class="link" onClick=${() => location.reload()}>${t("Load the page again")}</button></p>`;
  };
}

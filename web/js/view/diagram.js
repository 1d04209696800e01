// A Mermaid diagram of an answer: an image of it, or its source with the reason why it cannot be drawn. It is drawn when it comes near the visible part.
import { useCell } from "../core/cell.js";
import { html } from "../core/html.js";
import { isDark, theme } from "../core/theme.js";
import { t } from "../core/words.js";
import { drawDiagram } from "../data/diagrams.js";
import { Code } from "./code.js";
import { Icon } from "./icons.js";
import { useEffect, useRef, useState } from "preact/hooks";

const NEAR_PX = 600;

export function Diagram({ text }) {
  const [isNear, box] = useNear();
  const isNight = useDark();
  const [drawn, setDrawn] = useState({});
  const [isSource, setSource] = useState(false);
  useEffect(() => {
    if (!isNear) return undefined;
    let isWanted = true;
    drawDiagram(text, isNight).then((image) => isWanted && setDrawn({ image }), (trouble) => isWanted && setDrawn({ trouble }));
    return () => (isWanted = false);
  }, [isNear, text, isNight]);
  const { image, trouble } = drawn;
  if (trouble) {
    return html`<div class="diagram" ref=${box}>
      <${Code} text=${text} language="mermaid" />
      <p class="remark diagram-trouble"><${Icon} name="warn" size="15" />${t("The diagram could not be drawn: {why}", { why: trouble.message })}</p>
    </div>`;
  }
  const kind = text.trimStart().match(/^[A-Za-z]+/)?.[0] ?? "";
  const label = image?.title || (kind ? t("Diagram, {kind}", { kind }) : t("Diagram"));
  return html`<figure class="diagram" ref=${box}>
    <div class="code-head"><span>${t("Diagram")}</span><button type="button" class="button-copy" aria-pressed=${isSource} onClick=${() => setSource(!isSource)}>${isSource ? t("Show the diagram") : t("Show the source")}</button></div>
    ${isSource ? html`<${Code} text=${text} language="mermaid" />` : image ? html`<div class="diagram-image" tabindex="0" role="group" aria-label=${label}><img src=${image.src} width=${image.width} height=${image.height} alt=${label} onError=${() => setDrawn({ trouble: new Error(t("the drawing is not an image")) })} /></div>` : html`<p class="diagram-wait" role="status">${t("Drawing …")}</p>`}
  </figure>`;
}

/// Whether the element is, or was once, near the visible part of the page.
function useNear() {
  const box = useRef(null);
  const [isNear, setNear] = useState(false);
  useEffect(() => {
    const root = box.current.closest(".turns");
    // What is near from the beginning does not wait for the observer, which reports with a later frame.
    const [own, visible] = [box.current, root ?? document.documentElement].map((one) => one.getBoundingClientRect());
    if (own.bottom > visible.top - NEAR_PX && own.top < visible.bottom + NEAR_PX) return void setNear(true);
    const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && setNear(true), { root, rootMargin: `${NEAR_PX}px` });
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return [isNear, box];
}

function useDark() {
  useCell(theme);
  const [, again] = useState({});
  useEffect(() => {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const changed = () => again({});
    system.addEventListener("change", changed);
    return () => system.removeEventListener("change", changed);
  }, []);
  return isDark();
}

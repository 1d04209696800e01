// The end of a conversation: the page stays there while words come, and a button leads back to it.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { Icon } from "./icons.js";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/// Nearer to the end than this, the page stays at the end while words come.
const NEAR_PX = 160;

const distance = (element) => element.scrollHeight - element.scrollTop - element.clientHeight;

/// At its end when opened, and there as long as the reader stays near it.
export function useStayAtEnd(thread, turns) {
  const box = useRef(null);
  useLayoutEffect(() => {
    const element = box.current;
    if (turns > 0) element.scrollTop = element.scrollHeight;
    let isNear = turns > 0;
    const see = () => (isNear = distance(element) < NEAR_PX);
    const stay = () => isNear && (element.scrollTop = element.scrollHeight);
    element.addEventListener("scroll", see, { passive: true });
    const observer = new ResizeObserver(stay);
    for (const child of element.children) observer.observe(child);
    return () => {
      element.removeEventListener("scroll", see);
      observer.disconnect();
    };
  }, [thread, turns > 0]);
  useLayoutEffect(() => {
    if (turns > 0) box.current.scrollTop = box.current.scrollHeight;
  }, [turns]);
  return box;
}

export function Latest({ box, turns }) {
  const [isFar, setFar] = useState(false);
  useEffect(() => {
    const element = box.current;
    const see = () => setFar(distance(element) > element.clientHeight);
    see();
    element.addEventListener("scroll", see, { passive: true });
    return () => element.removeEventListener("scroll", see);
  }, [turns]);
  if (!isFar) return null;
  const jump = () => {
    box.current.scrollTop = box.current.scrollHeight;
    document.getElementById("question")?.focus({ preventScroll: true });
  };
  return html`<div class="latest"><button type="button" class="button" onClick=${jump}><${Icon} name="down" size="15" />${t("Jump to latest")}</button></div>`;
}

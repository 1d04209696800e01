// A list of any length of which only what is seen is in the page. Rows are of one height; arrows, Home and End go from row to row.
import { html } from "../core/html.js";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

const OVERSCAN = 6;
/// So many rows before the end, more is asked for.
const AHEAD = 30;

/// `draw(item, index, {tabIndex})` gives one row's content; `keyOf(item)` what it is known by.
export function List({ items, rowHeight, label, draw, keyOf, more, current = null }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const [focused, setFocused] = useState(0);
  const wanted = useRef(null);

  useLayoutEffect(() => {
    const element = box.current;
    const measure = () => setView((was) => (was.top === element.scrollTop && was.height === element.clientHeight ? was : { top: element.scrollTop, height: element.clientHeight }));
    measure();
    element.addEventListener("scroll", measure, { passive: true });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => {
      element.removeEventListener("scroll", measure);
      observer.disconnect();
    };
  }, []);

  const first = Math.max(0, Math.floor(view.top / rowHeight) - OVERSCAN);
  const last = Math.min(items.length, Math.ceil((view.top + view.height) / rowHeight) + OVERSCAN);

  useEffect(() => {
    if (more && last + AHEAD >= items.length) more();
  }, [last, items.length]);

  useLayoutEffect(() => {
    if (wanted.current === null) return;
    const row = box.current.querySelector(`[data-row="${wanted.current}"] a, [data-row="${wanted.current}"] button`);
    if (row) {
      wanted.current = null;
      row.focus();
    }
  });

  const move = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined || items.length === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(items.length - 1, focused + step));
    setFocused(next);
    wanted.current = next;
    const element = box.current;
    if (next * rowHeight < element.scrollTop) element.scrollTop = next * rowHeight;
    else if ((next + 1) * rowHeight > element.scrollTop + element.clientHeight) element.scrollTop = (next + 1) * rowHeight - element.clientHeight;
  };

  // Always one row that Tab comes to, also when the one that had the focus is far away.
  const stop = Math.max(first, Math.min(focused, last - 1));
  const rows = [];
  for (let index = first; index < last; index += 1) {
    const item = items[index];
    const isCurrent = keyOf(item) === current;
    rows.push(html`
      <li key=${keyOf(item)} data-row=${index} class="list-row" aria-posinset=${index + 1} aria-setsize=${items.length}
        style=${{ transform: `translateY(${index * rowHeight}px)`, height: `${rowHeight}px` }} onFocusIn=${() => setFocused(index)}>
        ${draw(item, { tabIndex: index === stop ? 0 : -1, isCurrent })}
      </li>
    `);
  }
  return html`
    <div class="list" ref=${box} onKeyDown=${move}>
      <ul class="list-all" aria-label=${label} style=${{ height: `${items.length * rowHeight}px` }}>${rows}</ul>
    </div>
  `;
}

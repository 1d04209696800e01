// Escape closes what was opened last: a menu, a list, the options, the drawer.
import { useLayoutEffect, useRef } from "preact/hooks";

const open = [];

addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented || event.isComposing || open.length === 0) return;
  event.preventDefault();
  open.at(-1).close();
});

/// While `isOpen`, Escape calls `close`, unless something else was opened since.
export function useEscape(isOpen, close) {
  const entry = useRef({ close });
  entry.current.close = close;
  // Before the next key can be pressed; an ordinary effect runs after the next frame.
  useLayoutEffect(() => {
    if (!isOpen) return undefined;
    const own = entry.current;
    open.push(own);
    return () => open.splice(open.indexOf(own), 1);
  }, [isOpen]);
}

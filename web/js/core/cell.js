// A value that can be watched. All state that outlives a component is in cells; a component reads one with `useCell`.
import { useEffect, useState } from "preact/hooks";

export function cell(initial) {
  let value = initial;
  const listeners = new Set();
  return {
    get value() {
      return value;
    },
    set value(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener(value);
    },
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function useCell(source) {
  const [, again] = useState({});
  const value = source.value;
  useEffect(() => {
    // It may have changed between drawing and listening.
    if (!Object.is(source.value, value)) again({});
    return source.listen(() => again({}));
  }, [source]);
  return value;
}

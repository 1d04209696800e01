// Data that a component loads for itself.
import { useEffect, useState } from "preact/hooks";

/// `[what was loaded, why it was not]`; both are `null` while it is being loaded. It is loaded again when `inputs` change.
export function useLoaded(load, inputs) {
  const [found, setFound] = useState([null, null]);
  useEffect(() => {
    let isWanted = true;
    setFound([null, null]);
    load().then((value) => isWanted && setFound([value, null]), (trouble) => isWanted && setFound([null, trouble]));
    return () => (isWanted = false);
  }, inputs);
  return found;
}

// The turns of the branch that is shown.
import { html } from "../core/html.js";
import { Turn } from "./turn.js";

/// Turns before these are drawn when they are near what is seen.
const NEAR_TURNS = 12;

/// `send(question, after)` asks for another version of a turn; `choose(choices)` shows one.
export const TurnList = ({ path, run, found, isBusy, choose, send, follow, suggest }) =>
  path.map(
    ({ turn, id, parent, siblings, at }, index) => html`<${Turn} key=${id} id=${id} turn=${turn} siblings=${siblings} at=${at} isLast=${index === path.length - 1} isFar=${index < path.length - NEAR_TURNS}
      isWanted=${run !== null && turn.run?.run === run} isFound=${found === id} isBusy=${isBusy} show=${(other) => choose({ [parent]: other })} again=${(question) => send(question, parent)} follow=${() => follow(turn)} suggest=${suggest} />`,
  );

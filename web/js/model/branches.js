// Branches of one conversation. Each turn follows the turn before it, unless the server names the one it follows.
//
//   pathOf(turns, after, chosen) -> [{turn, id, parent, siblings: [id], at}]      the turns that are shown, one version of each
//
// `after` maps a run to the run it follows ("" at the beginning); `chosen` maps a turn to the one of those that follow it which is shown.

export const idOf = (turn, at) => turn.run?.run ?? `said-${at}`;

/// `{parents: Map(id -> id), children: Map(id -> [id])}`, children in the order they were asked.
export function treeOf(turns, after) {
  const parents = new Map();
  const children = new Map();
  turns.forEach((turn, at) => {
    const id = idOf(turn, at);
    const before = at > 0 ? idOf(turns[at - 1], at - 1) : "";
    const named = after[id];
    // A turn that follows one which is not loaded is shown where it stands.
    const parent = named === undefined || (named !== "" && !parents.has(named)) ? before : named;
    parents.set(id, parent);
    children.set(parent, [...(children.get(parent) ?? []), id]);
  });
  return { parents, children };
}

export function pathOf(turns, after, chosen = {}) {
  const { children } = treeOf(turns, after);
  const byId = new Map(turns.map((turn, at) => [idOf(turn, at), turn]));
  const path = [];
  let parent = "";
  while (children.has(parent)) {
    const siblings = children.get(parent);
    const id = siblings.includes(chosen[parent]) ? chosen[parent] : siblings.at(-1);
    path.push({ turn: byId.get(id), id, parent, siblings, at: siblings.indexOf(id) });
    parent = id;
  }
  return path;
}

/// The choices that lead to a turn.
export function choicesTo(turns, after, id) {
  const { parents } = treeOf(turns, after);
  const chosen = {};
  for (let at = id; parents.has(at); at = parents.get(at)) chosen[parents.get(at)] = at;
  return chosen;
}

/// Every branch as its last turn and how many turns it shares with the path that is shown: `[{id, length, shared}]`, the newest first.
export function branchesOf(turns, after, path) {
  const { parents, children } = treeOf(turns, after);
  const shown = new Set(path.map((one) => one.id));
  const ends = turns.map(idOf).filter((id) => !children.has(id));
  return ends
    .map((id) => {
      let [length, shared] = [0, 0];
      for (let at = id; parents.has(at); at = parents.get(at)) {
        length += 1;
        if (shown.has(at)) shared += 1;
      }
      return { id, length, shared };
    })
    .reverse();
}

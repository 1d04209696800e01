// A drawing of a graph in layers: every node right of all it needs, and in its layer near those it needs.
//
//   layers(nodes, edges) -> { nodes: [{…node, x, y}], edges: [{from, to, points}], width, height }
//
// Edges against the order of the nodes (loops of a flow) are drawn, but do not move anything.

export const NODE = { width: 172, height: 70 };
const GAP = { x: 44, y: 16 };

export function layers(nodes, edges) {
  const at = new Map(nodes.map((node, index) => [node.id, index]));
  const known = edges.filter((edge) => at.has(edge.from) && at.has(edge.to) && edge.from !== edge.to);
  const forward = known.filter((edge) => at.get(edge.from) < at.get(edge.to));
  const depth = depths(nodes, forward);
  const columns = [];
  for (const node of nodes) (columns[depth.get(node.id)] ??= []).push(node.id);
  const row = ordered(columns, forward);
  const tallest = Math.max(1, ...columns.map((column) => column?.length ?? 0));
  const height = tallest * (NODE.height + GAP.y) - GAP.y;
  const place = new Map();
  columns.forEach((column, x) => {
    const own = column.length * (NODE.height + GAP.y) - GAP.y;
    for (const id of column) {
      place.set(id, { x: x * (NODE.width + GAP.x), y: (height - own) / 2 + row.get(id) * (NODE.height + GAP.y) });
    }
  });
  return {
    nodes: nodes.map((node) => ({ ...node, ...place.get(node.id) })),
    edges: known.map((edge) => ({ ...edge, isBack: at.get(edge.from) > at.get(edge.to), path: path(place.get(edge.from), place.get(edge.to)) })),
    width: Math.max(NODE.width, columns.length * (NODE.width + GAP.x) - GAP.x),
    height,
  };
}

/// The longest way to each node; nodes come in an order in which edges go forward.
function depths(nodes, forward) {
  const depth = new Map(nodes.map((node) => [node.id, 0]));
  const into = Map.groupBy ? Map.groupBy(forward, (edge) => edge.to) : grouped(forward);
  for (const node of nodes) {
    for (const edge of into.get(node.id) ?? []) depth.set(node.id, Math.max(depth.get(node.id), depth.get(edge.from) + 1));
  }
  return depth;
}

function grouped(edges) {
  const into = new Map();
  for (const edge of edges) into.set(edge.to, [...(into.get(edge.to) ?? []), edge]);
  return into;
}

/// Two sweeps are enough for graphs that people read.
function ordered(columns, forward) {
  const row = new Map();
  for (const column of columns) column.forEach((id, index) => row.set(id, index));
  for (const column of columns.slice(1)) {
    const pull = (id) => {
      const from = forward.filter((edge) => edge.to === id).map((edge) => row.get(edge.from));
      return from.length > 0 ? from.reduce((sum, one) => sum + one, 0) / from.length : row.get(id);
    };
    const sorted = column.map((id, index) => ({ id, index, pull: pull(id) })).sort((a, b) => a.pull - b.pull || a.index - b.index);
    sorted.forEach(({ id }, index) => row.set(id, index));
  }
  return row;
}

function path(from, to) {
  const isBack = to.x <= from.x;
  const start = { x: from.x + NODE.width, y: from.y + NODE.height / 2 };
  const end = { x: to.x, y: to.y + NODE.height / 2 };
  if (!isBack) {
    // A long edge stays in its own row and bends at the end, so that it crosses little.
    const bend = end.x - GAP.x;
    const half = GAP.x / 2;
    return `M${start.x} ${start.y}H${bend}C${bend + half} ${start.y} ${end.x - half} ${end.y} ${end.x} ${end.y}`;
  }
  // Above everything, and in from the left.
  const top = Math.min(from.y, to.y) - 14;
  return `M${from.x + NODE.width / 2} ${from.y}C${from.x + NODE.width / 2} ${top - 14} ${to.x + NODE.width / 2} ${top - 14} ${to.x + NODE.width / 2} ${to.y}`;
}

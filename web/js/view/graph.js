// A graph in layers, drawn as SVG. Nodes that are a task are buttons that open it.
import { html } from "../core/html.js";
import { serverText, t } from "../core/words.js";
import { took_us } from "../model/family.js";
import { NODE, layers } from "../model/layers.js";
import { duration, words } from "../model/text.js";
import { useLayoutEffect, useRef } from "preact/hooks";

const MARGIN = 22;
const states = () => ({
  planned: t("planned"),
  waiting: t("waiting"),
  running: t("running"),
  again: t("retrying"),
  done: t("done"),
  failed: t("failed"),
  skipped: t("left out"),
  asking: t("needs your answer"),
  held: t("needs your permission"),
  doubted: t("unknown whether it happened"),
  stopped: t("stopped"),
});

/// The state of a task in words.
export const stateWords = (state) => states()[state] ?? state;

export function Graph({ graph, now_ms, open, label }) {
  const box = useRef(null);
  const drawn = layers(graph.nodes, graph.edges);
  const active = drawn.nodes.findLast((node) => node.state === "running" || node.state === "asking");
  useLayoutEffect(() => {
    // What goes on is in sight; where a person scrolled to in a run that is over, they stay.
    if (active) box.current.scrollLeft = active.x + NODE.width + MARGIN * 2 - box.current.clientWidth;
  }, [active?.id]);
  if (drawn.nodes.length === 0) return null;
  const [width, height] = [drawn.width + MARGIN * 2, drawn.height + MARGIN * 2];
  return html`
    <div class="graph" ref=${box} tabindex="0" role="group" aria-label=${label}>
      <svg width=${width} height=${height} viewBox=${`${-MARGIN} ${-MARGIN} ${width} ${height}`} role="presentation">
        ${drawn.edges.map((edge) => html`<path key=${`${edge.from}>${edge.to}`} class=${`edge ${edge.isBack ? "edge-back" : ""} ${isLit(edge, drawn.nodes) ? "is-lit" : ""}`} d=${edge.path} />`)}
        ${drawn.nodes.map((node) => html`<${Node} key=${node.id} node=${node} now_ms=${now_ms} open=${open} />`)}
      </svg>
    </div>
  `;
}

const isLit = (edge, nodes) => {
  const state = (id) => nodes.find((node) => node.id === id)?.state;
  return state(edge.from) === "done" && !["planned", "waiting"].includes(state(edge.to));
};

function Node({ node, now_ms, open }) {
  const { task } = node;
  const title = serverText(words(node.title));
  const tries = task?.attempts.length ?? 0;
  const time = task ? duration(took_us(task, now_ms)) : "";
  const act = task ? { role: "button", tabindex: 0, onClick: () => open(task), onKeyDown: (event) => pressed(event) && open(task) } : { role: "group" };
  return html`
    <g class=${`node node-${node.state}`} transform=${`translate(${node.x} ${node.y})`} ...${act}>
      <rect class="node-box" width=${NODE.width} height=${NODE.height} rx="10" />
      <foreignObject width=${NODE.width} height=${NODE.height}>
        <div class="node-text" title=${node.why ? serverText(node.why) : title}>
          <span class="node-light"></span>
          <span class=${`node-title ${tries > 1 ? "" : "is-wide"}`} dir="auto">${title}</span>
          ${tries > 1 && html`<span class="node-tries">×${tries}</span>`}
          <span class="node-about">${node.about}</span>
          <span class="node-time">${time}</span>
          <span class="hidden">, ${stateWords(node.state)}${node.why ? `: ${serverText(node.why)}` : ""}</span>
        </div>
      </foreignObject>
    </g>
  `;
}

function pressed(event) {
  if (event.key !== "Enter" && event.key !== " ") return false;
  event.preventDefault();
  return true;
}

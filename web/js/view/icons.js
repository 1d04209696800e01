// Every icon of the page, drawn with one stroke so that they belong together. They are decoration: a name always stands beside them or in a label.
import { html } from "../core/html.js";

const PATHS = {
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM20 20l-4-4",
  summarize: "M5 5h14M5 10h14M5 15h9M5 20h6",
  conversation: "M4 5h16v11H9l-5 4z",
  chat: "M4 5h16v11H9l-5 4z",
  direct: "M13 3 5 14h6l-1 7 8-11h-6z",
  auto: "M3 12h5l5-6h7M8 12l5 6h7M17 3l3 3-3 3M17 15l3 3-3 3",
  reason: "M9 18h6M10 21h4M12 3a6 6 0 0 0-3.500 10.900c.6.5 1 1.200 1 2.100h5c0-.9.4-1.600 1-2.100A6 6 0 0 0 12 3z",
  panel: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM17 11a2.500 2.500 0 1 0 0-5M2.500 19c.5-3 2.700-5 5.500-5s5 2 5.500 5M16 14c2.700 0 4.700 1.700 5.500 4.500",
  supervise: "M12 4v5M6 15v-2.500h12V15M12 9v3.500M9.500 4h5M4 15h4v4H4zM16 15h4v4h-4zM10 15h4v4h-4z",
  research: "M4 19V6a2 2 0 0 1 2-2h12v15H6a2 2 0 0 0-2 2M8 8h6M8 12h4",
  team: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM17 11a2.500 2.500 0 1 0 0-5M2.500 19c.5-3 2.700-5 5.500-5s5 2 5.500 5M16 14c2.700 0 4.700 1.700 5.500 4.500",
  model: "M12 3l2.200 5.800L20 11l-5.800 2.200L12 19l-2.200-5.800L4 11l5.800-2.200z",
  tool: "M14.500 4a5 5 0 0 0-4.700 6.700L4 16.500 7.500 20l5.800-5.800A5 5 0 0 0 20 9.500l-3 1.500-3-3 1.500-3z",
  agent: "M5 9h14v10H5zM12 9V5M9 13v2M15 13v2M12 5h.010",
  person: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4.500 20c.8-3.600 3.800-6 7.500-6s6.700 2.400 7.500 6",
  node: "M12 7a5 5 0 1 0 0 10 5 5 0 0 0 0-10z",
  other: "M12 7a5 5 0 1 0 0 10 5 5 0 0 0 0-10z",
  report: "M6 3h9l4 4v14H6zM14 3v5h5M9 12h7M9 16h7",
  raise: "M12 19V6M6 12l6-6 6 6",
  lower: "M12 5v13M6 12l6 6 6-6",
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6 6 18",
  send: "M12 20V5M5.500 11 12 4.500 18.500 11",
  stop: "M7 7h10v10H7z",
  play: "M8 5v14l11-7z",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  check: "M5 12.500 10 17 19 7",
  warn: "M12 4 2.500 20h19zM12 10v4M12 17h.010",
  bad: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 8v5M12 16h.010",
  info: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 11v6M12 7.500h.010",
  wait: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 7v5l3.500 2",
  down: "M12 4v12M6 11l6 6 6-6M5 20h14",
  branch: "M7 4v16M7 14c0-4 10-2 10-8M17 8.500a2.250 2.250 0 1 0 0-4.500 2.250 2.250 0 0 0 0 4.500",
  compare: "M4 5h7v14H4zM13 5h7v14h-7z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.500 1.500M17.500 17.500 19 19M19 5l-1.500 1.500M6.500 17.500 5 19",
  moon: "M20 14.500A8.500 8.500 0 0 1 9.500 4 8.500 8.500 0 1 0 20 14.500z",
  menu: "M4 6h16M4 12h16M4 18h16",
  document: "M6 3h8l5 5v13H6zM14 3v5h5",
  gear: "M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM19 12l2-1.200-1.800-3.200-2.300.8-2-1.200L14.500 4h-5l-.5 3.200-2 1.200-2.300-.8L3 10.800 5 12l-2 1.200 1.800 3.200 2.300-.8 2 1.200.4 3.200h5l.5-3.200 2-1.200 2.300.8 1.700-3.200z",
  graph: "M4 9h6v6H4zM14 4h6v5h-6zM14 15h6v5h-6zM10 12h2M12 6.500h2M12 6.500v11M12 17.500h2",
  bin: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  right: "M9 5l7 7-7 7",
  left: "M15 5l-7 7 7 7",
  link: "M10 14a4 4 0 0 0 6 0l3-3a4.200 4.200 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4.200 4.200 0 0 0 6 6l1-1",
  upload: "M12 16V4M6 9.500 12 4l6 5.500M4 20h16",
  key: "M8 15a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 11h9M18 11v3.500",
  edit: "M4 20h4L19 9l-4-4L4 16z",
  again: "M4 12a8 8 0 0 1 13.700-5.600L20 9M20 4v5h-5M20 12a8 8 0 0 1-13.700 5.600L4 15M4 20v-5h5",
  pin: "M9 4h6l-1 6 3 3H7l3-3zM12 13v7",
  tag: "M4 4h8l8 8-8 8-8-8zM8.500 8.500h.010",
  clip: "M8 12.500l6.500-6.500a3.200 3.200 0 0 1 4.500 4.500l-8.500 8.500a5 5 0 0 1-7-7L11 4.500",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l1.500 2h-15zM10 20.500h4",
  image: "M4 5h16v14H4zM8.500 10h.010M5 18l5-5 3 3 3-3 3 3",
  keyboard: "M3 7h18v10H3zM7 10.500h.010M11 10.500h.010M15 10.500h.010M8 14h8",
};

export const Icon = ({ name, size = 18 }) => html`
  <svg class="icon" width=${size} height=${size} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
    <path d=${PATHS[name] ?? PATHS.node} />
  </svg>
`;

export const hasIcon = (name) => name in PATHS;

/// The logo, as in `icon.svg`.
export const Mark = () => html`
  <svg class="mark-house" width="24" height="24" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
    <rect class="mark-ground" width="32" height="32" rx="8" />
    <g transform="rotate(-38 16 16)"><rect class="mark-stick" x="4.500" y="12.500" width="23" height="7" rx="3.500" /><rect class="mark-ring" x="9" y="12.500" width="3" height="7" /><rect class="mark-ring" x="20" y="12.500" width="3" height="7" /></g>
  </svg>
`;

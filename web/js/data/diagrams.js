// Diagrams of answers as images. Mermaid runs in a sandboxed frame that has no origin and no network; what it gets and what it gives back is text. One
// diagram is drawn at a time; a frame that takes too long is removed, and the next diagram gets a new one.
//
//   const { src, width, height, title } = await drawDiagram(text, isDark)      throws an Error whose message is why it cannot be drawn
import { t } from "../core/words.js";

const TEXT_CHARS_MAX = 20_000;
const DRAW_MS_MAX = 10_000;
/// The frame's script has to be loaded once.
const LOAD_MS_MAX = 30_000;
/// A frame that is not used is removed, for its memory.
const IDLE_MS = 20_000;
const SVG_CHARS_MAX = 2_000_000;
const KEPT_MAX = 40;
const WAITING_MAX = 100;

/// The newest drawings, by theme and text.
const kept = new Map();
let frame = null;
let isReady = null;
let last = Promise.resolve();
let waiting = 0;
let id = 0;
let idle = null;

export async function drawDiagram(text, isDark) {
  if (text.length > TEXT_CHARS_MAX) throw new Error(t("its text is longer than {n} characters", { n: TEXT_CHARS_MAX }));
  const key = `${isDark} ${text}`;
  if (kept.has(key)) return kept.get(key);
  if (waiting >= WAITING_MAX) throw new Error(t("too many diagrams are waiting"));
  waiting += 1;
  const drawing = last.then(() => draw(text, isDark)).finally(() => (waiting -= 1));
  last = drawing.catch(() => {});
  const drawn = await drawing;
  kept.set(key, drawn);
  if (kept.size > KEPT_MAX) kept.delete(kept.keys().next().value);
  return drawn;
}

async function draw(text, isDark) {
  clearTimeout(idle);
  try {
    if (!frame) open();
    await isReady;
    id += 1;
    const own = id;
    const reply = answerOf((data) => data.id === own, DRAW_MS_MAX, () => t("it took longer than {n} seconds", { n: DRAW_MS_MAX / 1_000 }));
    // The frame has no origin that could be named.
    frame.contentWindow.postMessage({ id, text, isDark }, "*");
    return imageOf(await reply);
  } finally {
    idle = setTimeout(close, IDLE_MS);
  }
}

function open() {
  frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.setAttribute("aria-hidden", "true");
  frame.title = t("Diagram");
  frame.tabIndex = -1;
  frame.className = "diagram-frame";
  frame.src = "/assets/diagram/frame.html";
  document.body.append(frame);
  isReady = answerOf((data) => data.isReady === true, LOAD_MS_MAX, () => t("the program that draws it could not be loaded"));
}

function close() {
  frame?.remove();
  frame = null;
}

/// The frame's next message that is wanted. Without one in time the frame is removed: only that ends what it does.
function answerOf(isWanted, ms_max, tooLate) {
  const from = frame;
  return new Promise((done, fail) => {
    const listen = (event) => {
      if (event.source !== from.contentWindow || !event.data || !isWanted(event.data)) return;
      end();
      done(event.data);
    };
    const end = () => {
      clearTimeout(timer);
      removeEventListener("message", listen);
    };
    const timer = setTimeout(() => {
      end();
      if (frame === from) close();
      fail(new Error(tooLate()));
    }, ms_max);
    addEventListener("message", listen);
  });
}

/// What the frame sends is not trusted: an SVG becomes an image, which runs no script and loads nothing.
function imageOf({ svg, width, height, title, trouble }) {
  if (typeof svg !== "string" || svg.length > SVG_CHARS_MAX) throw new Error(typeof trouble === "string" ? trouble.slice(0, 300) : t("the drawing is too large"));
  const size = (value) => Math.max(1, Math.min(20_000, Math.ceil(Number(value) || 1)));
  return { src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`, width: size(width), height: size(height), title: String(title ?? "").slice(0, 200) };
}

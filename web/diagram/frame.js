// Draws one diagram per message of the page and answers with an SVG image as text, or with the reason why it cannot be drawn.
//
//   in    { id, text, isDark }
//   out   { isReady }   { id, svg, width, height, title }   { id, trouble }

const SVG_CHARS_MAX = 2_000_000;
const SIDE_PX_MAX = 20_000;
const TROUBLE_CHARS_MAX = 300;

const settings = (isDark) => ({
  startOnLoad: false,
  securityLevel: "strict",
  // Labels of HTML are no part of an SVG image.
  htmlLabels: false,
  flowchart: { htmlLabels: false },
  suppressErrorRendering: true,
  maxTextSize: 20_000,
  maxEdges: 300,
  theme: isDark ? "dark" : "default",
  fontFamily: "system-ui, sans-serif",
  // The line of an edge does not show through its label.
  themeCSS: ".edgeLabel rect { opacity: 1 }",
  // What a diagram may not set by itself.
  secure: ["secure", "securityLevel", "startOnLoad", "maxTextSize", "suppressErrorRendering", "maxEdges", "htmlLabels", "themeCSS", "fontFamily", "dompurifyConfig"],
});

async function draw({ id, text, isDark }) {
  mermaid.initialize(settings(isDark));
  const { svg } = await mermaid.render(`diagram-${id}`, text);
  const holder = document.createElement("div");
  holder.innerHTML = svg;
  const drawing = holder.querySelector("svg");
  const [, , width, height] = (drawing?.getAttribute("viewBox") ?? "").split(/[\s,]+/).map(Number);
  if (!(width > 0 && height > 0 && width <= SIDE_PX_MAX && height <= SIDE_PX_MAX)) throw new Error(`its size is ${width} × ${height}`);
  // An image needs a size of its own.
  drawing.setAttribute("width", String(width));
  drawing.setAttribute("height", String(height));
  drawing.style.maxWidth = "";
  const title = drawing.querySelector(":scope > title")?.textContent ?? "";
  // An image is XML, which `innerHTML` does not write.
  const written = new XMLSerializer().serializeToString(drawing);
  if (written.length > SVG_CHARS_MAX) throw new Error(`the drawing has ${written.length} characters`);
  return { id, svg: written, width, height, title };
}

addEventListener("message", async (event) => {
  if (event.source !== parent) return;
  const { id } = event.data;
  try {
    parent.postMessage(await draw(event.data), "*");
  } catch (error) {
    const trouble = String(error?.message ?? error).replace(/\s+/g, " ").slice(0, TROUBLE_CHARS_MAX);
    parent.postMessage({ id, trouble }, "*");
  } finally {
    document.body.replaceChildren();
  }
});

parent.postMessage({ isReady: true }, "*");

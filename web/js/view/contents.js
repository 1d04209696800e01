// The contents of a long answer: its headings, each a button that goes to its place.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { useRef } from "preact/hooks";

/// An answer with fewer headings is seen at a glance.
const HEADINGS_MIN = 4;

/// `blocks` are those that are drawn right after it.
export function Contents({ blocks }) {
  const box = useRef(null);
  const headings = blocks.filter((block) => block.kind === "heading");
  if (headings.length < HEADINGS_MIN) return null;
  const top = Math.min(...headings.map((heading) => heading.rank));
  const jump = (at) => {
    const target = box.current.nextElementSibling.querySelectorAll(":scope > :is(h3, h4, h5, h6)")[at];
    if (!target) return;
    target.tabIndex = -1;
    target.scrollIntoView({ block: "start" });
    target.focus({ preventScroll: true });
  };
  return html`
    <nav class="contents" aria-label=${t("Contents")} ref=${box}>
      <ol>${headings.map((heading, at) => html`<li class=${`contents-${Math.min(heading.rank - top, 3)}`}><button type="button" class="link" dir="auto" onClick=${() => jump(at)}>${textOf(heading)}</button></li>`)}</ol>
    </nav>
  `;
}

const textOf = (heading) => heading.words.flatMap((group) => group.runs).map((run) => run.text ?? "").join("").trim();

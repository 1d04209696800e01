// A block of code with its language, a button that copies it, and colours that are loaded when the first block is shown.
import { html } from "../core/html.js";
import { copyText } from "../core/clipboard.js";
import { t } from "../core/words.js";
import { attempt } from "../data/notices.js";
import { Icon } from "./icons.js";
import { useEffect, useState } from "preact/hooks";

const COPIED_MS = 2_000;
let highlighter = null;

export function Code({ text, language }) {
  const [isCopied, setCopied] = useState(false);
  const [paint, setPaint] = useState(() => highlighter);
  useEffect(() => {
    // Without colours the text is the same, so that a failure needs no words.
    if (!highlighter && language) import("../model/highlight.js").then(({ highlighted }) => setPaint(() => (highlighter = highlighted)), () => {});
  }, []);
  const copy = () =>
    attempt(async () => {
      await copyText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), COPIED_MS);
    });
  const parts = paint && language ? paint(text, language) : [{ text, kind: null }];
  const label = language ? t("Code, {language}", { language }) : t("Code");
  return html`<div class="code-block">
    <div class="code-head"><span>${language || t("Code")}</span><button type="button" class="button-copy" aria-label=${isCopied ? t("Copied") : t("Copy the code")} onClick=${copy}><${Icon} name=${isCopied ? "check" : "copy"} size="14" />${isCopied ? t("Copied") : t("Copy")}</button></div>
    <pre class="code" tabindex="0" role="group" aria-label=${label}><code>${parts.map((part) => (part.kind ? html`<span class=${`code-${part.kind}`}>${part.text}</span>` : part.text))}</code></pre>
  </div>`;
}

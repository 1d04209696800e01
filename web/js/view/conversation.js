// A conversation: its turns, and the form for the next question.
import { html } from "../core/html.js";
import { get } from "../core/api.js";
import { useCell } from "../core/cell.js";
import { go, to } from "../core/route.js";
import { add, conversation, open, reload, remember } from "../data/conversation.js";
import { attempt, say } from "../data/notices.js";
import { ask, cancel, isOver } from "../data/runs.js";
import { asRequest } from "../data/wishes.js";
import { wishes } from "../data/wishes.js";
import { Composer } from "./composer.js";
import { FirstRun } from "./first.js";
import { Turn } from "./turn.js";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/// Nearer to the end than this, the page stays at the end while words come.
const NEAR_PX = 160;

export function Conversation({ thread, run }) {
  useEffect(() => open(thread), [thread]);
  const known = useCell(conversation);
  const [example, setExample] = useState("");
  const [sending, setSending] = useState(null);
  const here = known.thread === thread ? known : { turns: [], isLoading: thread !== null, trouble: null };
  const running = here.turns.findLast((turn) => turn.run && !isOver(turn.run.status))?.run.run ?? null;
  const scroll = useStayAtEnd(thread, here.turns.length);

  const send = async (question) => {
    setSending(question);
    try {
      const started = await ask(asRequest(question, thread));
      remember(started.run, question);
      add(started.thread, started.run, question, wishes.value.flow);
      if (started.thread !== thread) go(to.thread(started.thread));
      return true;
    } catch (trouble) {
      say(trouble.message, "bad");
      return false;
    } finally {
      setSending(null);
    }
  };
  const stop = () => attempt(() => cancel(running));
  /// The list of turns may lag behind the server.
  const canSend = async () => {
    try {
      const row = await get(`/api/runs/${encodeURIComponent(running)}`);
      return isOver(row.status);
    } catch (_) {
      return false;
    }
  };

  const isEmpty = thread === null || (!here.isLoading && here.turns.length === 0 && !here.trouble);
  return html`
    <section class="conversation" aria-label=${here.row?.title ? `Conversation: ${here.row.title}` : "Conversation"}>
      <div class="turns" ref=${scroll} tabindex="-1">
        ${!isEmpty && html`<h1 class="hidden">${here.row?.title ?? "Conversation"}</h1>`}
        ${here.trouble && html`<div class="trouble" role="alert"><strong>This conversation cannot be shown.</strong> ${here.trouble.message} <button type="button" class="link" onClick=${reload}>Try again</button></div>`}
        ${here.isLoading && html`<div class="loading" role="status">Loading the conversation …</div>`}
        ${isEmpty && sending === null && html`<${FirstRun} ask=${setExample} />`}
        <ol class="turn-list">
          ${here.turns.map((turn, at) => html`<${Turn} key=${turn.run?.run ?? `said-${at}`} turn=${turn} isLast=${at === here.turns.length - 1} isWanted=${run !== null && turn.run?.run === run} />`)}
          ${sending !== null && html`<li class="turn" key="sending"><h2 class="question" dir="auto">${sending}</h2></li>`}
        </ol>
      </div>
      <${Composer} send=${send} running=${running} canSend=${canSend} stop=${stop} isFirst=${isEmpty} words=${example} taken=${() => setExample("")} />
    </section>
  `;
}

/// At its end when opened, and there as long as the reader stays near it.
function useStayAtEnd(thread, turns) {
  const box = useRef(null);
  useLayoutEffect(() => {
    const element = box.current;
    if (turns > 0) element.scrollTop = element.scrollHeight;
    let isNear = turns > 0;
    const see = () => (isNear = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PX);
    const stay = () => isNear && (element.scrollTop = element.scrollHeight);
    element.addEventListener("scroll", see, { passive: true });
    const observer = new ResizeObserver(stay);
    for (const child of element.children) observer.observe(child);
    return () => {
      element.removeEventListener("scroll", see);
      observer.disconnect();
    };
  }, [thread, turns > 0]);
  useLayoutEffect(() => {
    if (turns > 0) box.current.scrollTop = box.current.scrollHeight;
  }, [turns]);
  return box;
}

// A conversation: its turns, and the form for the next question.
import { html } from "../core/html.js";
import { get } from "../core/api.js";
import { useCell } from "../core/cell.js";
import { lazy } from "../core/lazy.js";
import { go, to } from "../core/route.js";
import { t } from "../core/words.js";
import { choose, chosen, chosenIn } from "../data/branches.js";
import { add, conversation, open, reload, remember } from "../data/conversation.js";
import { attempt, say } from "../data/notices.js";
import { ask, cancel, isOver } from "../data/runs.js";
import { nameSources } from "../data/sources.js";
import { asRequest, askOptions } from "../data/ask_options.js";
import { choicesTo, pathOf } from "../model/branches.js";
import { Composer } from "./composer.js";
import { FirstRun } from "./first.js";
import { Latest, useStayAtEnd } from "./latest.js";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";

/// Everything that only a conversation with turns needs. It is loaded after the page, or when somebody begins to type.
const parts = () => import("./thread_parts.js");
const Head = lazy(async () => (await parts()).Head, { isQuiet: true });
const TurnList = lazy(async () => (await parts()).TurnList, { isQuiet: true });
/// Where the server cannot be reached yet, the parts are loaded when they are shown.
const preload = () => parts().catch(() => {});
/// After what the page needs at once.
const PRELOAD_MS = 1_000;
/// Browsers do not fetch a module again whose fetch failed, so the parts are loaded once the page is, before the server can be away.
addEventListener("load", () => setTimeout(preload, PRELOAD_MS));

/// How long a question that is sent while a run is about to end waits for that end, and how often it asks.
const END_WAIT_MS = 2000;
const END_POLL_MS = 150;

export function Conversation({ thread, run }) {
  useEffect(() => open(thread), [thread]);
  const known = useCell(conversation);
  const choices = chosenIn(useCell(chosen), thread);
  const [example, setExample] = useState("");
  const [sending, setSending] = useState(null);
  // The run that the next question follows, if it is not the last one.
  const [following, setFollowing] = useState(null);
  const [found, setFound] = useState(null);
  const here = known.thread === thread ? known : { turns: [], after: {}, isLoading: thread !== null, trouble: null };
  const path = pathOf(here.turns, here.after, choices);
  const running = here.turns.findLast((turn) => turn.run && !isOver(turn.run.status))?.run.run ?? null;
  const scroll = useStayAtEnd(thread, path.length);
  useLayoutEffect(() => setFollowing(null), [thread]);
  const isKnown = here.turns.some((turn) => turn.run?.run === run);
  useEffect(() => {
    if (run !== null && isKnown) choose(thread, choicesTo(here.turns, here.after, run));
  }, [thread, run, isKnown]);

  /// `after` is the run that the question follows; `undefined` is the last one that is shown.
  const send = async (question, after = following?.run ?? undefined) => {
    setSending(question);
    try {
      const hasBranches = Object.keys(here.after).length > 0;
      const last = path.at(-1)?.turn.run?.run;
      const follows = after ?? (hasBranches && last ? last : null);
      const started = await ask(asRequest(question, thread, follows));
      remember(started.run, question);
      add(started.thread, started.run, question, askOptions.value.flow, follows);
      if (follows !== null) choose(started.thread, { [follows]: started.run });
      setFollowing(null);
      if (started.thread !== thread) {
        nameSources(started.thread);
        go(to.thread(started.thread));
      }
      return true;
    } catch (trouble) {
      say(trouble.message, "bad");
      return false;
    } finally {
      setSending(null);
    }
  };
  const stop = () => attempt(() => cancel(running));
  /// The list of turns may lag behind the server, and an answer is shown a moment before its run ends.
  const canSend = async () => {
    const until = Date.now() + END_WAIT_MS;
    try {
      for (;;) {
        const row = await get(`/api/runs/${encodeURIComponent(running)}`);
        if (isOver(row.status)) return true;
        if (Date.now() >= until) return false;
        await new Promise((done) => setTimeout(done, END_POLL_MS));
      }
    } catch (_) {
      return false;
    }
  };
  const followTurn = (turn) => {
    setFollowing({ run: turn.run.run, question: turn.question });
    document.getElementById("question")?.focus();
  };

  const isEmpty = thread === null || (!here.isLoading && here.turns.length === 0 && !here.trouble);
  return html`
    <section class="conversation" aria-label=${here.row?.title ? t("Conversation: {title}", { title: here.row.title }) : t("Conversation")}>
      ${!isEmpty && html`<${Head} thread=${thread} row=${here.row} turns=${here.turns} after=${here.after} path=${path} show=${(all) => choose(thread, all)} find=${setFound} />`}
      <div class="turns" ref=${scroll} tabindex="-1">
        ${here.trouble && html`<div class="trouble" role="alert"><strong>${t("This conversation cannot be shown.")}</strong> ${here.trouble.message} <button type="button" class="link" onClick=${reload}>${t("Try again")}</button></div>`}
        ${here.isLoading && html`<div class="loading" role="status">${t("Loading the conversation …")}</div>`}
        ${isEmpty && sending === null && html`<${FirstRun} ask=${setExample} />`}
        <ol class="turn-list">
          ${path.length > 0 && html`<${TurnList} path=${path} run=${run} found=${found} isBusy=${running !== null || sending !== null} choose=${(all) => choose(thread, all)} send=${send} follow=${followTurn} suggest=${setExample} />`}
          ${sending !== null && html`<li class="turn" key="sending"><h2 class="question" dir="auto">${sending}</h2></li>`}
        </ol>
      </div>
      <${Latest} box=${scroll} turns=${path.length} />
      <${Composer} begun=${preload} thread=${thread} send=${send} running=${running} canSend=${canSend} stop=${stop} isFirst=${isEmpty} words=${example} taken=${() => setExample("")} following=${following} unfollow=${() => setFollowing(null)} />
    </section>
  `;
}

// One turn: the question, the flow, the steps, and the answer with its actions.
import { html } from "../core/html.js";
import { serverText, t } from "../core/words.js";
import { reload } from "../data/conversation.js";
import { attempt, say } from "../data/notices.js";
import { keepPartial, partialOf } from "../data/partials.js";
import { answerOf, isOver, isStartedHere, resumed, useRun } from "../data/runs.js";
import { draftOf } from "../model/draft.js";
import { spent } from "../model/family.js";
import { count, duration, faultOf, money, tokens } from "../model/text.js";
import { Actions } from "./actions.js";
import { Answer, Plain, Standing } from "./answer.js";
import { Badge } from "./badge.js";
import { FollowUps } from "./follow_ups.js";
import { FoundBefore } from "./found.js";
import { CompareWith } from "./choose.js";
import { Icon } from "./icons.js";
import { PersonQuestion } from "./person.js";
import { Question, QuestionEditor } from "./question.js";
import { Switcher } from "./switcher.js";
import { Work } from "./work.js";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/// `again(question)` asks for another version of the turn, `show(id)` shows another one, `follow()` continues from here.
export function Turn({ id, turn, siblings, at, isLast, isFar, isWanted, isFound, isBusy, show, again, follow, suggest }) {
  const { run, question, reply } = turn;
  const item = useRef(null);
  const [isEditing, setEditing] = useState(false);
  useEffect(() => {
    if (isWanted || isFound) item.current.scrollIntoView({ block: isFound ? "center" : "start" });
  }, [isWanted, isFound]);
  const branching = run && question && { isBusy, again: () => again(question), edit: () => setEditing(true), follow: isLast ? null : follow };
  return html`
    <li class=${`turn ${isFar ? "is-far" : ""} ${isFound ? "is-found" : ""}`} ref=${item} data-turn=${id}>
      ${isEditing ? html`<${QuestionEditor} question=${question} send=${again} close=${() => setEditing(false)} />` : html`<${Question} question=${question} run=${run} />`}
      <${Switcher} siblings=${siblings} at=${at} show=${show} />
      ${run ? html`<${Answered} run=${run} reply=${reply} branching=${branching} suggest=${isLast && !isBusy ? suggest : null} isWanted=${isWanted} />` : html`<div class="answer"><${Plain} text=${reply} /></div>`}
    </li>
  `;
}

function Answered({ run, reply, branching, suggest, isWanted }) {
  const [isOpen, setOpen] = useState(null);
  const [isComparing, setComparing] = useState(false);
  const isGoing = !isOver(run.status);
  // The events of a finished run are loaded only when its steps are opened; its badge comes with the answer.
  const isShown = isOpen ?? isGoing;
  const isWell = run.status === "done";
  const known = useRun(!isWell || isShown || isWanted ? run.run : null);
  const family = known?.family ?? null;
  const row = known?.row ?? run;
  // A run waits for one below it, but what that one waits for is a person.
  const status = row.status === "waiting" && row.waiting?.length > 0 ? "asking" : row.status;
  const box = useRef(null);
  const isSeen = useSeen(box);
  const answer = useAnswer(run.run, isSeen ? status : null);
  const isReported = useRef(false);
  const ending = useEnding(run.run, isGoing, status);
  useEffect(() => {
    // The list of turns is behind what the stream already knows.
    if (isOver(status) && !isOver(run.status) && !isReported.current) {
      isReported.current = true;
      reload();
    }
  }, [status, run.status]);
  const draft = family && status !== "done" ? draftOf(family, isOver(status)) : "";
  const isCut = status === "failed" || status === "cancelled";
  const partial = isCut ? draft || partialOf(run.run) : "";
  useEffect(() => {
    if (isCut) keepPartial(run.run, draft);
  }, [isCut, draft]);
  const toggle = () => setOpen(!isShown);
  const closeCompare = () => {
    setComparing(false);
    box.current.querySelector(".actions-compare")?.focus();
  };
  useLayoutEffect(() => {
    // The steps are shown from their beginning.
    if (isOpen && family) box.current.scrollIntoView({ block: "start" });
  }, [isOpen, family !== null]);
  return html`
    <div class="answer" ref=${box} aria-busy=${String(status === "running")}>
      <div class="answer-head">
        <${Badge} family=${family} flow=${answer?.flow ?? run.flow} outcome=${row.outcome} />
        <${State} status=${status} />
        <button type="button" class="link work-toggle" aria-expanded=${String(isShown)} onClick=${toggle}><${Summary} row=${row} family=${family} /><${Icon} name="right" size="14" /></button>
      </div>
      ${isShown && family && html`<${Work} known=${known} flow=${run.flow} />`}
      ${(row.waiting ?? []).map((open) => html`<${PersonQuestion} key=${`${open.run}${open.task}${open.attempt}`} open=${open} family=${family} done=${() => reload()} />`)}
      ${draft && !isOver(status) && html`<div class="draft"><p class="draft-mark"><span class="pulse"></span>${t("Writing; the sources are checked at the end")}</p><${Plain} text=${draft} isDraft /></div>`}
      ${partial && html`<div class="draft draft-partial"><p class="draft-mark"><${Icon} name="warn" size="14" />${t("Incomplete: the text up to the point where the run ended. Its sources were not checked.")}</p><${Plain} text=${partial} isDraft /></div>`}
      ${answer ? html`<${Standing} sentences=${answer.sentences} /><${Answer} run=${run.run} thread=${run.thread} answer=${answer} />` : !draft && !partial && reply && html`<${Plain} text=${reply} />`}
      <p class="hidden" role="status">${ending}</p>
      <${Ended} status=${status} row=${row} family=${family} />
      <${FoundBefore} status=${status} family=${family} />
      ${isOver(status) && html`<${Actions} run=${run} text=${answer?.markdown ?? (partial || reply || "")} hasAnswer=${Boolean(answer)} compare=${() => setComparing(true)} branching=${branching} />`}
      ${answer && suggest && html`<${FollowUps} answer=${answer} take=${suggest} />`}
      ${isComparing && html`<${CompareWith} run=${run} close=${closeCompare} />`}
    </div>
  `;
}

/// What is read aloud when a run ends while the page is open. The region is drawn empty first: screen readers announce changes only.
function useEnding(run, isGoing, status) {
  const isOwn = useRef(isGoing || isStartedHere(run));
  const [ending, setEnding] = useState("");
  useEffect(() => {
    if (isOwn.current) setEnding(endings()[status] ?? "");
  }, [status]);
  return ending;
}

const endings = () => ({ done: t("The answer is ready."), failed: t("The run failed. There is no answer."), cancelled: t("The run was stopped.") });

/// Whether it has been near the visible part.
function useSeen(box) {
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && (setSeen(true), observer.disconnect()), { rootMargin: "800px" });
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return isSeen;
}

function useAnswer(run, status) {
  const [answer, setAnswer] = useState(null);
  useEffect(() => {
    if (status !== "done") return setAnswer(null);
    let isWanted = true;
    answerOf(run).then(
      (found) => isWanted && setAnswer(found),
      // The message of the conversation is shown instead.
      () => {},
    );
    return () => (isWanted = false);
  }, [run, status]);
  return answer;
}

const states = () => ({ running: t("Working"), asking: t("Needs your answer"), waiting: t("Waiting"), failed: t("Failed"), cancelled: t("Stopped") });

const State = ({ status }) =>
  status === "done" ? null : html`<span class=${`stand stand-${status}`} role="status">${status === "running" && html`<span class="pulse"></span>`}${states()[status] ?? status}</span>`;

function Summary({ row, family }) {
  const sum = row.spent ?? (family ? spent(family) : null);
  const elapsed_us = row.elapsed_ms !== undefined && row.elapsed_ms !== null ? row.elapsed_ms * 1_000 : (family?.runs.get(family.root)?.clock_us ?? null);
  const parts = [sum?.calls ? count(sum.calls, "call") : "", elapsed_us ? duration(elapsed_us) : "", tokens(sum) ? count(tokens(sum), "token") : "", money(sum?.usd_micros)];
  return html`<span>${parts.filter(Boolean).join(" · ") || t("Steps")}</span>`;
}

function Ended({ status, row, family }) {
  const goOn = () =>
    attempt(async () => {
      await resumed(row, family);
      reload();
      say(t("Resumed from the last completed step."));
    });
  if (status === "cancelled") {
    return html`<div class="ended"><p>${t("Stopped")}${reasonOf(row.outcome)}. ${t("The completed steps are kept.")}</p><button type="button" class="button" onClick=${goOn}><${Icon} name="play" size="15" />${t("Resume")}</button></div>`;
  }
  if (status === "failed") {
    return html`<div class="ended ended-bad" role="alert"><p><strong>${t("This run failed.")}</strong> ${faultOf(row.outcome) || t("Open the steps above to see where.")}</p><button type="button" class="button" onClick=${goOn}><${Icon} name="play" size="15" />${t("Retry")}</button></div>`;
  }
  return null;
}

/// A reason other than that somebody pressed Stop.
const reasonOf = (outcome) => (outcome?.reason && !/^stopped/i.test(outcome.reason) ? `: ${serverText(outcome.reason)}` : "");

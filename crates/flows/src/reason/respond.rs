//! The answer, from the results or directly, and the end of a run whose model fails.
//!
//! Every answer names each step that may change something and was not carried out, whatever the model wrote.

use evidence::{Span, Trust};
use graph::{Ask, Failure, FailureKind, Go, Message, Replies};
use serde_json::json;

use super::execute::{Ended, StepExecution};
use super::plan_node::PLAN_TRIES_MAX;
use super::{AnswerMode, Reason, ReflectionResult, conclude, decide, further, reflect};
use crate::answer::{self, Answer};
use crate::claims::{self, DraftAnswer};
use crate::direct::ANSWER;
use crate::no_model;
use crate::prompt::{self, Prompt};
use crate::verify::Unchecked;

const RESPOND: Prompt = Prompt { long: include_str!("respond.md"), short: claims::PROMPT };
const DIRECT: &str = include_str!("direct.md");
const TOKENS_MAX: u32 = 1_024;
const SMALL_TOKENS_MAX: u32 = 480;
const LISTED_TOKENS_MAX: usize = 1_500;

/// How the answering call reports missing information, where another iteration is possible.
const MISSING: &str = "MISSING:";

/// An answer that needs no further call.
enum ReadyAnswer {
    /// Written by the flow, and checked.
    Answer(Box<Answer>),
    /// Written by a model in an earlier call, with the passages shown to it.
    DraftAnswer(DraftAnswer, Vec<Span>),
}

/// An answer that needs no further call: from the results, from the reflection, or from a plan without steps.
fn given(s: &Reason) -> Option<ReadyAnswer> {
    let is_achieved = s.reflections.last().is_some_and(|last| last.goal_achieved);
    if let Some(text) = s.reflections.last().and_then(|last| last.final_response.as_deref()) {
        let (_, shown) = reflect::prompt_messages(s);
        return Some(ReadyAnswer::DraftAnswer(DraftAnswer { markdown: text.to_owned(), short: None }, shown));
    }
    if is_achieved && let Some(answer) = conclude::from_results(s) {
        return Some(ReadyAnswer::Answer(Box::new(answer)));
    }
    if let Some(answer) = unplanned(s) {
        return Some(ReadyAnswer::Answer(Box::new(answer)));
    }
    let is_empty = s.plan.as_ref().is_some_and(|plan| plan.steps.is_empty()) && s.iteration == 1;
    let draft = s.draft.as_ref().filter(|draft| is_empty && !draft.contains("{{"))?;
    Some(ReadyAnswer::DraftAnswer(DraftAnswer { markdown: draft.clone(), short: None }, Vec::new()))
}

/// The answer to a possible request to act for which a small model made no usable plan. Such a model answers as if it had acted, whatever its prompt is.
fn unplanned(s: &Reason) -> Option<Answer> {
    let is_unplanned = s.iteration == 1 && s.plan_failures.len() >= PLAN_TRIES_MAX && s.results.is_empty();
    let why = s.plan_failures.last().filter(|_| is_unplanned && s.model.is_small && decide::may_act(&s.question))?;
    let why = prompt::clipped(&evidence::defused(why).split_whitespace().collect::<Vec<_>>().join(" "), WHY_TOKENS_MAX);
    let markdown = format!(
        "Nothing was done: the model made no plan that can be carried out ({why}). Ask for one step at a time, or use a larger model (`--model`)."
    );
    Some(answer::finish_draft(DraftAnswer { markdown, short: None }, &[], false))
}

/// Steps that may change something and did not succeed, one line each with what is known.
fn not_done(s: &Reason) -> Vec<(String, Span)> {
    let is_act = |doing: &&StepExecution| !s.toolbox.is_read_only(&doing.call.tool);
    let line = |doing: &StepExecution| match &doing.end {
        Some(Ended::Badly { why, .. }) => {
            let why = evidence::defused(why).split_whitespace().collect::<Vec<_>>().join(" ");
            let line = format!("Not done: {}: {}", doing.call.tool, prompt::clipped(why.trim_end_matches('.'), WHY_TOKENS_MAX));
            let span = Span { text: line.clone(), source: doing.call.tool.clone(), trust: Trust::Computed, ..Span::default() };
            Some((line, span))
        }
        Some(Ended::Well(_)) | None => None,
    };
    s.doing.iter().filter(is_act).filter_map(line).collect()
}

/// Adds the steps that were not carried out to an answer.
fn with_not_done(s: &Reason, mut draft: DraftAnswer, mut shown: Vec<Span>) -> (DraftAnswer, Vec<Span>) {
    let has_evidence = !shown.is_empty();
    for (line, span) in not_done(s) {
        draft.markdown.push_str(&format!("\n\n{line}"));
        if has_evidence {
            shown.push(span);
            draft.markdown.push_str(&format!(" [{}]", shown.len()));
        }
        draft.markdown.push('.');
    }
    (draft, shown)
}

/// Starts the check of an answer that ends the run.
pub(super) fn check_answer(s: &mut Reason, draft: DraftAnswer, shown: Vec<Span>) -> Go {
    let (draft, shown) = with_not_done(s, draft, shown);
    let unchecked = Unchecked::new(draft, shown, s.strict, s.means()).for_question(&s.full_question(), s.means());
    checked(s, unchecked)
}

pub(super) fn ask_check(s: &Reason) -> Ask {
    s.unchecked.as_ref().map_or_else(Ask::nothing, |unchecked| unchecked.ask(s.means()))
}

pub(super) fn fold_check(s: &mut Reason, replies: &Replies<'_>) -> Go {
    let mut unchecked = s.unchecked.take().unwrap_or_default();
    unchecked.fold(s.means(), replies);
    checked(s, unchecked)
}

fn checked(s: &mut Reason, unchecked: Unchecked) -> Go {
    if !unchecked.is_done() {
        s.unchecked = Some(unchecked);
        return Go::to("check");
    }
    let (answer, failure) = unchecked.finish();
    let answer = conclude::in_place_of(s, &answer).unwrap_or(answer);
    failure.into_iter().fold(end(s, answer), |go, why| go.note("check_failed", why))
}

/// Whether the answering call may request another iteration: nothing else judges a plan of one step.
fn may_ask_for_more(s: &Reason) -> bool {
    s.way == AnswerMode::Agentic && !s.model.is_small && s.may_go_on() && s.results.len() == 1 && s.results.iter().all(|one| one.success)
}

/// Tokens of the reason why a step was not carried out.
const WHY_TOKENS_MAX: usize = 80;

fn tokens_max(s: &Reason) -> u32 {
    if s.model.is_small { SMALL_TOKENS_MAX } else { TOKENS_MAX }
}

fn prompt_messages(s: &Reason) -> (Vec<Message>, Vec<Span>) {
    let issues = s.reflections.last().map(|last| last.issues_found.clone()).unwrap_or_default();
    if s.way == AnswerMode::Direct || s.spans.is_empty() {
        return (s.prompt_messages(prompt::render(DIRECT, json!({ "issues": issues }))), Vec::new());
    }
    let missing = if may_ask_for_more(s) { MISSING } else { "" };
    let instructions = prompt::render(RESPOND.of(&s.model), json!({ "issues": issues, "missing": missing }));
    answer::with_evidence(
        s.prompt_messages(claims::with_abstention(&instructions, &s.model, s.spans.len())),
        &s.spans,
        &s.full_question(),
        &s.model,
        tokens_max(s),
    )
}

pub(super) fn ask(s: &Reason) -> Ask {
    if given(s).is_some() {
        return Ask::nothing();
    }
    let (messages, shown) = prompt_messages(s);
    let schema = claims::schema(&s.model, shown.len());
    Ask::one(prompt::call(ANSWER, messages, schema, tokens_max(s)).label("answering").last())
}

pub(super) fn fold(s: &mut Reason, replies: &Replies<'_>) -> Go {
    match given(s) {
        Some(ReadyAnswer::Answer(answer)) => return end(s, *answer),
        Some(ReadyAnswer::DraftAnswer(draft, shown)) => return check_answer(s, draft, shown),
        None => {}
    }
    let (_, shown) = prompt_messages(s);
    let failure = match claims::read_reply(replies, claims::is_asked(&s.model, shown.len())) {
        Ok(draft) => {
            let missing = draft.markdown.trim_start().strip_prefix(MISSING).filter(|_| may_ask_for_more(s)).map(|rest| rest.trim().to_owned());
            if let Some(missing) = missing {
                return more(s, missing);
            }
            if let Some(go) = further::begin(s, &draft, &shown) {
                return go;
            }
            // The second lookup may have displaced the passage that the first answer was taken from.
            let restored = if draft.markdown == claims::NOT_ANSWERED { further::restore(s) } else { None };
            return restored.unwrap_or_else(|| check_answer(s, draft, shown));
        }
        Err(failure) => failure,
    };
    s.degraded.push(format!("not answered from what was found: {}", failure.message));
    if s.way == AnswerMode::Agentic && !shown.is_empty() {
        Go::to("direct").note("answer_failed", failure.message)
    } else {
        end_unanswered(s, &failure)
    }
}

/// The answering call reported that the goal is not reached: record it as a reflection and start another iteration.
fn more(s: &mut Reason, missing: String) -> Go {
    let reflection = ReflectionResult { goal_achieved: false, issues_found: vec![missing], should_continue: true, ..ReflectionResult::default() };
    let note = json!({ "goal_achieved": false, "issues_found": reflection.issues_found, "goes_on": true });
    s.reflections.push(reflection);
    Go::to("iterate").note("reflection", note)
}

/// Asks once more without evidence: the prompt may have been too long or the schema too hard.
pub(super) fn ask_direct(s: &Reason) -> Ask {
    let mut messages = vec![prompt::system(prompt::render(DIRECT, json!({ "issues": [] })))];
    messages.push(prompt::user(prompt::clipped(&s.full_question(), s.model.question_tokens())));
    Ask::one(prompt::call(ANSWER, messages, None, tokens_max(s)).label("answering directly").last())
}

pub(super) fn fold_direct(s: &mut Reason, replies: &Replies<'_>) -> Go {
    let failure = match replies.value(0).map(prompt::text_of) {
        Ok(Some(text)) => {
            // Checked against the results although they were not in the prompt: supported sentences are cited, the rest is marked.
            let shown = answer::pick(&s.spans, &s.full_question(), LISTED_TOKENS_MAX);
            return check_answer(s, DraftAnswer { markdown: claims::uncited(&text), short: None }, shown);
        }
        Ok(None) => Failure::new(FailureKind::Invalid, "the model's reply is empty"),
        Err(failure) => failure,
    };
    end_unanswered(s, &failure)
}

/// If the model is down, the run fails; after a limit or an unusable reply the passages are the answer, if there are any.
fn end_unanswered(s: &mut Reason, failure: &Failure) -> Go {
    let why = &failure.message;
    let shown = answer::pick(&s.spans, &s.full_question(), LISTED_TOKENS_MAX);
    if shown.is_empty() || no_model::is_down(failure) {
        let not_done: Vec<String> = not_done(s).into_iter().map(|(line, _)| format!(". {line}")).collect();
        return no_model::fail("reason", &format!("{why}{}", not_done.concat()), &shown);
    }
    let markdown = answer::listed(&format!("No model wrote an answer ({why}). This was found:"), &shown);
    // A list of results is not checked further.
    let (draft, shown) = with_not_done(s, DraftAnswer { markdown, short: None }, shown);
    let answer = answer::finish_draft(draft, &shown, false);
    end(s, answer)
}

pub(super) fn end(s: &mut Reason, answer: Answer) -> Go {
    let go = Go::end().note("answer", answer.summary()).say("user", s.question.as_str()).say("assistant", answer.text.as_str());
    s.answer = Some(answer);
    go
}

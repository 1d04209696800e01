//! The last step. By then the expert's answer is approved, or there is none; if that is because a model is down, the run fails.
//!
//! The answer is streamed, so it is a separate call without a schema. A large model writes the trace in a parallel call; for a small one,
//! code writes it.

use evidence::Span;
use graph::{Ask, Go, Message, Replies};
use serde::Deserialize;
use serde_json::json;

use super::state::{FinalizeReason, Kind, Panel};
use super::{Done, UNANSWERED, agents, table::Step};
use crate::answer::{self, Answer};
use crate::approval;
use crate::claims::DraftAnswer;
use crate::direct::ANSWER;
use crate::no_model;
use crate::prompt::{self, Prompt};
use crate::verify::Unchecked;

const FINALIZER: Prompt = Prompt { long: include_str!("finalizer.md"), short: include_str!("finalizer.small.md") };
const TRACE: &str = include_str!("trace.md");
const TOKENS_MAX: u32 = 1_024;
const SMALL_TOKENS_MAX: u32 = 320;
const TRACE_TOKENS_MAX: u32 = 600;
const WORD_TOKENS_MAX: usize = 120;
const DECLINED: &str = "I was asked not to carry out this plan";
/// Token limit of a list of findings when there is no answer.
const LISTED_TOKENS_MAX: usize = 1_500;

pub(super) fn ask(s: &Panel) -> Ask {
    if let Some(unchecked) = &s.unchecked {
        return unchecked.ask(s.means());
    }
    let Some(expert) = s.expert.as_ref().filter(|_| s.ending == Some(FinalizeReason::Approved)) else { return Ask::nothing() };
    let (messages, _) = prompt_messages(s, &expert.answer);
    let tokens_max = if s.model.is_small { SMALL_TOKENS_MAX } else { TOKENS_MAX };
    let mut ask = Ask::one(prompt::call(ANSWER, messages, None, tokens_max).label("answering").last());
    if !s.model.is_small {
        let words: Vec<_> = s
            .messages
            .iter()
            .map(|word| {
                json!({
                    "sender": word.sender, "receiver": word.receiver, "type": word.kind, "step_id": word.step_id,
                    "content": prompt::clipped(&word.content, WORD_TOKENS_MAX),
                })
            })
            .collect();
        let text = prompt::render(TRACE, json!({ "question": s.full_question(), "reasoning": expert.reasoning, "words": words }));
        let schema = json!({
            "type": "object",
            "required": ["final_reasoning_trace"],
            "additionalProperties": false,
            "properties": { "final_reasoning_trace": { "type": "string", "minLength": 1 } },
        });
        ask.add(
            prompt::call("trace", vec![prompt::system(text), prompt::user(s.full_question())], Some(schema), TRACE_TOKENS_MAX)
                .label("describing how the answer was reached")
                .last(),
        );
    }
    ask
}

/// Used by both `ask` and `fold`, so that an answer is checked against exactly what was shown.
fn prompt_messages(s: &Panel, approved: &str) -> (Vec<Message>, Vec<Span>) {
    let profile = &s.model;
    let messages = vec![
        prompt::system(prompt::render(FINALIZER.of(profile), json!({ "answer": approved }))),
        prompt::user(prompt::clipped(&s.full_question(), profile.question_tokens())),
    ];
    let about = format!("{}\n{approved}", s.full_question());
    answer::with_evidence(messages, &s.spans(), &about, profile, TOKENS_MAX)
}

pub(super) fn fold(s: &mut Panel, replies: &Replies<'_>) -> Done {
    #[derive(Deserialize)]
    struct Trace {
        final_reasoning_trace: String,
    }
    if let Some(mut unchecked) = s.unchecked.take() {
        unchecked.fold(s.means(), replies);
        return checked(s, unchecked);
    }
    let Some(expert) = s.expert.clone().filter(|_| s.ending == Some(FinalizeReason::Approved)) else { return Done::End(end(s)) };
    let (_, shown) = prompt_messages(s, &expert.answer);
    let (raw, trouble) = match replies.value(0).map(prompt::text_of) {
        Ok(Some(text)) => (text, None),
        // It was approved, so it is better than no answer.
        Ok(None) => (expert.answer, Some("the finalizer returned no text".to_owned())),
        Err(failure) => (expert.answer, Some(failure.to_string())),
    };
    s.final_reasoning_trace = match replies.len() {
        2 => prompt::read::<Trace>(replies, 1)
            .map(|trace| trace.final_reasoning_trace)
            .or_else(|failure| failure.output.as_deref().and_then(prompt::prose).ok_or(failure))
            .unwrap_or_else(|_| retraced(s)),
        _ => retraced(s),
    };
    let unchecked = Unchecked::new(DraftAnswer { markdown: raw, short: None }, shown, s.strict, s.means());
    let done = checked(s, unchecked);
    match (trouble, done) {
        (Some(why), Done::End(go)) => Done::End(go.note("finalizer", as_written(&why))),
        (Some(why), Done::Aside(go)) => Done::Aside(go.note("finalizer", as_written(&why))),
        (_, done) => done,
    }
}

fn as_written(why: &str) -> serde_json::Value {
    json!({ "answer": "as the expert wrote it", "why": why })
}

/// Ends with the answer, or repeats the step until it is checked.
fn checked(s: &mut Panel, unchecked: Unchecked) -> Done {
    if !unchecked.is_done() {
        s.unchecked = Some(unchecked);
        return Done::Aside(Go::to(Step::Finalizer.name()));
    }
    let (answer, failure) = unchecked.finish();
    s.final_answer = answer.body.clone();
    s.answer = Some(answer);
    agents::respond(s, Step::Finalizer, "The final answer is ready.".to_owned(), None);
    Done::End(failure.into_iter().fold(final_message(s), |go, why| go.note("check_failed", why)))
}

/// The message if there is no approved answer.
pub(super) fn end(s: &mut Panel) -> Go {
    if s.is_model_down && matches!(s.ending, Some(FinalizeReason::Error | FinalizeReason::RetriesSpent)) {
        let last = s.errors.last().map(|error| format!("{} failed: {}", error.component, error.message)).unwrap_or_default();
        let why = if s.reason.is_empty() { last } else { s.reason.clone() };
        let shown = answer::pick(&s.spans(), &s.full_question(), LISTED_TOKENS_MAX);
        return no_model::fail("panel", &why, &shown);
    }
    let answer = match s.ending {
        Some(FinalizeReason::Declined) => fixed(&approval::declined_words(DECLINED, &s.reason)),
        Some(FinalizeReason::Error) => {
            let why = s.errors.last().map_or_else(String::new, |error| {
                let kind = format!("{:?}", error.kind).to_lowercase();
                format!(" {} failed ({kind} error): {}", error.component, error.message)
            });
            let shown = answer::pick(&s.spans(), &s.full_question(), LISTED_TOKENS_MAX);
            if shown.is_empty() {
                fixed(&format!("{UNANSWERED}{why}"))
            } else {
                answer::finish(&answer::listed(&format!("{UNANSWERED}{why}\n\nThis was found until then:"), &shown), &shown, false)
            }
        }
        Some(FinalizeReason::RetriesSpent | FinalizeReason::RetryCannotHelp) if !s.reason.is_empty() => fixed(&format!("{UNANSWERED} {}", s.reason)),
        Some(FinalizeReason::RetriesSpent | FinalizeReason::RetryCannotHelp | FinalizeReason::Approved) | None => fixed(UNANSWERED),
    };
    s.final_answer = answer.body.clone();
    s.final_reasoning_trace =
        if matches!(s.ending, Some(FinalizeReason::RetriesSpent | FinalizeReason::RetryCannotHelp)) { UNANSWERED.to_owned() } else { retraced(s) };
    s.answer = Some(answer);
    final_message(s)
}

/// A fixed text that needs no sources.
fn fixed(words: &str) -> Answer {
    answer::finish(words, &[], false)
}

fn final_message(s: &Panel) -> Go {
    let answer = s.answer.clone().unwrap_or_default();
    Go::end().note("answer", answer.summary()).say("user", s.question.as_str()).say("assistant", answer.text)
}

/// The trace without a model: which agent was asked what, what was rejected and why.
fn retraced(s: &Panel) -> String {
    let mut lines = Vec::new();
    for word in &s.messages {
        let content = prompt::clipped(&word.content, WORD_TOKENS_MAX);
        let step = word.step_id.map_or_else(String::new, |index| format!(" (step {})", index + 1));
        match word.kind {
            Kind::Instruction => lines.push(format!("{}{step} was told: {content}", word.receiver)),
            Kind::Response => lines.push(format!("{}{step} said: {content}", word.sender)),
            Kind::Error => lines.push(format!("{}{step} failed: {content}", word.sender)),
        }
    }
    if let Some(expert) = s.expert.as_ref().filter(|expert| !expert.reasoning.is_empty()) {
        lines.push(format!("The expert reasoned: {}", expert.reasoning));
    }
    lines.join("\n")
}

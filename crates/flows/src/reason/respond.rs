//! The answer: from what was found, or directly; and what is said when no model is there to write it.

use evidence::Span;
use graph::{Ask, Go, Message, Replies};
use serde_json::json;

use super::{Reason, Way, reflect};
use crate::answer::{self, Answer};
use crate::claims;
use crate::direct::ANSWER;
use crate::prompt::{self, Prompt};

const RESPOND: Prompt = Prompt { long: include_str!("respond.md"), short: claims::PROMPT };
const DIRECT: &str = include_str!("direct.md");
const TOKENS_MAX: u32 = 1_024;
const SMALL_TOKENS_MAX: u32 = 480;
const LISTED_TOKENS_MAX: usize = 1_500;

/// The reflection may have given the answer already.
fn given(s: &Reason) -> Option<&str> {
    s.reflections.last().and_then(|last| last.final_response.as_deref())
}

fn tokens_max(s: &Reason) -> u32 {
    if s.model.is_small { SMALL_TOKENS_MAX } else { TOKENS_MAX }
}

fn told(s: &Reason) -> (Vec<Message>, Vec<Span>) {
    if s.way == Way::Direct || s.spans.is_empty() {
        return (s.told(prompt::render(DIRECT, json!({}))), Vec::new());
    }
    let issues = s.reflections.last().map(|last| last.issues_found.clone()).unwrap_or_default();
    let mut messages = s.told(prompt::render(RESPOND.of(&s.model), json!({ "issues": issues })));
    let question = messages.pop();
    let used = prompt::tokens_of(&messages) + question.as_ref().map_or(0, |one| prompt::tokens_of(std::slice::from_ref(one)));
    let (evidence, shown) = answer::show(&s.spans, &s.asked(), s.model.evidence_tokens(used, tokens_max(s)));
    messages.extend(evidence);
    messages.extend(question);
    (messages, shown)
}

pub(super) fn ask(s: &Reason) -> Ask {
    if given(s).is_some() {
        return Ask::nothing();
    }
    let (messages, shown) = told(s);
    let schema = claims::schema(&s.model, shown.len());
    Ask::one(prompt::call(ANSWER, messages, schema, tokens_max(s)).label("answering").last())
}

pub(super) fn fold(s: &mut Reason, replies: &Replies<'_>) -> Go {
    if let Some(text) = given(s) {
        let (_, shown) = reflect::told(s);
        let answer = answer::finish(text, &shown, s.strict);
        return end(s, answer);
    }
    let (_, shown) = told(s);
    let why = match claims::heard(replies, claims::is_asked(&s.model, shown.len())) {
        Ok(said) => {
            let answer = answer::finish_said(said, &shown, s.strict);
            return end(s, answer);
        }
        Err(failure) => failure.message,
    };
    s.degraded.push(format!("not answered from what was found: {why}"));
    if s.way == Way::Agentic && !shown.is_empty() { Go::to("direct").note("answer_failed", why) } else { last_words(s, &why) }
}

/// The short way, once more and without evidence: a prompt that was too long or a schema too hard may have been the trouble.
pub(super) fn ask_direct(s: &Reason) -> Ask {
    let mut messages = vec![prompt::system(prompt::render(DIRECT, json!({})))];
    messages.push(prompt::user(prompt::clipped(&s.asked(), s.model.question_tokens())));
    Ask::one(prompt::call(ANSWER, messages, None, tokens_max(s)).label("answering directly").last())
}

pub(super) fn fold_direct(s: &mut Reason, replies: &Replies<'_>) -> Go {
    let why = match replies.value(0).map(prompt::text_of) {
        Ok(Some(text)) => {
            // Held to what was found, although it was not shown: what agrees with it is cited, the rest is marked.
            let shown = answer::pick(&s.spans, &s.asked(), LISTED_TOKENS_MAX);
            let answer = answer::finish(&claims::uncited(&text), &shown, s.strict);
            return end(s, answer);
        }
        Ok(None) => "the model said nothing".to_owned(),
        Err(failure) => failure.message,
    };
    last_words(s, &why)
}

/// What was found is better than nothing; nothing is a failure in words that a person can read.
fn last_words(s: &mut Reason, why: &str) -> Go {
    let shown = answer::pick(&s.spans, &s.asked(), LISTED_TOKENS_MAX);
    if shown.is_empty() {
        return Go::fail(format!("no model answered: {why}"));
    }
    let answer = answer::finish(&answer::listed(&format!("No model wrote an answer ({why}). This was found:"), &shown), &shown, false);
    end(s, answer)
}

pub(super) fn end(s: &mut Reason, answer: Answer) -> Go {
    let go = Go::end().note("answer", answer.summary()).say("user", s.question.as_str()).say("assistant", answer.text.as_str());
    s.answer = Some(answer);
    go
}

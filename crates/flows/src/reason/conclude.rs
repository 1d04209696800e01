//! Answers without a further model call: the tools' results, or the planner's draft if the results support it.
//!
//! Both require that every step of the plan has succeeded, so nothing is reported as done that failed.

use evidence::{Span, Status};
use serde_json::Value;

use super::Reason;
use super::execute::{Ended, StepExecution};
use super::value::{as_text, filled_text, plain};
use crate::answer::{self, Answer};
use crate::claims::DraftAnswer;
use crate::prompt;

/// Maximum size of one step's result in an answer.
const OUTPUT_TOKENS_MAX: usize = 1_000;
/// Results up to this size replace a small model's answer that they do not support.
const SHORT_TOKENS_MAX: usize = 300;
/// Passages of one step that a line cites.
const CITED_MAX: usize = 3;

/// The answer, if the results are sufficient.
pub(super) fn from_results(s: &Reason) -> Option<Answer> {
    if s.doing.is_empty() || !s.doing.iter().all(StepExecution::is_well) {
        return None;
    }
    from_draft(s).or_else(|| from_tools(s))
}

/// The planner's draft with the values filled in, if the steps' results support every sentence.
fn from_draft(s: &Reason) -> Option<Answer> {
    let text = filled_text(s.draft.as_deref()?, |number| s.doing.get(number.wrapping_sub(1)).and_then(StepExecution::reply))?;
    let answer = answer::finish(&text, &s.spans, s.strict);
    let is_supported = answer.count(Status::Supported) > 0
        && !answer.sentences.iter().any(|sentence| sentence.status == Status::Weak || sentence.status.is_refused());
    (is_supported && answer.removed == 0).then_some(answer)
}

/// The tools' results, where the last step changed or computed something. A small model would only repeat them, less exactly; a call that
/// the user wrote out needs no more either.
fn from_tools(s: &Reason) -> Option<Answer> {
    if !(s.model.is_small || s.is_certain) || !s.doing.last().is_some_and(|last| is_conclusive(s, last)) {
        return None;
    }
    Some(returned(s.doing.iter().filter(|doing| is_conclusive(s, doing))))
}

/// The tools' results, in place of a small model's answer that they do not support.
pub(super) fn in_place_of(s: &Reason, answer: &Answer) -> Option<Answer> {
    let refused = answer.sentences.iter().filter(|sentence| sentence.status.is_refused()).count();
    let is_refuted = refused > 0 && refused >= answer.count(Status::Supported);
    let tokens = || s.doing.iter().filter_map(StepExecution::reply).map(|reply| evidence::tokens(&reply_text(reply))).sum::<usize>();
    let may_be_shown =
        s.model.is_small && is_refuted && !s.doing.is_empty() && s.doing.iter().all(StepExecution::is_well) && tokens() <= SHORT_TOKENS_MAX;
    may_be_shown.then(|| returned(s.doing.iter()))
}

/// The results of these steps as an answer, each citing its own reply.
fn returned<'d>(steps: impl Iterator<Item = &'d StepExecution>) -> Answer {
    let mut shown: Vec<Span> = Vec::new();
    let mut lines = Vec::new();
    let mut short = None;
    for doing in steps {
        let Some(reply) = doing.reply() else { continue };
        let spans = spans_of(reply);
        let numbers: String = (0..spans.len().min(CITED_MAX)).map(|at| format!("[{}]", shown.len() + at + 1)).collect();
        shown.extend(spans);
        let value = reply_text(reply);
        lines.push(match value.contains('\n') {
            true => format!("{} {numbers}:\n\n```\n{}\n```", doing.call.tool, value.replace("```", "'''")),
            false => format!("{value} {numbers}"),
        });
        short = Some(as_text(&plain(reply)).trim().to_owned());
    }
    let markdown = lines.join("\n\n");
    let short = short.filter(|short| lines.len() == 1 && !short.is_empty() && !short.contains('\n') && markdown.contains(short.as_str()));
    answer::finish_own(DraftAnswer { markdown, short }, &shown)
}

/// It may have changed something, or computed its result.
fn is_conclusive(s: &Reason, doing: &StepExecution) -> bool {
    let Some(Ended::Well(reply)) = &doing.end else { return false };
    let is_computed = spans_of(reply).iter().any(|span| span.trust == evidence::Trust::Computed);
    !s.toolbox.is_read_only(&doing.call.tool) || is_computed
}

fn spans_of(reply: &Value) -> Vec<Span> {
    reply.get("spans").and_then(|spans| serde_json::from_value(spans.clone()).ok()).unwrap_or_default()
}

/// The text of a reply: the output of code, otherwise the tool's text.
fn reply_text(reply: &Value) -> String {
    let is_code = reply.pointer("/data/stdout").is_some();
    let text = reply.get("text").and_then(Value::as_str).filter(|text| !is_code && !text.trim().is_empty());
    let text = text.map_or_else(|| as_text(&plain(reply)), str::to_owned);
    prompt::clipped(evidence::defused(&text).trim(), OUTPUT_TOKENS_MAX)
}

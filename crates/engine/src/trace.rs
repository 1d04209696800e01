//! What goes on, as spans: one for each run that is driven here, under it one for each attempt at an effect, under that the child run.
//!
//! ```text
//!   invoke_workflow team
//!     ├─ invoke_agent researcher ── invoke_workflow researcher ── chat …, execute_tool docs.search, …
//!     └─ chat …
//! ```
//!
//! Names and attributes are those of OpenTelemetry's conventions for generative AI, ours are under `baton.`. They are `tracing` spans with a target
//! of their own: without a collector a span costs one comparison, and logs do not show them.
//!
//! A span states what was called and how that ended, and has no content: no prompts, replies, arguments, questions, words of errors, or users.
//! Those may hold secrets, and readers of traces may not be allowed to read runs. What names come from outside (a model may plan a tool that does
//! not exist) are names only as long as they look like one.
//!
//! The time that a run waits for a person is no span: it is not driven then. When it goes on, that is a span of its own with the same `baton.run`.

use graph::{Effect, Failure, Fault, Job, Outcome, Reply, Start};
use serde_json::Value;
use tracing::field::Empty;
use tracing::{Level, Span};

use crate::attempt::AttemptResult;
use crate::{RunResult, RunState};

/// The target of all spans. A subscriber can filter them by it.
pub const TARGET: &str = "baton_spans";

/// The span of a run that begins to be driven, below the span it was called in. `None`: no spans are collected.
pub(crate) fn run(facts: &Start) -> Option<Span> {
    let span = tracing::span!(
        target: TARGET,
        Level::TRACE,
        "run",
        otel.name = format!("invoke_workflow {}", facts.flow),
        otel.kind = "internal",
        gen_ai.operation.name = "invoke_workflow",
        gen_ai.workflow.name = %facts.flow,
        gen_ai.conversation.id = name(facts.thread.as_str()),
        baton.run = name(facts.run.as_str()),
        baton.thread = name(facts.thread.as_str()),
        baton.flow = %facts.flow,
        baton.depth = i64::from(facts.depth),
        baton.status = Empty,
        baton.tokens_in = Empty,
        baton.tokens_out = Empty,
        baton.cost_usd = Empty,
        "error.type" = Empty,
        otel.status_code = Empty,
    );
    collected(span)
}

/// Where the run that is driven in the current span was left.
pub(crate) fn left(at: &RunState) {
    if !is_collected() {
        return;
    }
    let span = Span::current();
    let status = match at {
        RunState::Going => "running",
        RunState::Parked(waiting) if waiting.is_empty() => "waiting",
        RunState::Parked(_) => "asking",
        RunState::Lost(_) => "left",
        RunState::Over(closing) => {
            spent(&span, closing);
            match &closing.outcome {
                Outcome::Done { .. } => "done",
                Outcome::Cancelled { .. } => "cancelled",
                Outcome::Failed { fault } => {
                    failed(
                        &span,
                        match fault {
                            Fault::Flow { .. } => "flow",
                            Fault::Steps { .. } => "steps",
                            Fault::Ask { .. } => "ask",
                            Fault::Edge { .. } => "edge",
                            Fault::Crash { .. } => "crash",
                        },
                    );
                    "failed"
                }
            }
        }
    };
    span.record("baton.status", status);
}

/// A span of an attempt: the fields of its kind of effect, and those that all kinds have.
macro_rules! effect_span {
    ($($own:tt)*) => {
        tracing::span!(
            target: TARGET,
            Level::TRACE,
            "effect",
            $($own)*
            baton.run = Empty,
            baton.node = Empty,
            baton.task = Empty,
            baton.attempt = Empty,
            baton.effect_key = Empty,
            baton.wait_ms = Empty,
            baton.cost_usd = Empty,
            "error.type" = Empty,
            otel.status_code = Empty,
        )
    };
}

/// An attempt at an effect, under the run's span.
pub(crate) struct Attempt {
    span: Span,
    has_ended: bool,
}

impl Attempt {
    /// `None`: no spans are collected. A local flow that is called as an agent is not an outgoing call.
    pub(crate) fn at(job: &Job, is_ours: impl Fn() -> bool) -> Option<Attempt> {
        if !is_collected() {
            return None;
        }
        // The fields of a span are fixed where it is written, so each kind of effect has its own.
        let span = match &*job.effect {
            Effect::CallModel(call) => effect_span!(
                otel.name = "chat",
                otel.kind = "client",
                gen_ai.operation.name = "chat",
                gen_ai.request.model = Empty,
                gen_ai.request.max_tokens = call.tokens_max.map(i64::from),
                gen_ai.response.model = Empty,
                gen_ai.response.finish_reasons = Empty,
                gen_ai.usage.input_tokens = Empty,
                gen_ai.usage.output_tokens = Empty,
                gen_ai.conversation.id = name(job.thread.as_str()),
                baton.purpose = name(&call.purpose),
                baton.models_tried = Empty,
            ),
            Effect::CallTool(call) => effect_span!(
                otel.name = format!("execute_tool {}", name(&call.tool)),
                otel.kind = "internal",
                gen_ai.operation.name = "execute_tool",
                gen_ai.tool.name = name(&call.tool),
                gen_ai.tool.call.id = %job.key,
            ),
            Effect::CallAgent(call) => effect_span!(
                otel.name = format!("invoke_agent {}", name(&call.agent)),
                otel.kind = if is_ours() { "internal" } else { "client" },
                gen_ai.operation.name = "invoke_agent",
                gen_ai.agent.name = name(&call.agent),
                gen_ai.conversation.id = name(job.thread.as_str()),
                baton.parked = Empty,
            ),
            // Questions are the run's to wait for, not an attempt's.
            Effect::AskPerson(_) => return None,
        };
        let span = collected(span)?;
        if let Effect::CallModel(call) = &*job.effect
            && let Some(model) = &call.model
        {
            span.record("gen_ai.request.model", name(model));
        }
        span.record("baton.run", name(job.run.as_str()));
        span.record("baton.node", &*job.node);
        span.record("baton.task", tracing::field::display(job.task));
        span.record("baton.attempt", i64::from(job.attempt));
        span.record("baton.effect_key", tracing::field::display(job.key));
        if job.after_ms > 0 {
            span.record("baton.wait_ms", whole(job.after_ms));
        }
        Some(Attempt { span, has_ended: false })
    }

    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    pub(crate) fn result(mut self, effect: &Effect, result: &AttemptResult) {
        self.has_ended = true;
        match result {
            AttemptResult::Replied { reply, .. } => self.replied(effect, reply),
            AttemptResult::InDoubt { .. } => failed(&self.span, "in_doubt"),
            AttemptResult::ChildParked { .. } => {
                self.span.record("baton.parked", true);
            }
            AttemptResult::Lost(_) => failed(&self.span, "lost"),
        }
    }

    fn replied(&self, effect: &Effect, reply: &Reply) {
        let span = &self.span;
        if let Effect::CallModel(call) = effect {
            let about = |field: &str| reply.about.as_ref().and_then(|about| about.get(field));
            let word = |field: &str| about(field).and_then(Value::as_str);
            // A reply names the model that answered; if none did, the requested one is the first that was tried.
            let tried = about("tried").and_then(Value::as_array);
            let asked = word("model").or_else(|| tried.and_then(|all| all.first()).and_then(Value::as_str));
            if let Some(asked) = asked.filter(|_| call.model.is_none()) {
                span.record("gen_ai.request.model", name(asked));
            }
            if let Some(answered) = word("answered_as").or_else(|| word("model")) {
                span.record("gen_ai.response.model", name(answered));
            }
            if let Some(finish) = word("finish") {
                span.record("gen_ai.response.finish_reasons", name(finish));
            }
            if let Some(tried) = tried {
                span.record("baton.models_tried", whole(tried.len() as u64));
            }
            if reply.usage.tokens() > 0 {
                span.record("gen_ai.usage.input_tokens", whole(reply.usage.tokens_in));
                span.record("gen_ai.usage.output_tokens", whole(reply.usage.tokens_out));
            }
        }
        if reply.usage.usd_micros > 0 {
            span.record("baton.cost_usd", reply.usage.usd_micros as f64 / 1e6);
        }
        if let Err(Failure { kind, .. }) = &reply.result {
            failed(span, &kind.to_string().replace(' ', "_"));
        }
    }
}

impl Drop for Attempt {
    /// Cancelled, or let go because everything stops.
    fn drop(&mut self) {
        if !self.has_ended {
            failed(&self.span, "cancelled");
        }
    }
}

fn is_collected() -> bool {
    tracing::enabled!(target: TARGET, Level::TRACE)
}

fn collected(span: Span) -> Option<Span> {
    (!span.is_disabled()).then_some(span)
}

fn spent(span: &Span, closing: &RunResult) {
    span.record("baton.tokens_in", whole(closing.spent.tokens_in));
    span.record("baton.tokens_out", whole(closing.spent.tokens_out));
    span.record("baton.cost_usd", closing.spent.usd_micros as f64 / 1e6);
}

/// The kind of a failure without its message, which may quote private text.
fn failed(span: &Span, kind: &str) {
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Names of tools, agents, models, threads: anything else may be untrusted text.
fn name(text: &str) -> &str {
    const BYTES_MAX: usize = 128;
    let is_one = text.len() <= BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_one { text } else { "other" }
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn what_does_not_look_like_a_name_is_not_repeated() {
        for text in ["docs.search", "compat/here/small:7b", "019a-7f_x", ""] {
            assert_eq!(name(text), text);
        }
        let long = "x".repeat(129);
        for text in ["my password is hunter2", "naïve", "two\nlines", &long] {
            assert_eq!(name(text), "other");
        }
    }
}

//! The trait that performs effects, which models, tools and agents implement, and what they share.
//!
//! The engine depends on this crate and on none of the implementations (`models`, `embedded-model`, `mcp-hub`, `agents`, `scripted`).
//!
//! Deliberately absent: deciding. Whether to try again, what to do with a failure and when to stop is decided in `graph`.

#![warn(missing_docs)]

pub mod handlers;
pub mod held_call;

use std::sync::Arc;

use async_trait::async_trait;
use graph::{Effect, Job, Objection, Reply};

/// Performs effects: what a flow asks for becomes a reply.
#[async_trait]
pub trait EffectHandler: Send + Sync + 'static {
    /// Whether this effect may be performed twice. Called before the effect is performed, so it must not do any IO.
    fn repeatability(&self, job: &Job) -> Repeatability;

    /// Why a person must agree before this is performed, if one must: it may change something, and either the tool is not trusted or its
    /// arguments may not come from the user. Called before each attempt, so it must not do any IO. Whether the user has agreed
    /// before is checked by the caller.
    fn objection(&self, _job: &Job) -> Option<Objection> {
        None
    }

    /// Whether this may change something that others see, for the audit log. Asked before it is performed, so it must not call out.
    fn may_change(&self, job: &Job) -> bool {
        matches!(&*job.effect, Effect::CallTool(_)) && self.repeatability(job) != Repeatability::Repeatable
    }

    /// Performs the effect. The caller drops the future at the deadline or when the run has ended.
    async fn perform(&self, job: &Job, progress: &Progress) -> Reply;

    /// After a crash, for an effect that is `Checkable`: whether it happened.
    async fn look_up(&self, _job: &Job) -> LookUp {
        LookUp::Unknown
    }

    /// Called after the run was cancelled or failed while this was in flight and the future of `perform` was dropped: stops work that continues without this
    /// process, such as a task of a remote agent. Best effort: what cannot be reached continues.
    async fn abandon(&self, _job: &Job) {}
}

#[async_trait]
impl<W: EffectHandler + ?Sized> EffectHandler for Arc<W> {
    fn repeatability(&self, job: &Job) -> Repeatability {
        (**self).repeatability(job)
    }

    fn objection(&self, job: &Job) -> Option<Objection> {
        (**self).objection(job)
    }

    fn may_change(&self, job: &Job) -> bool {
        (**self).may_change(job)
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        (**self).perform(job, progress).await
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        (**self).look_up(job).await
    }

    async fn abandon(&self, job: &Job) {
        (**self).abandon(job).await;
    }
}

/// What performing an effect twice would mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeatability {
    /// Performing it twice has the same effect as once: it only reads, or the receiver recognises the key.
    Repeatable,
    /// Changes something, and `look_up` can find out whether it did.
    Checkable,
    /// Changes something, and only a person can find out whether it did.
    Once,
}

/// What became of an effect that was in flight when a process ended.
#[derive(Clone, Debug, PartialEq)]
pub enum LookUp {
    /// It happened, and this was the reply.
    Done(Reply),
    /// It did not happen.
    NotDone,
    /// It cannot be found out.
    Unknown,
}

/// Receives the output of an effect while it is performed, such as tokens. It is not stored.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<Listener>>);

type Listener = dyn Fn(&str) + Send + Sync;

impl Progress {
    /// Passes every piece of text to `listener`.
    pub fn to(listener: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Progress(Some(Arc::new(listener)))
    }

    /// For callers that do not listen.
    pub fn nowhere() -> Self {
        Progress(None)
    }

    /// Whether there is a listener; an answer without one need not be streamed.
    pub fn has_listener(&self) -> bool {
        self.0.is_some()
    }

    /// Sends a piece of the output to the listener, if there is one.
    pub fn send(&self, text: &str) {
        if let Some(listener) = &self.0 {
            listener(text);
        }
    }
}

/// The tool that lists the agents that can be called. It is answered by the performer of agents, not by a tool server.
pub const AGENT_LIST_TOOL: &str = "registry.agents";

/// At most `bytes_max` bytes of a foreign text, with a note on how long it was.
pub fn clip(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes_max);
    format!("{}… ({} bytes in all)", &text[..end], text.len())
}

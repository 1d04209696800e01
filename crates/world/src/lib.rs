//! Performs effects. The only crate that calls out.
//!
//! The trait that all stand behind, every kind of [`model`], the hub of [`tool`]s, [`agent`]s elsewhere, a [`script`]ed world, and [`faults`] that can be laid over any world.
//!
//! Deliberately absent: deciding. Whether to try again, what to do with a failure, when to stop is `graph`'s.

pub mod agent;
pub mod faults;
pub mod mangled;
pub mod model;
pub mod rooms;
pub mod script;
pub mod tool;
pub mod traceparent;

use std::sync::Arc;

use async_trait::async_trait;
use graph::{Job, Objection, Reply};

#[async_trait]
pub trait World: Send + Sync + 'static {
    /// What performing this twice would mean. Asked before anything is done, so it must not call out.
    fn nature(&self, job: &Job) -> Nature;

    /// Why a person must agree before this is performed, if one must: it may change something, and either nobody vouches for the tool or what it
    /// was given may not be the user's own idea. Asked each time before it is performed, so it must not call out. Whether the user has agreed
    /// beforehand is the caller's to check.
    fn objection(&self, _job: &Job) -> Option<Objection> {
        None
    }

    /// Does it, and says what came of it. The caller watches the deadline and drops the future when time or the run is over.
    async fn perform(&self, job: &Job, progress: &Progress) -> Reply;

    /// After a crash, for what is `Checkable`: did it happen?
    async fn look_up(&self, _job: &Job) -> LookUp {
        LookUp::Unknown
    }
}

/// Shared by the one who drives and the one who looks on.
#[async_trait]
impl<W: World + ?Sized> World for Arc<W> {
    fn nature(&self, job: &Job) -> Nature {
        (**self).nature(job)
    }

    fn objection(&self, job: &Job) -> Option<Objection> {
        (**self).objection(job)
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        (**self).perform(job, progress).await
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        (**self).look_up(job).await
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// Reading, or the other side knows the key: twice is as good as once.
    Repeatable,
    /// Changes the world, and one can find out whether it did.
    Checkable,
    /// Changes the world, and only a person could find out.
    Once,
}

#[derive(Clone, Debug, PartialEq)]
pub enum LookUp {
    /// It happened, and this was the reply.
    Done(Reply),
    /// It did not happen.
    NotDone,
    Unknown,
}

/// Where an effect tells what it is doing while it does it: tokens as they come. Nothing told here is kept.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<Listener>>);

type Listener = dyn Fn(&str) + Send + Sync;

impl Progress {
    pub fn to(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Progress(Some(Arc::new(tell)))
    }

    /// For callers that do not listen.
    pub fn nowhere() -> Self {
        Progress(None)
    }

    /// Whether it is worth the trouble: an answer that nobody follows need not be streamed.
    pub fn is_heard(&self) -> bool {
        self.0.is_some()
    }

    pub fn tell(&self, text: &str) {
        if let Some(tell) = &self.0 {
            tell(text);
        }
    }
}

/// Jobs as a run hands them out, for tests: one for each effect, all of one ask.
#[cfg(test)]
fn jobs(effects: &[graph::Effect]) -> Vec<Job> {
    let asked = effects.to_vec();
    let ask = move |_: &serde_json::Value| graph::Ask { requests: asked.iter().cloned().map(graph::Request::from).collect() };
    let fold = |_: &mut serde_json::Value, _: &graph::Replies<'_>| graph::Go::end();
    let graph = graph::Graph::of::<serde_json::Value>("jobs").node("ask", (ask, fold), &[graph::END]).build().unwrap();
    let mut run = graph::Run::start(&graph, graph::Start::new("jobs", "thread", "run", serde_json::Value::Null)).unwrap();
    match run.next() {
        graph::Next::Perform(jobs) => jobs,
        other => panic!("every effect is due at once, but {other:?}"),
    }
}

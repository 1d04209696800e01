//! Passes each effect to the handler of its kind: models, tools or agents.

use std::sync::Arc;

use async_trait::async_trait;
use graph::{Effect, Failure, FailureKind, Job, Reply};

use crate::{LookUp, Nature, Progress, World};

/// A handler for each kind of effect. Effects without a handler are refused.
#[derive(Clone, Default)]
pub struct Rooms {
    /// Answers model calls.
    pub models: Option<Arc<dyn World>>,
    /// Answers tool calls.
    pub tools: Option<Arc<dyn World>>,
    /// Agents that are not flows of this engine.
    pub agents: Option<Arc<dyn World>>,
}

impl Rooms {
    fn room(&self, job: &Job) -> Option<&Arc<dyn World>> {
        match &*job.effect {
            Effect::CallModel(_) => self.models.as_ref(),
            Effect::CallTool(call) if call.tool == crate::AGENT_LIST_TOOL => self.agents.as_ref(),
            Effect::CallTool(_) => self.tools.as_ref(),
            // Local flows never come here, and people are the engine's own.
            Effect::CallAgent(_) => self.agents.as_ref(),
            Effect::AskPerson(_) => None,
        }
    }
}

#[async_trait]
impl World for Rooms {
    fn nature(&self, job: &Job) -> Nature {
        // What nobody performs changes nothing.
        self.room(job).map_or(Nature::Repeatable, |room| room.nature(job))
    }

    fn objection(&self, job: &Job) -> Option<graph::Objection> {
        self.room(job).and_then(|room| room.objection(job))
    }

    fn may_change(&self, job: &Job) -> bool {
        self.room(job).is_some_and(|room| room.may_change(job))
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        match self.room(job) {
            Some(room) => room.perform(job, progress).await,
            None => {
                let words = format!("nobody here answers {} {:?}", job.effect.kind(), job.effect.name());
                Reply::failed(Failure::new(FailureKind::Refused, words))
            }
        }
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        match self.room(job) {
            Some(room) => room.look_up(job).await,
            None => LookUp::Unknown,
        }
    }
}

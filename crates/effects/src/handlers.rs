//! Passes each effect to the handler of its kind: models, tools or agents.

use std::sync::Arc;

use async_trait::async_trait;
use graph::{Effect, Failure, FailureKind, Job, Reply};

use crate::{EffectHandler, LookUp, Progress, Repeatability};

/// A handler for each kind of effect. Effects without a handler are refused.
#[derive(Clone, Default)]
pub struct EffectHandlers {
    /// Answers model calls.
    pub models: Option<Arc<dyn EffectHandler>>,
    /// Answers tool calls.
    pub tools: Option<Arc<dyn EffectHandler>>,
    /// Agents that are not flows of this engine.
    pub agents: Option<Arc<dyn EffectHandler>>,
}

impl EffectHandlers {
    fn handler_for(&self, job: &Job) -> Option<&Arc<dyn EffectHandler>> {
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
impl EffectHandler for EffectHandlers {
    fn repeatability(&self, job: &Job) -> Repeatability {
        // An effect without a handler changes nothing.
        self.handler_for(job).map_or(Repeatability::Repeatable, |handler| handler.repeatability(job))
    }

    fn objection(&self, job: &Job) -> Option<graph::Objection> {
        self.handler_for(job).and_then(|handler| handler.objection(job))
    }

    fn may_change(&self, job: &Job) -> bool {
        self.handler_for(job).is_some_and(|handler| handler.may_change(job))
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        match self.handler_for(job) {
            Some(handler) => handler.perform(job, progress).await,
            None => {
                let words = format!("no handler for {} {:?}", job.effect.kind(), job.effect.name());
                Reply::failed(Failure::new(FailureKind::Refused, words))
            }
        }
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        match self.handler_for(job) {
            Some(handler) => handler.look_up(job).await,
            None => LookUp::Unknown,
        }
    }

    async fn abandon(&self, job: &Job) {
        if let Some(handler) = self.handler_for(job) {
            handler.abandon(job).await;
        }
    }
}

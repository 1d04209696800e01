//! Models and tools with fixed replies after a fixed time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use effects::{EffectHandler, Progress, Repeatability};
use flows::prompt;
use graph::{Effect, Failure, FailureKind, Job, Reply};
use mcp_hub::LIST;
use serde_json::Value;

use super::cases::Case;

pub(super) struct FixedHandler {
    /// By the purpose of a call, or the name of a tool.
    replies: BTreeMap<&'static str, Value>,
    model: Duration,
    tool: Duration,
    /// The handler that lists tools, if that is measured too.
    registry: Option<Arc<dyn EffectHandler>>,
    is_counting: AtomicBool,
    model_calls: AtomicU64,
    tokens: AtomicU64,
    first_model_call: Mutex<Option<Instant>>,
}

pub(super) struct CallCounts {
    pub(super) model_calls: u64,
    pub(super) tokens: u64,
}

impl FixedHandler {
    pub(super) fn at_once(case: &Case) -> FixedHandler {
        FixedHandler {
            replies: case.replies.clone(),
            model: Duration::ZERO,
            tool: Duration::ZERO,
            registry: None,
            is_counting: AtomicBool::new(false),
            model_calls: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
            first_model_call: Mutex::new(None),
        }
    }

    pub(super) fn after(self, model: Duration, tool: Duration) -> FixedHandler {
        FixedHandler { model, tool, ..self }
    }

    pub(super) fn listing(self, registry: Arc<dyn EffectHandler>) -> FixedHandler {
        FixedHandler { registry: Some(registry), ..self }
    }

    pub(super) fn counting(self) -> FixedHandler {
        FixedHandler { is_counting: AtomicBool::new(true), ..self }
    }

    /// Counting takes time itself.
    pub(super) fn stop_counting(&self) {
        self.is_counting.store(false, Ordering::Relaxed);
    }

    pub(super) fn counted(&self) -> CallCounts {
        CallCounts { model_calls: self.model_calls.load(Ordering::Relaxed), tokens: self.tokens.load(Ordering::Relaxed) }
    }

    /// Time of the first model call since this was last called.
    pub(super) fn first_model_call(&self) -> Option<Instant> {
        self.first_model_call.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, call: &graph::ModelCall, reply: &Value) {
        self.first_model_call.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
        if self.is_counting.load(Ordering::Relaxed) {
            let tokens_out = prompt::tokens_of(&[prompt::message("assistant", prompt::text_of(reply).unwrap_or_else(|| reply.to_string()))]);
            let tokens_in = prompt::tokens_of(&call.messages);
            self.model_calls.fetch_add(1, Ordering::Relaxed);
            self.tokens.fetch_add((tokens_in + tokens_out) as u64, Ordering::Relaxed);
        }
    }
}

#[async_trait]
impl EffectHandler for FixedHandler {
    fn repeatability(&self, _: &Job) -> Repeatability {
        Repeatability::Repeatable
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        if let Some(registry) = self.registry.as_ref().filter(|_| job.effect.name() == LIST) {
            // The listing is measured; the plan uses the one that matches the replies.
            drop(registry.perform(job, progress).await);
        }
        let Some(reply) = self.replies.get(job.effect.name()) else {
            return Reply::failed(Failure::new(FailureKind::Refused, format!("there is no scripted reply for {}", job.effect.name())));
        };
        let delay = match &*job.effect {
            Effect::CallModel(call) => {
                self.note(call, reply);
                self.model
            }
            // It is always cached.
            effect if effect.name() == LIST => Duration::ZERO,
            _ => self.tool,
        };
        // Even a zero sleep waits for the timer's next tick.
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        Reply::ok(reply.clone()).taking_us(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX))
    }
}

//! The sample flows' scripted handler, with faults and the gate.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use effects::{EffectHandler, LookUp, Progress, Repeatability};
use graph::{Job, Reply};
use scripted::faults::{Fault, FaultPlan, Faulty};
use scripted::{ExternalState, ScriptedHandler};

use super::dice::{Dice, hash};
use super::gate::Gate;
use super::ledger::Ledger;

pub struct SampleHandler {
    pub inner: Faulty<ScriptedHandler>,
    pub plan: FaultPlan,
    pub shuffle: u64,
    pub outside: Arc<ExternalState>,
    pub gate: Arc<Gate>,
    pub ledger: Arc<Ledger>,
}

#[async_trait]
impl EffectHandler for SampleHandler {
    fn repeatability(&self, job: &Job) -> Repeatability {
        self.inner.repeatability(job)
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        let repeatability = self.repeatability(job);
        self.gate.pass(|| format!("begin  {} {} attempt {}: {} {}", job.run, job.task, job.attempt, job.effect.kind(), job.effect.name())).await;
        self.ledger.begin(job, repeatability);
        let mut dice = Dice::new(&[self.plan.seed, 10, self.shuffle, hash(&job.key.bytes()), u64::from(job.attempt)]);
        tokio::time::sleep(Duration::from_millis(dice.below(8))).await;
        let is_lost = self.plan.fault(job.key, job.attempt) == Fault::LoseReply;
        let mut reply = match repeatability {
            // A lost reply of an effect that only a person can decide is a failure without a cut, and `done` when a cut makes the person
            // check: a legitimate difference, so it is excluded.
            Repeatability::Once if is_lost => self.inner.inner().perform(job, progress).await,
            Repeatability::Once | Repeatability::Checkable | Repeatability::Repeatable => self.inner.perform(job, progress).await,
        };
        // A reply without a duration must not be measured by the shuffled clock.
        reply.took_us = reply.took_us.max(1);
        if self.outside.changes().get(&job.key).is_some_and(|&times| times > 1) {
            self.ledger.trouble(format!("{} {} happened twice", job.run, job.task));
        }
        self.gate.pass(|| format!("ended  {} {} attempt {}", job.run, job.task, job.attempt)).await;
        reply
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        self.gate.pass(|| format!("look up {} {} attempt {}", job.run, job.task, job.attempt)).await;
        self.inner.look_up(job).await
    }
}

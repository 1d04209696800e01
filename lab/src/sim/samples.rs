//! The sample flows' scripted world, with faults over it and the gate around it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use effects::{LookUp, Nature, Progress, World};
use graph::{Job, Reply};
use scripted::faults::{Fault, FaultPlan, Faulty};
use scripted::{Outside, ScriptedWorld};

use super::dice::{Dice, hash};
use super::gate::Gate;
use super::ledger::Ledger;

pub struct SampleWorld {
    pub inner: Faulty<ScriptedWorld>,
    pub plan: FaultPlan,
    pub shuffle: u64,
    pub outside: Arc<Outside>,
    pub gate: Arc<Gate>,
    pub ledger: Arc<Ledger>,
}

#[async_trait]
impl World for SampleWorld {
    fn nature(&self, job: &Job) -> Nature {
        self.inner.nature(job)
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        let nature = self.nature(job);
        self.gate.pass(|| format!("begin  {} {} attempt {}: {} {}", job.run, job.task, job.attempt, job.effect.kind(), job.effect.name())).await;
        self.ledger.begin(job, nature);
        let mut dice = Dice::new(&[self.plan.seed, 10, self.shuffle, hash(&job.key.bytes()), u64::from(job.attempt)]);
        tokio::time::sleep(Duration::from_millis(dice.below(8))).await;
        let is_lost = self.plan.fault(job.key, job.attempt) == Fault::LoseReply;
        let mut reply = match nature {
            // A lost reply to what only a person can vouch for is a failure when nothing is cut, and `done` when a cut makes the
            // person look: rightly different, and so left out.
            Nature::Once if is_lost => self.inner.inner().perform(job, progress).await,
            Nature::Once | Nature::Checkable | Nature::Repeatable => self.inner.perform(job, progress).await,
        };
        // Whatever took no time of its own must not be measured by this world's shuffled time.
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

//! Faults laid over any world: what goes wrong follows from the seed and from which attempt at which effect it is, and from
//! nothing else. Whatever order things happen in, and however often a crash has them happen again, the same attempt meets
//! the same fault.
//!
//! ```text
//!                      ┌ refused ─────────────► network failure, retry             nothing happened
//!   attempt ─► delay ──┼ performed ───────────► the reply
//!                      ├ performed, reply lost ─► by nature, see `Faulty::lost`
//!                      └ performed twice ─────► the first reply                    only if it is repeatable
//! ```

use std::time::Duration;

use async_trait::async_trait;
use graph::{Failure, FailureKind, Job, Key, Reply};

use effects::{EffectHandler, LookUp, Progress, Repeatability};

/// A performer whose calls fail according to a plan.
pub struct Faulty<W> {
    inner: W,
    plan: FaultPlan,
}

impl<W: EffectHandler> Faulty<W> {
    /// Puts the faults of `plan` before `inner`.
    pub fn new(inner: W, plan: FaultPlan) -> Self {
        Faulty { inner, plan }
    }

    /// The performer behind the faults.
    pub fn inner(&self) -> &W {
        &self.inner
    }

    /// It was performed, and the connection was lost before the reply arrived. The reply depends on its repeatability: a repeatable
    /// effect is retried; a checkable one is looked up, as after a crash; for all others the result is unknown and it is not
    /// retried.
    async fn lose_reply(&self, job: &Job, repeatability: Repeatability) -> Reply {
        let network = || Reply::failed(Failure::new(FailureKind::Network, "the connection was lost before the reply came (a planned fault)").retry());
        let in_doubt = || {
            Reply::failed(Failure::new(
                FailureKind::InDoubt,
                "the connection was lost before the reply came, and it may have happened (a planned fault)",
            ))
        };
        match repeatability {
            Repeatability::Repeatable => network(),
            Repeatability::Checkable => match self.inner.look_up(job).await {
                LookUp::Done(reply) => reply,
                LookUp::NotDone => network(),
                LookUp::Unknown => in_doubt(),
            },
            Repeatability::Once => in_doubt(),
        }
    }
}

#[async_trait]
impl<W: EffectHandler> EffectHandler for Faulty<W> {
    fn repeatability(&self, job: &Job) -> Repeatability {
        self.inner.repeatability(job)
    }

    fn objection(&self, job: &Job) -> Option<graph::Objection> {
        self.inner.objection(job)
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        let delay_ms = self.plan.delay_ms(job.key, job.attempt);
        if delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        }
        let repeatability = self.inner.repeatability(job);
        let mut reply = match self.plan.fault(job.key, job.attempt) {
            Fault::None => self.inner.perform(job, progress).await,
            Fault::FailBefore => Reply::failed(Failure::new(FailureKind::Network, "the connection was refused (a planned fault)").retry()),
            Fault::LoseReply => {
                let lost = self.inner.perform(job, progress).await;
                // Cost and time count although the reply was lost.
                let reply = self.lose_reply(job, repeatability).await;
                Reply { usage: lost.usage, took_us: lost.took_us, ..reply }
            }
            Fault::Duplicate => {
                let first = self.inner.perform(job, progress).await;
                match repeatability {
                    Repeatability::Repeatable => drop(self.inner.perform(job, &Progress::nowhere()).await),
                    Repeatability::Checkable | Repeatability::Once => {}
                }
                first
            }
        };
        reply.took_us = reply.took_us.saturating_add(delay_ms.saturating_mul(1_000));
        reply
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        self.inner.look_up(job).await
    }

    async fn abandon(&self, job: &Job) {
        self.inner.abandon(job).await;
    }
}

/// How much goes wrong. The default is nothing. The percentages share one roll of a hundred-sided die, so together they mean
/// what they say as long as they stay within 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// The same seed gives the same faults.
    pub seed: u64,
    /// Fails before anything is performed.
    pub fail_pct: u32,
    /// Performs, and loses the reply.
    pub lose_reply_pct: u32,
    /// Performs twice, where that is allowed.
    pub duplicate_pct: u32,
    /// The longest delay of a call, in milliseconds.
    pub delay_ms_max: u64,
    /// Later attempts at an effect meet no faults but delay. With one less than a flow's own attempts, whatever may be
    /// repeated succeeds in the end.
    pub faulty_attempts_max: u32,
}

impl Default for FaultPlan {
    fn default() -> Self {
        FaultPlan { seed: 0, fail_pct: 0, lose_reply_pct: 0, duplicate_pct: 0, delay_ms_max: 0, faulty_attempts_max: u32::MAX }
    }
}

/// What goes wrong with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It fails before anything is performed.
    FailBefore,
    /// It is performed, and the reply is lost.
    LoseReply,
    /// It is performed twice.
    Duplicate,
}

impl FaultPlan {
    /// What goes wrong with this attempt.
    pub fn fault(&self, key: Key, attempt: u32) -> Fault {
        if attempt > self.faulty_attempts_max {
            return Fault::None;
        }
        let rolled = self.fault_hash(key, attempt, "fault") % 100;
        let mut up_to = 0;
        for (pct, fault) in [(self.fail_pct, Fault::FailBefore), (self.lose_reply_pct, Fault::LoseReply), (self.duplicate_pct, Fault::Duplicate)] {
            up_to += u64::from(pct);
            if rolled < up_to {
                return fault;
            }
        }
        Fault::None
    }

    /// How long this attempt is delayed.
    pub fn delay_ms(&self, key: Key, attempt: u32) -> u64 {
        match self.delay_ms_max {
            0 => 0,
            most => self.fault_hash(key, attempt, "delay") % most.saturating_add(1),
        }
    }

    /// FNV over the bytes, then a finishing mix. Written out because the standard library's hashes may change with its
    /// version, and a seed from an old failure should still find it.
    fn fault_hash(&self, key: Key, attempt: u32, what: &str) -> u64 {
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let key = key.to_string();
        let seed = self.seed.to_le_bytes();
        let attempt = attempt.to_le_bytes();
        for byte in seed.iter().chain(key.as_bytes()).chain(&attempt).chain(what.as_bytes()) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ (hash >> 31)
    }
}

#[cfg(test)]
#[path = "faults_tests.rs"]
mod tests;

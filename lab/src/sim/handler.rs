//! The effect handler of random flows. Replies follow from the seed, the request and the attempt; their timing follows from this process's
//! shuffle, and must not affect the result.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use effects::{EffectHandler, LookUp, Progress, Repeatability};
use graph::{Digest, Effect, Failure, FailureKind, Job, Reply, Usage};
use serde_json::{Value, json};

use super::dice::{Dice, hash};
use super::gate::Gate;
use super::ledger::Ledger;

pub struct SimHandler {
    pub seed: u64,
    /// A different order of replies for each process.
    pub shuffle: u64,
    /// Whether outcomes are sometimes unknown.
    pub has_doubts: bool,
    pub gate: Arc<Gate>,
    pub ledger: Arc<Ledger>,
}

const DELAY_MS_MAX: u64 = 12;

/// The outcome of an attempt.
struct AttemptOutcome {
    end: End,
    usage: Usage,
    took_us: u64,
}

enum End {
    Reply(Result<Value, Failure>),
    Twice(Value),
    Hang,
    Panic,
}

#[async_trait]
impl EffectHandler for SimHandler {
    fn repeatability(&self, job: &Job) -> Repeatability {
        match job.effect.name() {
            "write" | "far.write" => Repeatability::Checkable,
            "send" | "far.send" => Repeatability::Once,
            _ => Repeatability::Repeatable,
        }
    }

    async fn perform(&self, job: &Job, _: &Progress) -> Reply {
        let repeatability = self.repeatability(job);
        self.gate.pass(|| format!("begin  {} {} attempt {}: {} {}", job.run, job.task, job.attempt, job.effect.kind(), job.effect.name())).await;
        self.ledger.begin(job, repeatability);
        let fate = self.fate(job, repeatability);
        // The deadline uses the duration in the reply, which does not depend on the order.
        let is_late = fate.took_us >= job.deadline_ms.saturating_mul(1_000) || job.deadline_ms < 2;
        let reply = |result| Reply { result, usage: fate.usage, took_us: fate.took_us, about: None };
        let reply = match fate.end {
            _ if is_late => return std::future::pending().await,
            End::Hang => return std::future::pending().await,
            End::Reply(result) => reply(result),
            End::Twice(value) => {
                self.ledger.begin(job, repeatability);
                reply(Ok(value))
            }
            End::Panic => {
                // The engine measures this one, so it takes the same time in every order.
                tokio::time::sleep(Duration::from_millis(1)).await;
                // Not `panic!`, whose hook would print thousands of them.
                std::panic::resume_unwind(Box::new("a planned panic"));
            }
        };
        self.pause(job, 1).await;
        if reply.result.is_ok() && repeatability != Repeatability::Repeatable {
            self.ledger.happen(job.key, &reply);
            self.gate.pass(|| format!("happen {} {} attempt {}", job.run, job.task, job.attempt)).await;
            self.pause(job, 2).await;
        }
        reply
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        self.gate.pass(|| format!("look up {} {} attempt {}", job.run, job.task, job.attempt)).await;
        let is_unknown = self.has_doubts && hash(&job.key.bytes()).is_multiple_of(8);
        match self.repeatability(job) {
            Repeatability::Checkable if !is_unknown => self.ledger.happened(job.key).map_or(LookUp::NotDone, LookUp::Done),
            Repeatability::Checkable | Repeatability::Once | Repeatability::Repeatable => LookUp::Unknown,
        }
    }
}

impl SimHandler {
    /// Never beyond the deadline: that is `Hang`.
    async fn pause(&self, job: &Job, part: u64) {
        let mut dice = Dice::new(&[self.seed, 5, self.shuffle, hash(&job.key.bytes()), u64::from(job.attempt), part]);
        let most = DELAY_MS_MAX.min((job.deadline_ms - 1) / 2);
        let ms = if most == 0 { 0 } else { 1 + dice.below(most) };
        if ms > 0 {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
    }

    fn fate(&self, job: &Job, repeatability: Repeatability) -> AttemptOutcome {
        let asked = hash(Digest::of(&job.effect).to_string().as_bytes());
        match repeatability {
            Repeatability::Repeatable => free(&mut Dice::new(&[self.seed, 6, asked, u64::from(job.attempt)])),
            // An effect that a person may repeat must have the same outcome for every attempt number.
            Repeatability::Checkable | Repeatability::Once => planned(job, &mut Dice::new(&[self.seed, 7, asked])),
        }
    }
}

fn free(dice: &mut Dice) -> AttemptOutcome {
    let (usage, took_us) = cost(dice);
    let end = match dice.below(100) {
        0..12 => {
            let kind = *dice.pick(&[FailureKind::Network, FailureKind::Tool, FailureKind::Refused, FailureKind::Invalid]);
            let failure = Failure::new(kind, format!("no luck {}", dice.below(100)));
            End::Reply(Err(match dice.below(4) {
                0 => failure,
                1 => failure.retry_after_ms(if dice.pct(10) { 10_000_000 } else { dice.below(40) }),
                _ => failure.retry(),
            }))
        }
        12..14 => End::Hang,
        14 => End::Panic,
        15..19 => End::Twice(value(dice)),
        _ => End::Reply(Ok(value(dice))),
    };
    AttemptOutcome { end, usage, took_us }
}

fn planned(job: &Job, dice: &mut Dice) -> AttemptOutcome {
    let (usage, took_us) = cost(dice);
    let plan = match &*job.effect {
        Effect::CallTool(call) => &call.arguments,
        Effect::CallAgent(call) => &call.input,
        Effect::CallModel(_) | Effect::AskPerson(_) => &Value::Null,
    };
    let failure = || {
        let failure = Failure::new(FailureKind::Tool, "it would not");
        if plan["retry"] == true { failure.retry() } else { failure }
    };
    let end = match &plan["fails"] {
        Value::String(word) if word == "hang" => End::Hang,
        Value::String(_) => End::Reply(Err(failure())),
        count if u64::from(job.attempt) <= count.as_u64().unwrap_or(0) => End::Reply(Err(failure())),
        _ => End::Reply(Ok(small(dice))),
    };
    AttemptOutcome { end, usage, took_us }
}

fn cost(dice: &mut Dice) -> (Usage, u64) {
    let usage = Usage { tokens_in: dice.below(80), tokens_out: dice.below(40), usd_micros: dice.below(60), calls: 0 };
    (usage, 1 + dice.below(30_000))
}

fn value(dice: &mut Dice) -> Value {
    match dice.below(20) {
        0 => json!("x".repeat(500)),
        1 => json!(null),
        2 => json!(dice.roll()),
        _ => small(dice),
    }
}

fn small(dice: &mut Dice) -> Value {
    json!({
        "n": dice.below(1_000),
        "text": format!("word {} \u{e4}\u{2702}", dice.below(1_000)),
        "list": (0..dice.below(3)).map(|n| json!(n)).collect::<Vec<_>>(),
        "deep": { "er": dice.below(10) },
        // All digits of a double: a journal must return exactly the same one.
        "score": dice.roll() as f64 / u64::MAX as f64,
    })
}

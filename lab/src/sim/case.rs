//! Derives everything of a simulated run from a seed, so that a single number reproduces it.

use std::sync::{Arc, OnceLock};

use effects::EffectHandler;
use engine::Order;
use graph::{Budget, Graph, RunId, ThreadId};
use scripted::faults::{FaultPlan, Faulty};
use scripted::{ExternalState, ScriptedHandler};
use serde_json::{Value, json};

use super::dice::Dice;
use super::flow::{Flavour, family};
use super::gate::Gate;
use super::handler::SimHandler;
use super::ledger::Ledger;
use super::person::LookOutside;
use super::samples::SampleHandler;

pub struct Case {
    pub seed: u64,
    pub kind: Kind,
    pub flows: Vec<Graph>,
    pub orders: Vec<Ordered>,
    /// Whether exited processes are detected, or only their leases expire.
    pub sees_the_dead: bool,
    /// Small, so that snapshots are written and read, or large, so that they are not.
    pub snapshot_bytes_min: usize,
    pub runs_max: usize,
    /// Whether the caller repeats its start request.
    pub asks_again: bool,
    pub pace: Pace,
}

/// The store's timing, different for each life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    AtOnce,
    /// Yields to other tasks.
    Yielding,
    /// Time passes. A run does not poll its effects while it writes, so timeouts are measured a little longer: costs cannot be compared.
    Slow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Random(Flavour),
    /// A sample flow under its own script, with faults.
    Sample(&'static str),
}

/// A run to start.
pub struct Ordered {
    pub flow: String,
    pub input: Value,
    pub run: RunId,
    pub thread: ThreadId,
}

impl Ordered {
    pub fn order(&self) -> Order {
        Order {
            thread: Some(self.thread.clone()),
            run: Some(self.run.clone()),
            budget: Budget::default(),
            title: Some(String::new()),
            ..Order::new(self.flow.as_str(), self.input.clone())
        }
    }
}

impl Case {
    pub fn of(seed: u64) -> Case {
        let mut dice = Dice::new(&[seed, 9]);
        let kind = match seed % 20 {
            0 => Kind::Sample("research"),
            1 => Kind::Sample("team"),
            _ => Kind::Random(match dice.below(20) {
                0..9 => Flavour::Wild,
                9..14 => Flavour::Exact,
                14..17 => Flavour::Timed,
                _ => Flavour::Thrifty,
            }),
        };
        let flows = match kind {
            Kind::Random(flavour) => family(seed, flavour),
            Kind::Sample(_) => samples().to_vec(),
        };
        let count = if dice.pct(15) { 2 } else { 1 };
        let one_thread = dice.pct(50);
        let orders = (0..count).map(|at| {
            let (flow, input) = match kind {
                Kind::Random(_) => ("f0".to_owned(), json!({ "digest": dice.roll() >> 12, "fuel": 1 + dice.below(4) })),
                Kind::Sample("team") => {
                    ("team".to_owned(), json!({ "topics": (0..dice.below(3)).map(|n| format!("topic {n}")).collect::<Vec<_>>() }))
                }
                Kind::Sample(flow) => (flow.to_owned(), json!({ "question": "What is a baton?", "approve": dice.pct(50) })),
            };
            let thread = ThreadId::from(format!("t{}", if one_thread { 0 } else { at }));
            Ordered { flow, input, run: RunId::from(format!("r{at}")), thread }
        });
        Case {
            seed,
            kind,
            flows,
            orders: orders.collect(),
            sees_the_dead: dice.pct(70),
            snapshot_bytes_min: if dice.pct(50) { 150 } else { 64 << 10 },
            runs_max: if dice.pct(20) { 1 } else { 64 },
            asks_again: dice.pct(50),
            pace: match (dice.below(4), kind) {
                // A child's budget is fixed when it is started, which a slow restart may delay: a legitimate difference, so it is excluded.
                (_, Kind::Random(Flavour::Thrifty)) | (0..2, _) => Pace::AtOnce,
                (2, Kind::Random(Flavour::Wild) | Kind::Sample(_)) => Pace::Slow,
                _ => Pace::Yielding,
            },
        }
    }

    pub fn has_doubts(&self) -> bool {
        match self.kind {
            Kind::Random(flavour) => flavour.has_doubts(),
            Kind::Sample(_) => true,
        }
    }

    /// The effect handler of one process.
    pub fn handler(&self, outside: &SurvivingState, gate: &Arc<Gate>, shuffle: u64) -> Arc<dyn EffectHandler> {
        let (gate, ledger) = (gate.clone(), outside.ledger.clone());
        match self.kind {
            Kind::Random(_) => Arc::new(SimHandler { seed: self.seed, shuffle, has_doubts: self.has_doubts(), gate, ledger }),
            Kind::Sample(_) => {
                let inner = ScriptedHandler::with_outside(flows::SCRIPT, outside.scripted.clone()).expect("the script of the samples is right");
                let plan =
                    FaultPlan { seed: self.seed, fail_pct: 15, lose_reply_pct: 10, duplicate_pct: 10, delay_ms_max: 0, faulty_attempts_max: 2 };
                Arc::new(SampleHandler { inner: Faulty::new(inner, plan), plan, shuffle, outside: outside.scripted.clone(), gate, ledger })
            }
        }
    }
}

/// External state that survives every process.
#[derive(Default, Clone)]
pub struct SurvivingState {
    pub ledger: Arc<Ledger>,
    pub scripted: Arc<ExternalState>,
}

impl SurvivingState {
    /// How the person checks the external state.
    pub fn eyes(&self, kind: Kind) -> Box<LookOutside> {
        let (ledger, scripted) = (self.ledger.clone(), self.scripted.clone());
        match kind {
            Kind::Random(_) => Box::new(move |key| ledger.happened(key).and_then(|reply| reply.result.ok())),
            // The script marks the one rule of the samples that only a person can decide.
            Kind::Sample(_) => Box::new(move |key| scripted.changes().contains_key(&key).then(|| json!("sent"))),
        }
    }
}

fn samples() -> &'static [Graph] {
    static SAMPLES: OnceLock<Vec<Graph>> = OnceLock::new();
    SAMPLES.get_or_init(|| flows::all().expect("the samples are well drawn"))
}

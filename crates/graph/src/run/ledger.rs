use crate::budget::Account;
use crate::graph::Phase;
use crate::{Event, NumberedEvent, Usage};

/// What a run has spent, and its clocks. Time comes from replies only.
pub(super) struct Ledger {
    pub(super) spent: Usage,
    /// Estimates of the attempts that are being performed.
    pub(super) promised: Usage,
    /// Time of all finished steps; a step takes as long as its longest path.
    pub(super) elapsed_us: u64,
    /// One per phase of the graph.
    pub(super) clocks_us: Vec<u64>,
    /// The limits of the phases as this run has them; set on entering a node.
    limits_us: Vec<u64>,
}

impl Ledger {
    pub(super) fn new(phases: &[Phase]) -> Self {
        Ledger {
            spent: Usage::default(),
            promised: Usage::default(),
            elapsed_us: 0,
            clocks_us: vec![0; phases.len()],
            limits_us: phases.iter().map(|phase| phase.limit_us).collect(),
        }
    }

    /// A ledger that continues from a snapshot.
    pub(super) fn resumed(spent: Usage, elapsed_us: u64, clocks_us: Vec<u64>, phases: &[Phase]) -> Self {
        Ledger { spent, elapsed_us, clocks_us, ..Ledger::new(phases) }
    }

    /// The account `offset_us` into the current step.
    pub(super) fn account(&self, offset_us: u64) -> Account {
        Account { committed: self.spent.plus(self.promised), elapsed_us: self.elapsed_us.saturating_add(offset_us) }
    }

    /// `limit_ms` is the run's own limit of a phase, if it has one.
    pub(super) fn enter(&mut self, node: usize, phases: &[Phase], limit_ms: impl Fn(&str) -> Option<u64>) {
        self.limits_us = phases.iter().map(|phase| limit_ms(&phase.name).map_or(phase.limit_us, |ms| ms.saturating_mul(1_000))).collect();
        for (clock, phase) in self.clocks_us.iter_mut().zip(phases) {
            if node == phase.start || !phase.nodes.contains(&node) {
                *clock = 0;
            }
        }
    }

    pub(super) fn leave(&mut self, node: usize, phases: &[Phase], took_us: u64) {
        self.elapsed_us = self.elapsed_us.saturating_add(took_us);
        for (clock, phase) in self.clocks_us.iter_mut().zip(phases) {
            if phase.nodes.contains(&node) {
                *clock = clock.saturating_add(took_us);
            }
        }
    }

    /// The time an attempt has before a phase ends that its node belongs to.
    pub(super) fn phase_left(&self, node: usize, phases: &[Phase], offset_us: u64) -> Result<u64, String> {
        let mut left = u64::MAX;
        for ((clock, limit_us), phase) in self.clocks_us.iter().zip(&self.limits_us).zip(phases) {
            if phase.nodes.contains(&node) {
                let open = limit_us.saturating_sub(clock.saturating_add(offset_us));
                if open == 0 {
                    return Err(format!("phase {} has used up its {} ms", phase.name, limit_us / 1_000));
                }
                left = left.min(open);
            }
        }
        Ok(left)
    }
}

/// Numbers events and keeps them until the driver takes them.
#[derive(Default)]
pub(super) struct EventLog {
    pub(super) seq: u64,
    pub(super) outbox: Vec<NumberedEvent>,
}

impl EventLog {
    pub(super) fn push(&mut self, event: Event) {
        self.outbox.push(NumberedEvent { seq: self.seq, event });
        self.seq += 1;
    }
}

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::breakpoint::Gate;
use super::ledger::{EventLog, Ledger};
use super::{Position, Run};
use crate::{Addresses, ENTRY_VERSION, Graph, Name, RunError, Start, Usage};

/// A run on entering a step, so that opening it needs only the journal from there on. It can always be thrown away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    v: u32,
    /// Journal entries it stands for.
    pub entries: u64,
    seq: u64,
    step: u64,
    node: Name,
    state: Value,
    spent: Usage,
    elapsed_us: u64,
    clocks_us: BTreeMap<Name, u64>,
    #[serde(default, alias = "has_heard")]
    is_tainted: bool,
    /// Absent in snapshots of earlier versions, which count as private if they are tainted.
    #[serde(default)]
    has_private_text: Option<bool>,
    #[serde(default, skip_serializing_if = "Addresses::is_empty")]
    addresses: Addresses,
    #[serde(default, skip_serializing_if = "Gate::is_closed")]
    gate: Gate,
}

/// Why a snapshot cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a snapshot this version can read: {0}")]
pub struct SnapshotError(String);

impl Snapshot {
    /// The snapshot as bytes.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("snapshots hold only JSON and string keys")
    }

    /// Reads what [`Snapshot::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Snapshot, SnapshotError> {
        let snapshot: Snapshot = serde_json::from_slice(bytes).map_err(|e| SnapshotError(e.to_string()))?;
        if snapshot.v != ENTRY_VERSION {
            return Err(SnapshotError(format!("version {}", snapshot.v)));
        }
        Ok(snapshot)
    }
}

impl Run {
    /// The run as it entered the current step; `None` once that step has answers, or after the end.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let (node, seq, gate) = match &self.position {
            Position::At(node) => (*node, self.event_log.seq, &self.gate),
            Position::Active(active) if active.is_fresh(self.entries) => (active.node, active.entered_seq, &active.entered_gate),
            Position::Active(_) | Position::Ended(_) => return None,
        };
        let inner = &self.graph.0;
        Some(Snapshot {
            v: ENTRY_VERSION,
            entries: self.entries,
            seq,
            step: self.step,
            node: inner.nodes[node].name.clone(),
            state: inner.behaviour.save(&self.state).ok()?,
            spent: self.ledger.spent,
            elapsed_us: self.ledger.elapsed_us,
            clocks_us: inner.phases.iter().map(|phase| phase.name.clone()).zip(self.ledger.clocks_us.iter().copied()).collect(),
            is_tainted: self.is_tainted,
            has_private_text: Some(self.has_private_text),
            addresses: (*self.addresses).clone(),
            gate: gate.clone(),
        })
    }

    /// Continues a run from a snapshot. The events of its step are published again with the same numbers.
    pub fn restore(graph: &Graph, start: Start, snapshot: Snapshot) -> Result<Run, RunError> {
        let unfit = |why: String| RunError::Snapshot { at: snapshot.entries, why };
        let inner = &graph.0;
        let node = inner.nodes.iter().position(|place| place.name == snapshot.node);
        let node = node.ok_or_else(|| unfit(format!("there is no node {}", snapshot.node)))?;
        let state = inner.behaviour.load(snapshot.state).map_err(unfit)?;
        let clocks_us = inner.phases.iter().map(|phase| snapshot.clocks_us.get(&phase.name).copied().unwrap_or(0)).collect();
        Ok(Run {
            graph: graph.clone(),
            start: Arc::new(start),
            state,
            position: Position::At(node),
            step: snapshot.step,
            entries: snapshot.entries,
            ledger: Ledger::resumed(snapshot.spent, snapshot.elapsed_us, clocks_us, &inner.phases),
            event_log: EventLog { seq: snapshot.seq, outbox: Vec::new() },
            is_tainted: snapshot.is_tainted,
            has_private_text: snapshot.has_private_text.unwrap_or(snapshot.is_tainted),
            addresses: Arc::new(snapshot.addresses),
            gate: snapshot.gate,
            state_log: None,
        })
    }
}

//! The states of a run on entering its steps, for those who want to see how a flow came to its end. Nothing is kept unless it is asked for.

use serde_json::Value;

use super::{Run, measure};
use crate::Name;

/// A run's state on entering a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepState {
    /// Which step.
    pub step: u64,
    /// Its node.
    pub node: Name,
    /// The state of the flow.
    pub state: Value,
}

#[derive(Default)]
pub(super) struct StateLog {
    states: Vec<StepState>,
    bytes_left: usize,
    is_cut: bool,
}

impl Run {
    /// Keeps the state on entering each step from now on, up to so many bytes of JSON in all.
    pub fn record_states(&mut self, bytes_max: usize) {
        self.state_log = Some(StateLog { bytes_left: bytes_max, ..StateLog::default() });
    }

    /// What was kept, and whether later states were left out because of the limit.
    pub fn take_states(&mut self) -> (Vec<StepState>, bool) {
        self.state_log.take().map(|log| (log.states, log.is_cut)).unwrap_or_default()
    }

    pub(super) fn record_state(&mut self, node: usize) {
        let Some(log) = &mut self.state_log else { return };
        let Ok(state) = self.graph.0.behaviour.save(&self.state) else { return };
        // A step that is entered again after its state was changed is kept as it is then.
        log.states.pop_if(|last| last.step == self.step);
        match measure(&state, log.bytes_left, "bytes_left", usize::MAX) {
            Ok(bytes) => {
                log.bytes_left -= bytes;
                log.states.push(StepState { step: self.step, node: self.graph.node_name(node).clone(), state });
            }
            Err(_) => log.is_cut = true,
        }
    }
}

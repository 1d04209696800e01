//! Time limits of a run and its phases, and the number of plans: the specification's values, those for a small model, and the user's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Settings;
use crate::input::ModelProfile;

/// The effort for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// Direct, unless a tool is needed; then one plan and no reflection.
    Quick,
    /// Planned where the request needs it.
    #[default]
    Normal,
    /// Always planned and reflected on, with more iterations.
    Deep,
}

/// Milliseconds for each phase, an iteration and the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Listing tools.
    pub think_ms: u64,
    /// A plan.
    pub plan_ms: u64,
    /// A reflection.
    pub reflect_ms: u64,
    /// An iteration.
    pub iteration_ms: u64,
    /// The whole run.
    pub run_ms: u64,
}

impl Default for Limits {
    /// The specification's limits; they are also the graph's.
    fn default() -> Self {
        Limits { think_ms: 10_000, plan_ms: 15_000, reflect_ms: 10_000, iteration_ms: 60_000, run_ms: 600_000 }
    }
}

/// A model on the user's CPU generates about ten tokens a second.
const SMALL: Limits = Limits { think_ms: 10_000, plan_ms: 150_000, reflect_ms: 60_000, iteration_ms: 400_000, run_ms: 600_000 };
/// Upper bound of every limit.
pub(super) const SECONDS_MAX: u32 = 24 * 60 * 60;
/// One part in this many of a run's time is reserved for the answer, and at most `ANSWER_MS_MAX`.
const ANSWER_SHARE: u64 = 5;
const ANSWER_MS_MAX: u64 = 120_000;

const QUICK_ITERATIONS_MAX: u32 = 1;
const ITERATIONS_MAX: u32 = 5;
pub(super) const DEEP_ITERATIONS_MAX: u32 = 10;

impl Limits {
    pub(super) fn of(settings: &Settings, profile: &ModelProfile) -> Limits {
        let usual = if profile.is_small { SMALL } else { Limits::default() };
        let set = |seconds: Option<u32>, usual_ms: u64| seconds.map_or(usual_ms, |seconds| u64::from(seconds.clamp(1, SECONDS_MAX)) * 1_000);
        Limits {
            think_ms: set(settings.think_seconds_max, usual.think_ms),
            plan_ms: set(settings.plan_seconds_max, usual.plan_ms),
            reflect_ms: set(settings.reflect_seconds_max, usual.reflect_ms),
            iteration_ms: set(settings.iteration_seconds_max, usual.iteration_ms),
            run_ms: set(settings.run_seconds_max, usual.run_ms),
        }
    }

    /// Time before the run must write its answer.
    pub(super) fn work_ms(&self) -> u64 {
        self.run_ms - (self.run_ms / ANSWER_SHARE).min(ANSWER_MS_MAX)
    }

    /// By the name of a phase of the graph.
    pub(super) fn phase_ms(&self, phase: &str) -> Option<u64> {
        match phase {
            "think" => Some(self.think_ms),
            "plan" => Some(self.plan_ms),
            "reflect" => Some(self.reflect_ms),
            "iteration" => Some(self.iteration_ms),
            "work" => Some(self.work_ms()),
            "run" => Some(self.run_ms),
            _ => None,
        }
    }
}

/// Maximum number of iterations: the user's value, within the limit of the depth.
pub(super) fn iterations_max(settings: &Settings) -> u32 {
    let most = match settings.depth.unwrap_or_default() {
        Depth::Quick => QUICK_ITERATIONS_MAX,
        Depth::Normal => ITERATIONS_MAX,
        Depth::Deep => DEEP_ITERATIONS_MAX,
    };
    settings.max_iterations.unwrap_or(most).clamp(1, most)
}

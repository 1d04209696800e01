use serde::{Deserialize, Serialize};

/// The limits of one run of a graph. Each is named in the error that reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Nodes a run may pass through, counted with repetition.
    pub steps_max: u64,
    /// Effects one `ask` may hold.
    pub effects_per_ask_max: usize,
    /// Size of one reply as JSON; a larger one becomes a failure the flow can read.
    pub reply_bytes_max: usize,
    /// Size of a run's input as JSON.
    pub input_bytes_max: usize,
    /// How deep runs may call runs.
    pub depth_max: u32,
    /// Nesting of one reply or input; what is deeper could be written to a journal and then not be read again.
    pub json_depth_max: usize,
    /// The longest wait the other side may ask for before another attempt; a longer one ends the attempts.
    pub retry_after_ms_max: u64,
    /// Attempts one effect may ask for.
    pub attempts_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            steps_max: 1_000,
            effects_per_ask_max: 1_024,
            reply_bytes_max: 8 << 20,
            input_bytes_max: 4 << 20,
            depth_max: 8,
            json_depth_max: 64,
            retry_after_ms_max: 600_000,
            attempts_max: 20,
        }
    }
}

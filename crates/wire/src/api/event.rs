//! An event of a run, as `GET /api/runs/{run}/events` sends it under the name `told`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One event of a run or of a run below it. The numbers of one run have no gaps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunEvent {
    /// The run that the event belongs to.
    pub run: String,
    /// Its number in that run, from 0.
    pub seq: u64,
    /// When it was stored.
    pub at_ms: i64,
    /// What happened.
    #[serde(flatten)]
    pub kind: RunEventKind,
}

/// Identifies an effect in a run: the step that requested it, and its index there.
pub type TaskPlace = (u64, u32);

/// What happened. `step` is the number of a step, `node` its node, `task` an effect and `attempt` the number of an attempt at it, from 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields that several variants have are described at the enum")]
pub enum RunEventKind {
    /// The run began.
    Started {
        /// The thread of the run.
        thread: String,
        /// The flow that runs.
        flow: String,
        /// Whether its answer is the one the user gets.
        answers: bool,
        /// The effect that it answers, if another run started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<ParentTask>,
    },
    /// A step began.
    Entered { step: u64, node: String },
    /// An attempt at an effect was released.
    Asked {
        /// The effect.
        task: TaskPlace,
        /// From 1.
        attempt: u32,
        /// The name under which it is shown.
        label: String,
        /// An object with one key, `call_model`, `call_tool`, `call_agent` or `ask_person`, and the request.
        effect: Value,
        /// The delay before it is performed.
        after_ms: u64,
    },
    /// An attempt was answered.
    Replied {
        /// The effect.
        task: TaskPlace,
        /// The attempt that was answered.
        attempt: u32,
        /// The reply of this attempt.
        reply: EffectReply,
        /// It failed, and another attempt follows after that time.
        again_ms: Option<u64>,
    },
    /// An effect was not performed.
    Skipped { task: TaskPlace, failure: EffectFailure },
    /// It is unknown whether an attempt happened; a person must decide.
    Doubted { task: TaskPlace, attempt: u32 },
    /// It is not performed before a person agrees.
    Held { task: TaskPlace, attempt: u32, why: String },
    /// The flow published a note for watchers.
    Noted { step: u64, name: String, value: Value },
    /// The flow added a message to the thread.
    Said { role: String, content: String },
    /// A step is over.
    Left {
        step: u64,
        node: String,
        /// The node that follows, or the end.
        to: String,
    },
    /// The state was changed at this step when the run was forked.
    Edited {
        step: u64,
        /// A JSON merge patch.
        patch: Value,
    },
    /// The run is over.
    Ended { outcome: Value },
}

/// An effect of another run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParentTask {
    /// The run that started this one.
    pub run: String,
    /// The effect of that run.
    pub task: TaskPlace,
}

/// What came back from an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EffectReply {
    /// The value or the failure.
    pub result: EffectResult,
    /// What the attempt cost.
    #[serde(default)]
    pub usage: EffectUsage,
    /// How long it took, in microseconds.
    #[serde(default)]
    pub took_us: u64,
    /// Details of the reply, such as the model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<Value>,
}

/// The value, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub enum EffectResult {
    /// The value.
    Ok(Value),
    /// The failure.
    Err(EffectFailure),
}

/// Why an attempt has no value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EffectFailure {
    /// What sort of failure it is: `network`, `timeout`, `refused` and so on.
    pub kind: String,
    /// What happened and what to do.
    pub message: String,
    /// Whether another attempt makes sense.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Value>,
    /// The text that the model or tool returned although it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// The failed run had started an effect that is not repeatable.
    #[serde(default)]
    pub has_acted: bool,
}

/// What an effect cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EffectUsage {
    /// Input tokens of model calls.
    pub tokens_in: u64,
    /// Output tokens of model calls.
    pub tokens_out: u64,
    /// Millionths of a US dollar.
    pub usd_micros: u64,
    /// Calls made inside the effect, for instance by a child run.
    pub calls: u64,
}

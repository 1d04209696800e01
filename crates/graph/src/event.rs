use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::{Effect, Failure, Name, Outcome, Reply, RunId, TaskId, ThreadId};

/// An event with its number in the run. The numbers have no gaps, and the same journal always gives the same events, so a
/// watcher can leave and come back by number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Told {
    pub seq: u64,
    #[serde(flatten)]
    pub event: Event,
}

/// What a run tells. Everything here is derived from the journal and therefore durable; tokens as they stream are not.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Started {
        run: RunId,
        thread: ThreadId,
        flow: Name,
    },
    /// A step began.
    Entered {
        step: u64,
        node: Name,
    },
    /// An attempt was released. `effect` has its references filled in.
    Asked {
        task: TaskId,
        attempt: u32,
        label: Name,
        effect: Arc<Effect>,
        after_ms: u64,
    },
    /// An attempt was answered; with `again_ms` it failed and another follows after that time.
    Replied {
        task: TaskId,
        attempt: u32,
        reply: Arc<Reply>,
        again_ms: Option<u64>,
    },
    /// An effect was not performed, and why.
    Skipped {
        task: TaskId,
        failure: Failure,
    },
    /// Nobody knows whether an attempt happened; a person must say.
    Doubted {
        task: TaskId,
        attempt: u32,
    },
    /// It is not performed before a person agrees, and why.
    Held {
        task: TaskId,
        attempt: u32,
        why: String,
    },
    /// The flow said something to whoever watches.
    Noted {
        step: u64,
        name: String,
        value: Value,
    },
    /// The flow added a message to the thread.
    Said {
        role: String,
        content: String,
    },
    /// A step is over.
    Left {
        step: u64,
        node: Name,
        to: Name,
    },
    /// Somebody changed the state at this step when they branched the run.
    Edited {
        step: u64,
        patch: Arc<Value>,
    },
    Ended {
        outcome: Arc<Outcome>,
    },
}

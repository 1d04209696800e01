use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::{Effect, Failure, Name, Outcome, Reply, RunId, TaskId, ThreadId};

/// An event with its number in the run. The numbers have no gaps, and the same journal always gives the same events, so a
/// watcher can disconnect and resume by number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NumberedEvent {
    /// Its number, from 0.
    pub seq: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// An event of a run. Events are derived from the journal and therefore durable; streamed tokens are not events.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run began.
    Started {
        /// Its name.
        run: RunId,
        /// The conversation it belongs to.
        thread: ThreadId,
        /// The name of its graph.
        flow: Name,
    },
    /// A step began.
    Entered {
        /// Which step.
        step: u64,
        /// The node of the step.
        node: Name,
    },
    /// An attempt was released. `effect` has its references filled in.
    Asked {
        /// Which effect.
        task: TaskId,
        /// From 1.
        attempt: u32,
        /// The name under which it is shown.
        label: Name,
        /// What is performed.
        effect: Arc<Effect>,
        /// How long it waits first, in milliseconds.
        after_ms: u64,
    },
    /// An attempt was answered; with `again_ms` it failed and another follows after that time.
    Replied {
        /// Which effect.
        task: TaskId,
        /// From 1.
        attempt: u32,
        /// What came back.
        reply: Arc<Reply>,
        /// When the next attempt follows, in milliseconds.
        again_ms: Option<u64>,
    },
    /// An effect was not performed, and why.
    Skipped {
        /// Which effect.
        task: TaskId,
        /// The reason.
        failure: Failure,
    },
    /// It is unknown whether an attempt happened; a person must decide.
    Doubted {
        /// Which effect.
        task: TaskId,
        /// From 1.
        attempt: u32,
    },
    /// It is not performed before a person agrees, and why.
    Held {
        /// Which effect.
        task: TaskId,
        /// From 1.
        attempt: u32,
        /// The reason, for the person.
        why: String,
    },
    /// The flow published a note for watchers.
    Noted {
        /// Which step.
        step: u64,
        /// What the note is about.
        name: String,
        /// The note itself.
        value: Value,
    },
    /// The flow added a message to the thread.
    Said {
        /// `user` or `assistant`.
        role: String,
        /// The text.
        content: String,
    },
    /// A step is over.
    Left {
        /// Which step.
        step: u64,
        /// The node of the step.
        node: Name,
        /// The node that follows, or the end.
        to: Name,
    },
    /// The state was changed at this step when the run was forked.
    Edited {
        /// Which step.
        step: u64,
        /// The JSON merge patch.
        patch: Arc<Value>,
    },
    /// The run is over.
    Ended {
        /// How.
        outcome: Arc<Outcome>,
    },
}

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Addresses, Breakpoint, Budget, Digest, HeldCall, Name, Reply, RunId, TaskId, ThreadId, UserId};

/// The version this build writes, and the newest it reads.
pub const ENTRY_VERSION: u32 = 1;

/// One journal entry of a run. Everything else about the run is derived from the list of entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// The first line of every journal.
    Started(Box<Start>),
    /// An attempt was answered.
    Replied {
        /// Which effect.
        task: TaskId,
        /// From 1.
        attempt: u32,
        /// What was asked; a replay that asks something else is detected here.
        asked: Digest,
        /// What came back.
        reply: Arc<Reply>,
    },
    /// The attempt was started before a crash, and it is unknown whether it happened.
    Doubted {
        /// Which effect.
        task: TaskId,
        /// From 1.
        attempt: u32,
    },
    /// A person must agree before it is performed, and why.
    Held {
        /// Which effect.
        task: TaskId,
        /// From 1.
        attempt: u32,
        /// The reason, for the person.
        why: String,
        /// The call, as the person is shown it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<HeldCall>,
    },
    /// A fork's change to the state on entering a step, as a JSON merge patch.
    Edited {
        /// Which step.
        step: u64,
        /// The merge patch.
        patch: Arc<Value>,
    },
    /// The run was cancelled.
    Cancelled {
        /// In their words.
        reason: String,
    },
}

/// How a run begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The name of its graph.
    pub flow: Name,
    /// The shape of the graph it was started on, to tell what changed when a replay differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Digest>,
    /// The conversation it belongs to.
    pub thread: ThreadId,
    /// Its own name.
    pub run: RunId,
    /// User, model and permissions.
    #[serde(flatten)]
    pub context: RunContext,
    /// What the state is read from.
    pub input: Value,
    /// What it may use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub budget: Budget,
    /// Who called it, if it is a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// How many runs and agents are above it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub depth: u32,
    /// Where it branched off, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<Origin>,
    /// Not all of the input is the user's own words: it holds earlier answers, or output of tools or agents. It counts as private text too.
    #[serde(default, alias = "has_heard", skip_serializing_if = "is_default")]
    pub is_tainted: bool,
    /// Addresses that the user named, and those that the parent of this run found.
    #[serde(default, skip_serializing_if = "Addresses::is_empty")]
    pub addresses: Addresses,
}

/// What a run was started with and passes on unchanged to every [`crate::Job`] and to its child runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunContext {
    /// The user that the run belongs to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub user: UserId,
    /// The model that answers calls which name none, as `family/model`. Journals of older versions have none: the default model answers then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tool calls that were allowed when the run was started: `server.tool`, a server, or [`crate::ALLOW_ALL`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub allowed: Vec<String>,
    /// The only sources that the run may use: `server.tool`, a server, or `document:NAME`. `None` does not limit them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Vec<String>>,
    /// Nodes before which the run waits for a person.
    #[serde(default, skip_serializing_if = "is_default")]
    pub breakpoints: Vec<Breakpoint>,
}

/// The effect that a child run answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The calling run.
    pub run: RunId,
    /// The effect that called.
    pub task: TaskId,
}

/// Where a fork left its original.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The run it branched from.
    pub run: RunId,
    /// The step at which it did.
    pub step: u64,
}

impl Start {
    /// A start without parent, budget or model of its own.
    pub fn new(flow: &str, thread: impl Into<ThreadId>, run: impl Into<RunId>, input: Value) -> Self {
        Start {
            flow: flow.into(),
            shape: None,
            thread: thread.into(),
            run: run.into(),
            context: RunContext::default(),
            input,
            budget: Budget::default(),
            parent: None,
            depth: 0,
            forked_from: None,
            is_tainted: false,
            addresses: Addresses::default(),
        }
    }
}

impl Entry {
    /// `{"v":1,"replied":{…}}`: the version, and then the entry as serde writes it. Put together by hand, because serde's
    /// `flatten` would build every entry twice, and this stands on every reply's path.
    pub fn encode(&self) -> Vec<u8> {
        let mut line = Vec::with_capacity(256);
        line.extend_from_slice(&CURRENT[..CURRENT.len() - 1]);
        let opening = line.len();
        serde_json::to_writer(&mut line, self).expect("entries hold only JSON and string keys");
        line[opening] = b',';
        line
    }

    /// Reads what [`Entry::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Entry, EntryError> {
        let damaged = |e: serde_json::Error| EntryError::Damaged(e.to_string());
        let Some(rest) = bytes.strip_prefix(CURRENT) else {
            // The version is read alone: a newer entry may hold anything else.
            #[derive(Deserialize)]
            struct Version {
                v: u32,
            }
            let Version { v } = serde_json::from_slice(bytes).map_err(damaged)?;
            return Err(if v > ENTRY_VERSION {
                EntryError::Newer { found: v }
            } else {
                EntryError::Damaged(format!("version {v} is not written so"))
            });
        };
        let mut entry = Vec::with_capacity(rest.len() + 1);
        entry.push(b'{');
        entry.extend_from_slice(rest);
        serde_json::from_slice(&entry).map_err(damaged)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
/// Why a journal line cannot be read.
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum EntryError {
    #[error("written by a newer Baton (entry version {found}, this one reads up to {ENTRY_VERSION}); upgrade baton to open it")]
    Newer { found: u32 },
    #[error("not a journal entry ({0}); the database may be damaged, restore it from a copy")]
    Damaged(String),
}

/// How every entry of this version begins.
const CURRENT: &[u8] = b"{\"v\":1,";

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Failure, FailureKind};
    use serde_json::json;

    #[test]
    fn entries_survive_the_journal() {
        let task = TaskId { step: 3, index: 1 };
        let asked = Digest::of(&crate::tool("x", json!({})));
        let failed = Reply::failed(Failure::new(FailureKind::Network, "reset").retry_after_ms(5).with_output("half an ans")).taking_us(7);
        for entry in [
            Entry::Started(Box::new(Start::new("f", "t", "r", json!({"a": [1]})))),
            Entry::Replied { task, attempt: 1, asked, reply: Arc::new(Reply::ok(json!("x"))) },
            Entry::Replied { task, attempt: 2, asked, reply: Arc::new(failed) },
            Entry::Doubted { task, attempt: 1 },
            Entry::Held { task, attempt: 1, why: "it sends mail".into(), call: None },
            Entry::Held { task, attempt: 1, why: "it sends mail".into(), call: Some(HeldCall { tool: "mail.send".into(), ..HeldCall::default() }) },
            Entry::Edited { step: 2, patch: Arc::new(json!({"a": null})) },
            Entry::Cancelled { reason: "enough".into() },
        ] {
            let bytes = entry.encode();
            assert!(bytes.starts_with(CURRENT), "{}", String::from_utf8_lossy(&bytes));
            assert_eq!(Entry::decode(&bytes).unwrap(), entry);
        }
    }

    #[test]
    fn the_output_of_a_failure_is_stored_as_said() {
        let reply = Reply::failed(Failure::new(FailureKind::Network, "reset").with_output("half"));
        let entry = Entry::Replied {
            task: TaskId { step: 0, index: 0 },
            attempt: 1,
            asked: Digest::of(&crate::tool("x", json!({}))),
            reply: Arc::new(reply),
        };
        let text = String::from_utf8(entry.encode()).unwrap();
        assert!(text.contains(r#""said":"half""#), "journals of earlier versions have this name: {text}");
    }

    #[test]
    fn s7_a_failure_written_before_failures_could_quote_is_read() {
        let line = br#"{"v":1,"replied":{"task":[0,0],"attempt":1,"asked":"00000000000000ff","reply":{"result":{"Err":{"kind":"invalid","message":"no JSON"}}}}}"#;
        let Entry::Replied { reply, .. } = Entry::decode(line).unwrap() else { panic!("a reply") };
        assert_eq!(reply.result, Err(Failure::new(FailureKind::Invalid, "no JSON")));
        assert!(!String::from_utf8(Entry::decode(line).unwrap().encode()).unwrap().contains("said"), "and is written as it was");
    }

    #[test]
    fn a_run_started_under_the_former_name_of_taint_is_read() {
        let line = br#"{"v":1,"started":{"flow":"f","thread":"t","run":"r","input":{},"has_heard":true}}"#;
        let Entry::Started(start) = Entry::decode(line).unwrap() else { panic!("a start") };
        assert!(start.is_tainted && start.addresses.is_empty());
    }

    #[test]
    fn a_call_held_before_questions_named_their_tool_is_read() {
        let line = br#"{"v":1,"held":{"task":[0,0],"attempt":1,"why":"it sends mail"}}"#;
        let entry = Entry::decode(line).unwrap();
        assert_eq!(entry, Entry::Held { task: TaskId { step: 0, index: 0 }, attempt: 1, why: "it sends mail".into(), call: None });
        assert_eq!(entry.encode(), line);
    }

    #[test]
    fn numbers_are_read_exactly_as_written() {
        // Serde's quick parser is off by one bit on numbers such as these.
        let numbers = [0.857_101_809_587_656_9, 0.1 + 0.2, f64::MIN_POSITIVE, 1.797_693_134_862_315_7e308, 2.0_f64.powi(70) + 1.0];
        let reply = Arc::new(Reply::ok(json!({ "floats": numbers, "large": u64::MAX, "small": i64::MIN })));
        let entry = Entry::Replied { task: TaskId { step: 0, index: 0 }, attempt: 1, asked: Digest::of(&crate::tool("x", json!({}))), reply };
        let mut again = entry.clone();
        for _ in 0..3 {
            again = Entry::decode(&again.encode()).unwrap();
        }
        assert_eq!(again, entry);
    }

    #[test]
    fn newer_and_damaged_entries_are_different_errors() {
        assert_eq!(Entry::decode(br#"{"v":2,"teleported":{}}"#), Err(EntryError::Newer { found: 2 }));
        assert!(matches!(Entry::decode(b"{\"v\":1,\"repl"), Err(EntryError::Damaged(_))));
        assert!(matches!(Entry::decode(&[0xff, 0x00]), Err(EntryError::Damaged(_))));
        assert!(matches!(Entry::decode(b""), Err(EntryError::Damaged(_))));
        assert!(matches!(Entry::decode(CURRENT), Err(EntryError::Damaged(_))));
    }
}

//! Ids that are derived from positions, so that a second process computes the same ones.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::Effect;

/// A conversation that runs append to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ThreadId(Arc<str>);

/// One execution of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunId(Arc<str>);

/// The user that data belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UserId(Arc<str>);

impl Default for UserId {
    /// The local user of this machine.
    fn default() -> Self {
        UserId("local".into())
    }
}

macro_rules! text_id {
    ($id:ident) => {
        impl $id {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl From<&str> for $id {
            fn from(text: &str) -> Self {
                $id(text.into())
            }
        }
        impl From<String> for $id {
            fn from(text: String) -> Self {
                $id(text.into())
            }
        }
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}
text_id!(ThreadId);
text_id!(RunId);
text_id!(UserId);

/// One effect's place in a run: the step that asked, and its index in the ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(u64, u32)", into = "(u64, u32)")]
pub struct TaskId {
    /// The step that asked for it.
    pub step: u64,
    /// Its place in the ask, from 0.
    pub index: u32,
}

impl From<(u64, u32)> for TaskId {
    fn from((step, index): (u64, u32)) -> Self {
        TaskId { step, index }
    }
}

impl From<TaskId> for (u64, u32) {
    fn from(task: TaskId) -> Self {
        (task.step, task.index)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.step, self.index)
    }
}

/// An effect's id for other systems: the same across attempts, restarts and processes. It goes out as idempotency
/// key, as MCP `_meta`, as a mail's Message-ID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key([u8; 16]);

impl Key {
    /// The key of an effect of a run: the same in every process.
    pub fn of(thread: &ThreadId, run: &RunId, task: TaskId) -> Key {
        let mut hash = Sha256::new();
        for text in [thread.as_str(), run.as_str()] {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        hash.update(task.step.to_le_bytes());
        hash.update(task.index.to_le_bytes());
        Key(head(hash))
    }

    /// The key as bytes.
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// A number that is the same wherever the key is.
    pub(crate) fn low(self) -> u64 {
        u64::from_le_bytes(self.0[..8].try_into().expect("a key has sixteen bytes"))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::str::FromStr for Key {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(|n| Key(n.to_be_bytes()))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// The child run that an effect starts. A parent that is resumed after a crash finds the same child again.
pub fn child_run(key: Key) -> RunId {
    RunId::from(format!("c{key}"))
}

/// What was asked, short enough to stand in every journal entry. A replay that asks something else differs here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 8]);

impl Digest {
    /// The digest of an effect with its references filled in.
    pub fn of(effect: &Effect) -> Digest {
        let mut hash = Sha256::new();
        hash.update(effect.kind());
        match effect {
            // By field and not through a `Value`: a prompt may be long, and this stands on every reply's path.
            Effect::CallModel(call) => {
                text(&mut hash, &call.purpose);
                text(&mut hash, call.model.as_deref().unwrap_or_default());
                for message in &call.messages {
                    text(&mut hash, &message.role);
                    text(&mut hash, &message.content);
                }
                value(&mut hash, call.schema.as_ref().unwrap_or(&Value::Null));
                hash.update(call.tokens_max.unwrap_or_default().to_le_bytes());
                hash.update(call.temperature.unwrap_or_default().to_le_bytes());
                // Nothing at all for no tools: calls from before there were any keep their digest.
                for tool in &call.tools {
                    text(&mut hash, &tool.name);
                    text(&mut hash, &tool.description);
                    value(&mut hash, &tool.schema);
                }
            }
            Effect::CallTool(call) => {
                text(&mut hash, &call.tool);
                value(&mut hash, &call.arguments);
            }
            Effect::CallAgent(call) => {
                text(&mut hash, &call.agent);
                value(&mut hash, &call.input);
            }
            Effect::AskPerson(question) => {
                text(&mut hash, &question.prompt);
                value(&mut hash, question.schema.as_ref().unwrap_or(&Value::Null));
            }
        }
        Digest(head(hash))
    }

    pub(crate) fn of_text(words: &str) -> Digest {
        Digest(head(Sha256::new().chain_update(words)))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        u64::from_str_radix(&text, 16).map(|n| Digest(n.to_be_bytes()))
    }
}

fn text(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_le_bytes());
    hash.update(text);
}

/// Hashes with sorted keys: whether `serde_json` keeps insertion order is some other crate's feature flag, and must not
/// decide whether a journal can be read.
fn value(hash: &mut Sha256, v: &Value) {
    match v {
        Value::Null => hash.update(b"n"),
        Value::Bool(b) => hash.update([b'b', u8::from(*b)]),
        Value::Number(n) => {
            hash.update(b"#");
            text(hash, &n.to_string());
        }
        Value::String(s) => {
            hash.update(b"s");
            text(hash, s);
        }
        Value::Array(items) => {
            hash.update(b"[");
            hash.update((items.len() as u64).to_le_bytes());
            items.iter().for_each(|item| value(hash, item));
        }
        Value::Object(map) => {
            hash.update(b"{");
            let mut pairs: Vec<_> = map.iter().collect();
            pairs.sort_unstable_by_key(|(key, _)| *key);
            for (key, item) in pairs {
                text(hash, key);
                value(hash, item);
            }
            hash.update(b"}");
        }
    }
}

fn head<const N: usize>(hash: Sha256) -> [u8; N] {
    let full = hash.finalize();
    let mut short = [0; N];
    short.copy_from_slice(&full[..N]);
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_depend_on_every_part_of_the_place() {
        let at = |thread: &str, run: &str, step, index| Key::of(&thread.into(), &run.into(), TaskId { step, index });
        let keys = [at("t", "r", 0, 0), at("t", "r", 0, 1), at("t", "r", 1, 0), at("t", "s", 0, 0), at("u", "r", 0, 0), at("tr", "", 0, 0)];
        for (i, a) in keys.iter().enumerate() {
            for b in &keys[i + 1..] {
                assert_ne!(a, b);
            }
        }
        assert_eq!(at("t", "r", 0, 0), at("t", "r", 0, 0));
        assert_eq!(keys[0].to_string().parse(), Ok(keys[0]));
    }

    #[test]
    fn a_digest_ignores_the_order_of_keys_and_nothing_else() {
        let digest = |text: &str| Digest::of(&crate::tool("x", serde_json::from_str(text).unwrap()));
        assert_eq!(digest(r#"{"a":1,"b":[2]}"#), digest(r#"{"b":[2],"a":1}"#));
        assert_ne!(digest(r#"{"a":1}"#), digest(r#"{"a":"1"}"#));
        assert_ne!(digest(r#"[[1],2]"#), digest(r#"[[1,2]]"#));
        assert_ne!(Digest::of(&crate::tool("x", json!({}))), Digest::of(&crate::agent("x", json!({}))));
    }

    #[test]
    fn a_digest_sees_every_part_of_a_tool_offered_to_a_model() {
        let digest = |name: &str, description: &str, schema: Value| {
            let tools = vec![crate::ToolSpec { name: name.into(), description: description.into(), schema }];
            Digest::of(&Effect::CallModel(crate::ModelCall { tools, ..crate::ModelCall::default() }))
        };
        let one = digest("a", "b", json!({"type": "object"}));
        assert_eq!(one, digest("a", "b", json!({"type": "object"})));
        for other in [digest("x", "b", json!({"type": "object"})), digest("a", "x", json!({"type": "object"})), digest("a", "b", json!({}))] {
            assert_ne!(one, other);
        }
        assert_ne!(one, Digest::of(&Effect::CallModel(crate::ModelCall::default())));
    }
}

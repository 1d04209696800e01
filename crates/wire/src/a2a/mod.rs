//! A2A 1.0 in JSON, as JSON-RPC and HTTP+JSON carry it: messages, tasks, events of a stream, and requests. [`card`] has the description of an agent, [`error`] the
//! errors, [`grpc`] the same messages as gRPC carries them, of the types in [`proto`].
//!
//! Names and forms follow ProtoJSON: camelCase, enumerations by their names, `null` is the same as absent.

pub mod card;
mod convert;
pub mod error;
pub mod grpc;
#[allow(clippy::all, clippy::needless_pass_by_value, unused_qualifications, missing_docs)]
#[rustfmt::skip]
pub mod proto;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::openai::{Options, RequestError};

/// The supported version, as the header `A2A-Version` names it.
pub const VERSION: &str = "1.0";
/// The header in which a client names the version it uses.
pub const VERSION_HEADER: &str = "a2a-version";
/// The media type of requests and responses over HTTP+JSON, and of push notifications.
pub const MEDIA_TYPE: &str = "application/a2a+json";
/// The header of a push notification with the token that the client gave.
pub const TOKEN_HEADER: &str = "x-a2a-notification-token";

/// A list or text that may be absent or `null`.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// The sender of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    #[default]
    #[serde(rename = "ROLE_UNSPECIFIED")]
    Unspecified,
    #[serde(rename = "ROLE_USER")]
    User,
    #[serde(rename = "ROLE_AGENT")]
    Agent,
}

/// The state of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskState {
    #[default]
    #[serde(rename = "TASK_STATE_UNSPECIFIED")]
    Unspecified,
    #[serde(rename = "TASK_STATE_SUBMITTED")]
    Submitted,
    #[serde(rename = "TASK_STATE_WORKING")]
    Working,
    #[serde(rename = "TASK_STATE_COMPLETED")]
    Completed,
    #[serde(rename = "TASK_STATE_FAILED")]
    Failed,
    #[serde(rename = "TASK_STATE_CANCELED")]
    Canceled,
    #[serde(rename = "TASK_STATE_INPUT_REQUIRED")]
    InputRequired,
    #[serde(rename = "TASK_STATE_REJECTED")]
    Rejected,
    #[serde(rename = "TASK_STATE_AUTH_REQUIRED")]
    AuthRequired,
}

impl TaskState {
    /// Whether the task has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, TaskState::Completed | TaskState::Failed | TaskState::Canceled | TaskState::Rejected)
    }

    /// Whether the task waits for the client.
    pub fn is_interrupted(self) -> bool {
        matches!(self, TaskState::InputRequired | TaskState::AuthRequired)
    }
}

/// Exactly one of `text`, `raw`, `url` and `data`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Part {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Bytes in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub filename: String,
    #[serde(alias = "media_type", deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub media_type: String,
}

impl Part {
    /// A part with text.
    pub fn text(text: impl Into<String>, media_type: &str) -> Part {
        Part { text: Some(text.into()), media_type: media_type.to_owned(), ..Part::default() }
    }

    /// A part with JSON data.
    pub fn data(data: Value) -> Part {
        Part { data: Some(data), media_type: "application/json".to_owned(), ..Part::default() }
    }
}

/// A message of a client or an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Message {
    #[serde(alias = "message_id", deserialize_with = "or_default")]
    pub message_id: String,
    #[serde(alias = "context_id", deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub context_id: String,
    #[serde(alias = "task_id", deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub task_id: String,
    #[serde(deserialize_with = "or_default")]
    pub role: Role,
    #[serde(deserialize_with = "or_default")]
    pub parts: Vec<Part>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    #[serde(alias = "reference_task_ids", deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub reference_task_ids: Vec<String>,
}

/// The content of a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessageContent {
    /// All texts, with data as JSON among them.
    pub text: String,
    /// The one part with data, if there is nothing else.
    pub data: Option<Value>,
}

/// Why a part is not supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadPart(pub String);

impl Message {
    /// The text and data of all parts; an error for parts with bytes or addresses, which are not supported.
    pub fn content(&self) -> Result<MessageContent, UnreadPart> {
        let mut texts = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            match part {
                Part { text: Some(text), .. } => texts.push(text.clone()),
                Part { data: Some(data), .. } => texts.push(data.to_string()),
                _ => {
                    let kind = if part.raw.is_some() {
                        "bytes"
                    } else if part.url.is_some() {
                        "an address"
                    } else {
                        "nothing"
                    };
                    return Err(UnreadPart(format!("message.parts[{at}] has {kind}; send text or data")));
                }
            }
        }
        let data = match self.parts.as_slice() {
            [Part { data: Some(data), text: None, .. }] => Some(data.clone()),
            _ => None,
        };
        Ok(MessageContent { text: texts.join("\n"), data })
    }
}

/// The state of a task, with a message and the time of the change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskStatus {
    #[serde(deserialize_with = "or_default")]
    pub state: TaskState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub timestamp: String,
}

/// An output of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Artifact {
    #[serde(deserialize_with = "or_default")]
    pub artifact_id: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(deserialize_with = "or_default")]
    pub parts: Vec<Part>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// A unit of work with its state, outputs and messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Task {
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    #[serde(deserialize_with = "or_default")]
    pub context_id: String,
    pub status: TaskStatus,
    /// `None` if the request excludes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<Artifact>>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Message>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// A change of a task's state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusUpdate {
    #[serde(deserialize_with = "or_default")]
    pub task_id: String,
    #[serde(deserialize_with = "or_default")]
    pub context_id: String,
    pub status: TaskStatus,
}

/// A new or longer output of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ArtifactUpdate {
    #[serde(deserialize_with = "or_default")]
    pub task_id: String,
    #[serde(deserialize_with = "or_default")]
    pub context_id: String,
    pub artifact: Artifact,
    /// The parts are appended to those of earlier updates of this artifact.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub last_chunk: bool,
}

/// An event of a stream, the body of a push notification, and (without the updates) the response to a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StreamResponse {
    Task(Box<Task>),
    Message(Message),
    StatusUpdate(StatusUpdate),
    ArtifactUpdate(ArtifactUpdate),
}

/// How the server authenticates when it sends a notification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Authentication {
    #[serde(deserialize_with = "or_default")]
    pub scheme: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub credentials: String,
}

/// Where to send changes of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PushConfig {
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub id: String,
    #[serde(alias = "task_id", deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub task_id: String,
    #[serde(deserialize_with = "or_default")]
    pub url: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
}

/// What a client expects in return for a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SendConfiguration {
    #[serde(alias = "accepted_output_modes", deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub accepted_output_modes: Vec<String>,
    #[serde(alias = "task_push_notification_config", skip_serializing_if = "Option::is_none")]
    pub task_push_notification_config: Option<PushConfig>,
    #[serde(alias = "history_length", skip_serializing_if = "Option::is_none")]
    pub history_length: Option<i32>,
    #[serde(alias = "return_immediately", deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub return_immediately: bool,
}

/// The request that sends a message and so starts or continues a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SendMessage {
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    pub message: Option<Message>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<SendConfiguration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl SendMessage {
    /// The flow and the options of a run, from `metadata.baton` of the request or of its message.
    pub fn options(&self) -> Result<(Option<String>, Options), RequestError> {
        let of_message = self.message.as_ref().and_then(|message| message.metadata.as_ref());
        let given = [self.metadata.as_ref(), of_message].into_iter().flatten().find_map(|metadata| metadata.get("baton"));
        let wrong = |why: String| RequestError { field: "metadata.baton".to_owned(), why };
        let Some(given) = given else { return Ok((None, Options::default())) };
        let Value::Object(mut fields) = given.clone() else { return Err(wrong("it is an object".to_owned())) };
        let flow = match fields.remove("flow") {
            None | Some(Value::Null) => None,
            Some(Value::String(flow)) => Some(flow),
            Some(_) => return Err(wrong("flow is the name of a skill".to_owned())),
        };
        let options = serde_json::from_value(Value::Object(fields)).map_err(|error| wrong(error.to_string()))?;
        Ok((flow, options))
    }
}

/// The request for a task; also the request to subscribe to it or cancel it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskQuery {
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    #[serde(alias = "history_length", skip_serializing_if = "Option::is_none")]
    pub history_length: Option<i32>,
}

/// The request for a page of tasks, with filters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListTasks {
    #[serde(alias = "context_id", deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub context_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<TaskState>,
    #[serde(alias = "page_size", skip_serializing_if = "Option::is_none")]
    pub page_size: Option<i32>,
    #[serde(alias = "page_token", deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub page_token: String,
    #[serde(alias = "history_length", skip_serializing_if = "Option::is_none")]
    pub history_length: Option<i32>,
    #[serde(alias = "status_timestamp_after", deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub status_timestamp_after: String,
    #[serde(alias = "include_artifacts", skip_serializing_if = "Option::is_none")]
    pub include_artifacts: Option<bool>,
}

/// A page of tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskList {
    #[serde(deserialize_with = "or_default")]
    pub tasks: Vec<Task>,
    #[serde(deserialize_with = "or_default")]
    pub next_page_token: String,
    pub page_size: i32,
    pub total_size: i32,
}

/// A configuration of a task's notifications, or, without `id`, all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PushQuery {
    #[serde(alias = "task_id", deserialize_with = "or_default")]
    pub task_id: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub id: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_and_tasks_are_read_as_their_libraries_write_them() {
        let request: SendMessage = serde_json::from_value(json!({
            "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "Tides?" }, { "data": { "n": 1 } }], "contextId": null, "unknown": 1 },
            "configuration": { "historyLength": 2, "returnImmediately": true, "acceptedOutputModes": null },
            "metadata": { "baton": { "flow": "search", "approve": true } },
        }))
        .unwrap();
        let message = request.message.clone().unwrap();
        assert_eq!((message.role, message.content().unwrap().text.as_str()), (Role::User, "Tides?\n{\"n\":1}"));
        assert!(request.configuration.as_ref().unwrap().return_immediately);
        let (flow, options) = request.options().unwrap();
        assert_eq!((flow.as_deref(), options.approve), (Some("search"), true));
        let task: Task = serde_json::from_value(json!({ "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_INPUT_REQUIRED" } })).unwrap();
        assert!(task.status.state.is_interrupted() && !task.status.state.is_terminal());
        assert_eq!(serde_json::to_value(&task).unwrap(), json!({ "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_INPUT_REQUIRED" } }));
        let update: StreamResponse = serde_json::from_value(
            json!({ "artifactUpdate": { "taskId": "t", "artifact": { "artifactId": "a", "parts": [{ "text": "x" }] }, "append": true } }),
        )
        .unwrap();
        assert!(matches!(update, StreamResponse::ArtifactUpdate(ArtifactUpdate { append: true, last_chunk: false, .. })));
    }

    #[test]
    fn unsupported_parts_are_named_in_the_error() {
        let message = |part: Part| Message { parts: vec![part], ..Message::default() };
        for (part, kind) in [
            (Part { raw: Some("eA==".into()), ..Part::default() }, "bytes"),
            (Part { url: Some("x".into()), ..Part::default() }, "an address"),
            (Part::default(), "nothing"),
        ] {
            assert!(message(part).content().unwrap_err().0.contains(kind));
        }
        assert_eq!(message(Part::data(json!({ "approve": true }))).content().unwrap().data, Some(json!({ "approve": true })));
        for metadata in [json!({ "baton": 7 }), json!({ "baton": { "flow": 7 } }), json!({ "baton": { "nonsense": 7 } })] {
            let request = SendMessage { metadata: metadata.as_object().cloned(), ..SendMessage::default() };
            assert_eq!(request.options().unwrap_err().field, "metadata.baton");
        }
    }
}

//! A2A 1.0: what clients of agents send, in the JSON of its protocol buffers.

use serde::Deserialize;
use serde_json::{Value, json};

/// A call of the JSON-RPC binding.
#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    #[serde(default)]
    pub id: Value,
    #[serde(default)]
    pub method: String,
    #[serde(default)]
    pub params: Value,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendMessage {
    pub message: Message,
    #[serde(default)]
    pub configuration: Configuration,
    #[serde(default)]
    pub metadata: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Configuration {
    pub return_immediately: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    #[serde(default)]
    pub message_id: String,
    #[serde(default)]
    pub context_id: Option<String>,
    #[serde(default)]
    pub task_id: Option<String>,
    #[serde(default)]
    pub parts: Vec<Value>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct TaskById {
    pub id: String,
}

impl Message {
    /// Its text and data. An error names what a flow cannot take.
    pub fn text(&self) -> Result<String, String> {
        let part = |part: &Value| match (part["text"].as_str(), part.get("data")) {
            (Some(text), _) => Ok(text.to_owned()),
            (None, Some(data)) => Ok(data.to_string()),
            (None, None) => Err("parts are text or data; files and addresses are not taken".to_owned()),
        };
        let text = self.parts.iter().map(part).collect::<Result<Vec<_>, _>>()?.join("\n");
        if text.trim().is_empty() { Err("the message is empty".to_owned()) } else { Ok(text) }
    }
}

/// What went wrong, as the protocol numbers and names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Parse,
    InvalidParams,
    MethodNotFound,
    Internal,
    TaskNotFound,
    TaskNotCancelable,
    PushNotificationNotSupported,
    UnsupportedOperation,
    ContentTypeNotSupported,
}

impl Reason {
    pub fn code(self) -> i64 {
        match self {
            Reason::Parse => -32700,
            Reason::InvalidParams => -32602,
            Reason::MethodNotFound => -32601,
            Reason::Internal => -32603,
            Reason::TaskNotFound => -32001,
            Reason::TaskNotCancelable => -32002,
            Reason::PushNotificationNotSupported => -32003,
            Reason::UnsupportedOperation => -32004,
            Reason::ContentTypeNotSupported => -32005,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Reason::Parse => "PARSE_ERROR",
            Reason::InvalidParams => "INVALID_PARAMS",
            Reason::MethodNotFound => "METHOD_NOT_FOUND",
            Reason::Internal => "INTERNAL",
            Reason::TaskNotFound => "TASK_NOT_FOUND",
            Reason::TaskNotCancelable => "TASK_NOT_CANCELABLE",
            Reason::PushNotificationNotSupported => "PUSH_NOTIFICATION_NOT_SUPPORTED",
            Reason::UnsupportedOperation => "UNSUPPORTED_OPERATION",
            Reason::ContentTypeNotSupported => "CONTENT_TYPE_NOT_SUPPORTED",
        }
    }
}

/// The error of a JSON-RPC call.
pub fn rpc_error(id: &Value, reason: Reason, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": reason.code(), "message": message, "data": [details(reason)] } })
}

/// The error of a call of the HTTP binding.
pub fn http_error(status: u16, reason: Reason, message: &str) -> Value {
    let name = match status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "FAILED_PRECONDITION",
        429 => "RESOURCE_EXHAUSTED",
        _ => "INTERNAL",
    };
    json!({ "error": { "code": status, "status": name, "message": message, "details": [details(reason)] } })
}

fn details(reason: Reason) -> Value {
    json!({ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason.name(), "domain": "a2a-protocol.org" })
}

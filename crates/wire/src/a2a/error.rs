//! What goes wrong, in the forms of both bindings: `error.code` of JSON-RPC, and `google.rpc.Status` of HTTP+JSON.

use serde_json::{Map, Value, json};

/// A kind of error. Its name is what programs compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorKind {
    pub reason: &'static str,
    /// Of JSON-RPC.
    pub code: i32,
    pub http: u16,
    /// As `google.rpc.Code` names it.
    pub status: &'static str,
}

const fn kind(reason: &'static str, code: i32, http: u16, status: &'static str) -> ErrorKind {
    ErrorKind { reason, code, http, status }
}

/// No task of this caller has that id.
pub const TASK_NOT_FOUND: ErrorKind = kind("TASK_NOT_FOUND", -32001, 404, "NOT_FOUND");
/// The task has ended.
pub const TASK_NOT_CANCELABLE: ErrorKind = kind("TASK_NOT_CANCELABLE", -32002, 400, "FAILED_PRECONDITION");
/// The server sends no notifications.
pub const PUSH_NOT_SUPPORTED: ErrorKind = kind("PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, 400, "FAILED_PRECONDITION");
/// The operation does not apply to the state of the task.
pub const UNSUPPORTED_OPERATION: ErrorKind = kind("UNSUPPORTED_OPERATION", -32004, 400, "FAILED_PRECONDITION");
/// A part or an accepted output has a media type that the agent does not support.
pub const CONTENT_TYPE_NOT_SUPPORTED: ErrorKind = kind("CONTENT_TYPE_NOT_SUPPORTED", -32005, 400, "INVALID_ARGUMENT");
/// The client uses another version of the protocol.
pub const VERSION_NOT_SUPPORTED: ErrorKind = kind("VERSION_NOT_SUPPORTED", -32009, 400, "FAILED_PRECONDITION");
/// The body is not JSON.
pub const PARSE: ErrorKind = kind("JSON_PARSE", -32700, 400, "INVALID_ARGUMENT");
/// The body is not a request of JSON-RPC.
pub const INVALID_REQUEST: ErrorKind = kind("INVALID_REQUEST", -32600, 400, "INVALID_ARGUMENT");
/// There is no such method.
pub const METHOD_NOT_FOUND: ErrorKind = kind("METHOD_NOT_FOUND", -32601, 404, "NOT_FOUND");
/// The parameters do not fit the method.
pub const INVALID_PARAMS: ErrorKind = kind("INVALID_PARAMS", -32602, 400, "INVALID_ARGUMENT");
/// An error of the server.
pub const INTERNAL: ErrorKind = kind("INTERNAL_ERROR", -32603, 500, "INTERNAL");

const ALL: [ErrorKind; 11] = [
    TASK_NOT_FOUND,
    TASK_NOT_CANCELABLE,
    PUSH_NOT_SUPPORTED,
    UNSUPPORTED_OPERATION,
    CONTENT_TYPE_NOT_SUPPORTED,
    VERSION_NOT_SUPPORTED,
    PARSE,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    INVALID_PARAMS,
    INTERNAL,
];

impl ErrorKind {
    /// The kind with this name.
    pub fn named(reason: &str) -> Option<ErrorKind> {
        ALL.into_iter().find(|kind| kind.reason == reason)
    }

    /// What stands for a status of HTTP that no kind of its own has. Codes from -32010 are free for servers.
    pub fn of_status(http: u16) -> ErrorKind {
        match http {
            401 => kind("UNAUTHENTICATED", -32010, 401, "UNAUTHENTICATED"),
            403 => kind("PERMISSION_DENIED", -32011, 403, "PERMISSION_DENIED"),
            402 | 413 | 429 | 507 => ErrorKind { http, ..kind("RESOURCE_EXHAUSTED", -32012, 429, "RESOURCE_EXHAUSTED") },
            408 | 503 => ErrorKind { http, ..kind("UNAVAILABLE", -32013, 503, "UNAVAILABLE") },
            404 | 405 => ErrorKind { http, ..METHOD_NOT_FOUND },
            409 => ErrorKind { http: 400, ..UNSUPPORTED_OPERATION },
            415 => ErrorKind { http, ..CONTENT_TYPE_NOT_SUPPORTED },
            400 | 422 => INVALID_PARAMS,
            400..500 => ErrorKind { http, ..INVALID_REQUEST },
            _ => ErrorKind { http: http.max(500), ..INTERNAL },
        }
    }

    fn info(self) -> Value {
        json!([{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": self.reason, "domain": "a2a-protocol.org" }])
    }

    /// The reply of JSON-RPC to the request with this id.
    pub fn of_rpc(self, id: &Value, message: &str) -> Value {
        json!({ "jsonrpc": "2.0", "id": id, "error": { "code": self.code, "message": message, "data": self.info() } })
    }

    /// The body of a reply over HTTP.
    pub fn of_http(self, message: &str) -> Value {
        json!({ "error": { "code": self.http, "status": self.status, "message": message, "details": self.info() } })
    }
}

/// An error as a client reads it, in either form: its kind if it has one, and its message.
pub fn read(error: &Map<String, Value>) -> (Option<ErrorKind>, String) {
    let lists = ["data", "details"].iter().filter_map(|name| error.get(*name).and_then(Value::as_array));
    let named = lists.flatten().find_map(|detail| ErrorKind::named(detail.get("reason")?.as_str()?));
    let by_code = || ALL.into_iter().find(|kind| error.get("code").and_then(Value::as_i64) == Some(i64::from(kind.code)));
    (named.or_else(by_code), error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_back() {
        for kind in ALL {
            for body in [kind.of_rpc(&json!(1), "x"), kind.of_http("x")] {
                assert_eq!(read(body["error"].as_object().unwrap()), (Some(kind), "x".to_owned()));
            }
        }
        assert_eq!(read(json!({ "code": -32001 }).as_object().unwrap()).0, Some(TASK_NOT_FOUND));
        assert_eq!(read(&Map::new()), (None, String::new()));
        assert_eq!((ErrorKind::of_status(429).code, ErrorKind::of_status(422), ErrorKind::of_status(500)), (-32012, INVALID_PARAMS, INTERNAL));
    }
}

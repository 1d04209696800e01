//! An event to record, and a line of the log.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Longer texts are cut, so that a line stays below its limit.
const TEXT_CHARS_MAX: usize = 300;

/// The kinds of events in the log; a line names its kind in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A session of the page was opened, or a token or account was seen for the first time since the server started.
    SignIn,
    /// A wrong token, an expired session or an account that is not allowed.
    SignInRefused,
    /// A session of the page was closed.
    SignOut,
    /// A token of the API was created; `detail` has its name.
    TokenAdded,
    /// A token of the API was revoked; `detail` has its name.
    TokenRemoved,
    /// A person answered a question of a run; `detail` has what was allowed, if it was about a tool call.
    Approval,
    /// A user allowed a tool permanently.
    PermissionAllowed,
    /// A permanent permission was withdrawn.
    PermissionRevoked,
    /// A tool call that may change something is about to be performed.
    ToolCall,
    /// The result of a tool call that was recorded before.
    ToolCallEnded,
    /// Tool servers were imported from another program's configuration.
    ServersImported,
    /// A tool or a server was switched on.
    ToolEnabled,
    /// A tool or a server was switched off.
    ToolDisabled,
    /// A sign-in at a remote tool server began or succeeded; `detail` is which.
    ServerSignIn,
    /// The stored credentials for a remote tool server were removed.
    ServerSignOut,
    /// A key of a model or a tool was stored; `detail` has its name.
    KeyStored,
    /// A stored key was removed; `detail` has its name.
    KeyRemoved,
    /// A conversation was deleted with its runs.
    ThreadDeleted,
    /// A public link to a conversation was created; everybody who has it can read the conversation.
    ThreadShared,
    /// The public link to a conversation was removed.
    ThreadUnshared,
    /// The rights or budget of a user changed.
    UserChanged,
    /// All data of a user was exported.
    UserExported,
    /// All data of a user was deleted.
    UserDeleted,
    /// A copy of the store was written.
    BackupMade,
    /// The store was replaced by a copy.
    BackupRestored,
    /// The oldest file of the log was removed, because there were too many.
    LogDropped,
    /// The end of the log was half a line, from a write that was cut off; it was removed.
    LogRepaired,
}

impl EventKind {
    /// The name that the log and the command line use.
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::SignIn => "sign_in",
            EventKind::SignInRefused => "sign_in_refused",
            EventKind::SignOut => "sign_out",
            EventKind::TokenAdded => "token_added",
            EventKind::TokenRemoved => "token_removed",
            EventKind::Approval => "approval",
            EventKind::PermissionAllowed => "permission_allowed",
            EventKind::PermissionRevoked => "permission_revoked",
            EventKind::ToolCall => "tool_call",
            EventKind::ToolCallEnded => "tool_call_ended",
            EventKind::ServersImported => "servers_imported",
            EventKind::ToolEnabled => "tool_enabled",
            EventKind::ToolDisabled => "tool_disabled",
            EventKind::ServerSignIn => "server_sign_in",
            EventKind::ServerSignOut => "server_sign_out",
            EventKind::KeyStored => "key_stored",
            EventKind::KeyRemoved => "key_removed",
            EventKind::ThreadDeleted => "thread_deleted",
            EventKind::ThreadShared => "thread_shared",
            EventKind::ThreadUnshared => "thread_unshared",
            EventKind::UserChanged => "user_changed",
            EventKind::UserExported => "user_exported",
            EventKind::UserDeleted => "user_deleted",
            EventKind::BackupMade => "backup_made",
            EventKind::BackupRestored => "backup_restored",
            EventKind::LogDropped => "log_dropped",
            EventKind::LogRepaired => "log_repaired",
        }
    }
}

/// An event to record. Texts are cut to 300 characters and must not hold secrets or arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The kind of event.
    pub what: EventKind,
    /// The user who caused it.
    pub user: String,
    /// The conversation it belongs to.
    pub thread: Option<String>,
    /// The run it belongs to.
    pub run: Option<String>,
    /// The tool's name, with its server.
    pub tool: Option<String>,
    /// The SHA-256 of the arguments, see [`digest_of`].
    pub arguments: Option<String>,
    /// The address of the caller.
    pub from: Option<String>,
    /// What the other fields do not hold, in a few words.
    pub detail: Option<String>,
}

impl Event {
    /// An event of a user, with all other fields empty.
    pub fn new(what: EventKind, user: impl Into<String>) -> Event {
        Event { what, user: user.into(), thread: None, run: None, tool: None, arguments: None, from: None, detail: None }
    }

    /// Sets [`Event::detail`].
    pub fn detail(self, detail: impl Into<String>) -> Event {
        Event { detail: Some(detail.into()), ..self }
    }

    /// Sets [`Event::tool`].
    pub fn tool(self, tool: impl Into<String>) -> Event {
        Event { tool: Some(tool.into()), ..self }
    }

    /// Sets the conversation and the run.
    pub fn run(self, thread: impl Into<String>, run: impl Into<String>) -> Event {
        Event { thread: Some(thread.into()), run: Some(run.into()), ..self }
    }

    /// Sets the conversation.
    pub fn thread(self, thread: impl Into<String>) -> Event {
        Event { thread: Some(thread.into()), ..self }
    }

    /// Sets the caller's address.
    pub fn from(self, from: Option<impl ToString>) -> Event {
        Event { from: from.map(|from| from.to_string()), ..self }
    }

    /// Sets the digest of a call's arguments; the arguments are not stored.
    pub fn arguments(self, arguments: &Value) -> Event {
        Event { arguments: Some(digest_of(arguments)), ..self }
    }
}

/// Where the chain begins after files were removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainStart {
    /// The last line that was removed.
    pub through: u64,
    /// Its hash.
    pub hash: String,
}

/// A line as it is written, without its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The number of the line, from 1, without gaps over all files.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// See [`Event::user`].
    pub user: String,
    /// See [`Event::what`].
    pub what: EventKind,
    /// See [`Event::thread`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// See [`Event::run`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// See [`Event::tool`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// See [`Event::arguments`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// See [`Event::from`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// See [`Event::detail`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Set in the line that records the removal of old files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<ChainStart>,
    /// The hash of the line before.
    pub prev: String,
}

impl Line {
    pub(crate) fn new(event: &Event, seq: u64, at_ms: i64, prev: &str) -> Line {
        let cut = |text: &Option<String>| text.as_deref().map(cut);
        Line {
            seq,
            at_ms,
            user: self::cut(&event.user),
            what: event.what,
            thread: cut(&event.thread),
            run: cut(&event.run),
            tool: cut(&event.tool),
            arguments: cut(&event.arguments),
            from: cut(&event.from),
            detail: cut(&event.detail),
            dropped: None,
            prev: prev.to_owned(),
        }
    }

    /// The text of the line with its hash, and the hash. The hash is that of the bytes before `,"hash"`, so that a check does not have to serialize the JSON again.
    pub(crate) fn sealed(&self) -> serde_json::Result<(String, String)> {
        let mut text = serde_json::to_string(self)?;
        text.pop();
        let hash = hex(&Sha256::digest(text.as_bytes()));
        text.push_str(HASH_FIELD);
        text.push_str(&hash);
        text.push_str("\"}\n");
        Ok((text, hash))
    }

    /// A line as it stands in a file, and its hash, which is the one of its bytes.
    pub(crate) fn opened(text: &str) -> Result<(Line, String), String> {
        let (body, rest) = text.rsplit_once(HASH_FIELD).ok_or("it has no hash")?;
        let stored = rest.strip_suffix("\"}").ok_or("it is not complete")?;
        let hash = hex(&Sha256::digest(body.as_bytes()));
        if hash != stored {
            return Err("its hash is not that of its text".to_owned());
        }
        let line = serde_json::from_str(&format!("{body}}}")).map_err(|error| format!("it is not a line of the log: {error}"))?;
        Ok((line, hash))
    }
}

const HASH_FIELD: &str = ",\"hash\":\"";

/// Replaces control characters, which could change what a terminal shows, and cuts the text.
fn cut(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(TEXT_CHARS_MAX).collect()
}

/// The SHA-256 of a value's JSON, in hex.
pub fn digest_of(value: &Value) -> String {
    hex(&Sha256::digest(value.to_string().as_bytes()))
}

/// A time in text form: `2026-11-16 09:40:13 UTC`.
pub fn time_of(at_ms: i64) -> String {
    match time::OffsetDateTime::from_unix_timestamp(at_ms.div_euclid(1_000)) {
        Ok(at) => {
            let (date, clock) = (at.date(), at.time());
            let (month, day) = (u8::from(date.month()), date.day());
            format!("{:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", date.year(), clock.hour(), clock.minute(), clock.second())
        }
        Err(_) => format!("{at_ms} ms"),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

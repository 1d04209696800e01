//! `mail`: sends each mail at most once however often it is requested, and reports unknown outcomes.
//!
//! A mail belongs to a key (the effect's, from `_meta`), its Message-ID is derived from it, and the outbox records its state. A request for
//! a mail that was sent returns the earlier result. A mail whose sending was interrupted is not sent again automatically: `look_up` asks
//! the server where that is possible (Gmail), and returns `null` otherwise (SMTP); then a person checks, and reports the result with
//! `settle` or repeats the call with `baton/again` in `_meta`.

mod gmail;
mod letter;
mod outbox;
mod settings;
mod smtp;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, RequestMetaObject};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use letter::MailRequest;
pub use outbox::SharedOutbox;
pub use settings::{Gmail as GmailSettings, SecretPlace, Settings, Smtp as SmtpSettings, Tls, Transport};

use crate::Kind;
use crate::owner::user_of;
use evidence::Trust;
use gmail::{Found, Gmail};
use outbox::{Outbox, Record, Slot, State, now_ms};

/// The server `mail`: drafts and mails, each sent at most once.
pub const KIND: Kind = Kind {
    name: "mail",
    about: "Sends mails once, by SMTP or Gmail; until a transport is configured it only writes down what it would send",
    port: 8010,
    trust: Trust::Computed,
    make: |kind, settings| {
        let (mail, shared) = (settings.mail.clone().ok_or("name a folder for its outbox with --root")?, settings.outbox.clone());
        Mail::shared(mail, shared).map(|mail| kind.around(mail)).map_err(|error| error.to_string())
    },
};

/// The name of the effect's key in a call's `_meta`.
pub const META_KEY: &str = "baton/key";
/// In a call's `_meta`: a person was asked about a mail of unknown outcome, and wants it sent again.
pub const META_AGAIN: &str = "baton/again";
const KEY_CHARS_MAX: usize = 500;

/// The server. Cheap to clone: all clones share one outbox.
#[derive(Clone)]
pub struct Mail {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Settings,
    outbox: Outbox,
    gmail: Option<Gmail>,
}

/// Why a mail was not sent.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum MailError {
    #[error("{0}")]
    Settings(String),
    #[error("the outbox: {0}")]
    Outbox(String),
    #[error("{0}")]
    Letter(String),
    #[error("this mail is being sent at this very moment; look it up in a little while")]
    Busy,
    #[error("{reply}{}", if *.again { "; nothing was sent, and trying again with the same key may help" } else { "; nothing was sent, and trying the same again will not help" })]
    Refused { reply: String, again: bool },
    #[error("it is not known whether the mail arrived ({why}); do not send it again: look it up, or have a person look into the mailbox")]
    InDoubt { why: String },
}

/// Result of handing a mail to a transport.
enum TransportResult {
    Accepted { reply: String },
    Refused { reply: String, again: bool },
    Unknown { why: String },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
pub struct SendResult {
    /// `sent`, or `dry_run`: no transport is configured, and the mail was only written to `path`.
    pub outcome: String,
    pub message_id: String,
    /// True when this very mail had been sent by an earlier call with the same key, and nothing was done now.
    pub already: bool,
    /// The mail as it went out; empty where another server sent it.
    pub path: String,
    /// The server's reply, or what happened instead.
    pub detail: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
pub struct LookupResult {
    /// true: it was sent. false: it certainly was not, and may be sent. null: nobody here knows; a person must look.
    pub done: Option<bool>,
    /// What `send` gave, or would have given, if it was sent.
    pub result: Option<SendResult>,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
pub struct Drafted {
    /// The mail as a file that mail programs open. Nothing was sent.
    pub path: String,
    pub from: String,
    pub to: Vec<String>,
    pub bytes: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
pub struct SendArguments {
    #[serde(flatten)]
    pub letter: MailRequest,
    /// A name for this one mail: the same key never sends twice. Not needed where the caller passes `baton/key` in `_meta`.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
pub struct LookUpArguments {
    /// The key the mail was sent with. Not needed where the caller passes `baton/key` in `_meta`.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
pub struct SettleArguments {
    /// The key of the mail in doubt.
    pub key: String,
    /// What a person found in the mailbox or the server's log: did the mail arrive?
    pub arrived: bool,
}

#[tool_router]
impl Mail {
    /// Opens the outbox and checks the settings; sends nothing.
    pub fn new(settings: Settings) -> Result<Self, MailError> {
        Mail::shared(settings, None)
    }

    /// The same with an outbox that other servers use too.
    pub fn shared(settings: Settings, shared: Option<Arc<dyn SharedOutbox>>) -> Result<Self, MailError> {
        let outbox = Outbox::open(&settings.outbox, shared)?;
        letter::sender(&settings)?;
        if settings.from.is_none() && !matches!(settings.transport, Transport::DryRun) {
            return Err(MailError::Settings("set `from` in the mail settings: a transport is configured, and mails need a sender".into()));
        }
        let gmail = if let Transport::Gmail(gmail) = &settings.transport { Some(Gmail::new(gmail)?) } else { None };
        Ok(Self { inner: Arc::new(Inner { settings, outbox, gmail }) })
    }

    #[tool(
        description = "Sends a mail, at most once per key. Without a configured transport it only writes the mail to the outbox and says so. After an error that says `not known`, do not call it again: use look_up.",
        annotations(title = "Send a mail", read_only_hint = false, destructive_hint = true, idempotent_hint = false, open_world_hint = true),
        meta = looked_up_by("look_up")
    )]
    async fn send(
        &self,
        Parameters(asked): Parameters<SendArguments>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<SendResult>, CallToolResult> {
        let key = key_of(&context.meta, asked.key.as_deref()).map_err(|e| error_result(&e))?;
        let again = context.meta.get(META_AGAIN).and_then(Value::as_bool).unwrap_or(false);
        let letter = MailRequest { user: user_of(&context.meta), ..asked.letter };
        self.send_mail(letter, &key, again).await.map(Json).map_err(|e| error_result(&e))
    }

    #[tool(
        description = "Writes a mail as a file without sending it, so that a person can read it first. The same mail gives the same file.",
        annotations(title = "Draft a mail", read_only_hint = false, destructive_hint = false, idempotent_hint = true, open_world_hint = false)
    )]
    async fn draft(
        &self,
        Parameters(asked): Parameters<SendArguments>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Drafted>, CallToolResult> {
        let inner = self.inner.clone();
        let letter = MailRequest { user: user_of(&context.meta), ..asked.letter };
        blocking(move || inner.write_draft(&letter)).await.map(Json).map_err(|e| error_result(&e))
    }

    #[tool(
        description = "Says whether the mail with a key was sent: done is true, false, or null when only a person can find out.",
        annotations(title = "Was it sent?", read_only_hint = true, open_world_hint = true)
    )]
    async fn look_up(
        &self,
        Parameters(asked): Parameters<LookUpArguments>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<LookupResult>, CallToolResult> {
        let key = key_of(&context.meta, asked.key.as_deref()).map_err(|e| error_result(&e))?;
        self.look_up_mail(&key).await.map(Json).map_err(|e| error_result(&e))
    }

    #[tool(
        description = "Records what a person found out about a mail for which look_up says null: whether it arrived. Only on a person's word.",
        annotations(title = "Settle a doubt", read_only_hint = false, destructive_hint = true, idempotent_hint = true, open_world_hint = false)
    )]
    async fn settle(&self, Parameters(asked): Parameters<SettleArguments>) -> Result<Json<LookupResult>, CallToolResult> {
        self.settle_mail(&asked.key, asked.arrived).await.map(Json).map_err(|e| error_result(&e))
    }
}

#[tool_handler(
    name = "mail",
    instructions = "Mails, each sent at most once. Draft first when a person should read it; a key names one mail for good."
)]
impl ServerHandler for Mail {}

impl Mail {
    /// Sends in its own task: a caller that disconnects does not interrupt it.
    pub async fn send_mail(&self, letter: MailRequest, key: &str, again: bool) -> Result<SendResult, MailError> {
        let (inner, key) = (self.inner.clone(), key.to_owned());
        let sending = tokio::spawn(async move { inner.send(&letter, &key, again).await });
        sending.await.unwrap_or_else(|e| Err(MailError::InDoubt { why: format!("sending it crashed: {e}") }))
    }

    /// Whether the mail with this key was sent.
    pub async fn look_up_mail(&self, key: &str) -> Result<LookupResult, MailError> {
        self.inner.look_up(key).await
    }

    /// Records a person's decision about a mail whose delivery is unknown.
    pub async fn settle_mail(&self, key: &str, arrived: bool) -> Result<LookupResult, MailError> {
        self.inner.settle(key, arrived).await
    }
}

impl Inner {
    async fn send(self: &Arc<Self>, letter: &MailRequest, key: &str, again: bool) -> Result<SendResult, MailError> {
        let mut slot = self.intend(letter, key).await?;
        let Some(record) = slot.record.clone() else { return Err(MailError::Outbox("what was written is not there".into())) };
        let draft = match &record.state {
            State::Confirmed { .. } => return Ok(sent(&slot, &record, true)),
            State::HandedOver { draft, at_ms } if !again => {
                // A repeated call looks up the earlier one first.
                match self.doubt(&mut slot, &record, draft.as_deref(), *at_ms).await? {
                    LookupResult { done: Some(true), result: Some(sent), .. } => return Ok(sent),
                    LookupResult { done: Some(false), .. } => draft.clone(),
                    LookupResult { why, .. } => return Err(MailError::InDoubt { why }),
                }
            }
            State::HandedOver { draft, .. } | State::Intended { draft } => draft.clone(),
            State::Refused { .. } => None,
        };
        let mail = slot.read_mail().await?;
        let handed = match &self.settings.transport {
            Transport::DryRun => {
                TransportResult::Accepted { reply: "dry run: no mail transport is configured, so nothing was sent; the mail is in the outbox".into() }
            }
            Transport::Smtp(smtp) => {
                let note = async { slot.turn(State::HandedOver { at_ms: now_ms(), draft: None }).await };
                smtp::send(smtp, &record.from, &record.to, &mail, note).await?
            }
            Transport::Gmail(_) => match &self.gmail {
                Some(gmail) => self.send_by_gmail(gmail, &mut slot, &record, draft, &mail).await?,
                None => return Err(MailError::Settings("Gmail is not set up".into())),
            },
        };
        match handed {
            TransportResult::Accepted { reply } => {
                // If this record is lost, the outcome is unknown: the state stays `handed over`.
                slot.turn(State::Confirmed { at_ms: now_ms(), reply }).await?;
                Ok(slot.record.as_ref().map(|record| sent(&slot, record, false)).unwrap_or_else(|| sent(&slot, &record, false)))
            }
            TransportResult::Refused { reply, again } => {
                slot.turn(State::Refused { at_ms: now_ms(), reply: reply.clone(), again }).await?;
                Err(MailError::Refused { reply, again })
            }
            TransportResult::Unknown { why } => Err(MailError::InDoubt { why }),
        }
    }

    async fn send_by_gmail(
        &self,
        gmail: &Gmail,
        slot: &mut Slot,
        record: &Record,
        draft: Option<String>,
        mail: &[u8],
    ) -> Result<TransportResult, MailError> {
        let draft = match draft {
            Some(draft) => draft,
            None => match gmail.draft(&record.message_id, mail).await {
                Ok(draft) => draft,
                // A draft is not a mail: nothing was sent in any case.
                Err(fault) => return Ok(TransportResult::Refused { reply: fault.words, again: fault.again }),
            },
        };
        slot.turn(State::HandedOver { at_ms: now_ms(), draft: Some(draft.clone()) }).await?;
        gmail.send(&draft, &record.message_id).await
    }

    /// Locks the key's slot, with its existing or a new mail.
    async fn intend(self: &Arc<Self>, letter: &MailRequest, key: &str) -> Result<Slot, MailError> {
        let asked = letter.digest();
        let Some(mut slot) = self.outbox.take(key, true).await? else {
            return Err(MailError::Outbox("the place for a mail could not be made".into()));
        };
        match &slot.record {
            Some(record) if record.asked != asked => Err(MailError::Letter(format!(
                "the key {key:?} belongs to another mail already ({:?} to {}); use a new key for a new mail",
                record.subject,
                record.to.join(", ")
            ))),
            Some(_) => Ok(slot),
            None => {
                let from = letter::sender(&self.settings)?;
                let message_id = format!("<{}.baton@{}>", outbox::digest(key), from.email.domain());
                let (inner, letter, id) = (self.clone(), letter.clone(), message_id.clone());
                let subject = letter.subject.trim().to_owned();
                let composed = blocking(move || letter.compose(&inner.settings, &id)).await?;
                let record = Record {
                    key: key.to_owned(),
                    asked,
                    message_id,
                    transport: self.settings.transport.name().into(),
                    from: composed.from,
                    to: composed.to,
                    subject,
                    bytes: composed.bytes.len() as u64,
                    state: State::Intended { draft: None },
                };
                slot.begin(&composed.bytes, record).await?;
                Ok(slot)
            }
        }
    }

    async fn look_up(self: &Arc<Self>, key: &str) -> Result<LookupResult, MailError> {
        let mut slot = match self.outbox.take(key, false).await {
            Ok(Some(slot)) => slot,
            Ok(None) => return Ok(not_done("no mail with this key was ever begun")),
            Err(MailError::Busy) => return Ok(LookupResult { done: None, result: None, why: MailError::Busy.to_string() }),
            Err(e) => return Err(e),
        };
        let Some(record) = slot.record.clone() else { return Ok(not_done("it was not even written down before the work stopped")) };
        match &record.state {
            State::Intended { .. } => Ok(not_done("it was recorded, but not handed over")),
            State::Refused { reply, .. } => Ok(not_done(reply)),
            State::Confirmed { .. } => Ok(done(&slot, &record)),
            State::HandedOver { draft, at_ms } => self.doubt(&mut slot, &record, draft.as_deref(), *at_ms).await,
        }
    }

    /// Finds out what happened to a mail that was handed over.
    async fn doubt(&self, slot: &mut Slot, record: &Record, draft: Option<&str>, at_ms: u64) -> Result<LookupResult, MailError> {
        let unknown = |why: String| Ok(LookupResult { done: None, result: None, why });
        let (Some(gmail), Some(draft), Transport::Gmail(settings)) = (&self.gmail, draft, &self.settings.transport) else {
            return unknown("the work stopped after the mail was handed over and before the server's answer; an SMTP server cannot be asked, so a person must look into the mailbox".into());
        };
        match gmail.find(draft, &record.message_id).await {
            Ok(Found::Sent { reply }) => {
                slot.turn(State::Confirmed { at_ms: now_ms(), reply }).await?;
                Ok(done(slot, slot.record.as_ref().unwrap_or(record)))
            }
            Ok(Found::Draft) if now_ms().saturating_sub(at_ms) < settings.settle_seconds * 1000 => {
                unknown(format!("Gmail still has it as a draft, but it was handed over less than {} s ago; ask again later", settings.settle_seconds))
            }
            Ok(Found::Draft) => {
                slot.turn(State::Intended { draft: Some(draft.to_owned()) }).await?;
                Ok(not_done("Gmail still has it as a draft"))
            }
            Ok(Found::Nowhere) => unknown("Gmail has it neither among the sent mails nor among the drafts; it may have been deleted".into()),
            Err(fault) => unknown(format!("Gmail could not be asked: {}", fault.words)),
        }
    }

    async fn settle(&self, key: &str, arrived: bool) -> Result<LookupResult, MailError> {
        let Some(mut slot) = self.outbox.take(key, false).await? else { return Ok(not_done("no mail with this key was ever begun")) };
        let Some(record) = slot.record.clone() else { return Ok(not_done("it was not even written down before the work stopped")) };
        match (&record.state, arrived) {
            (State::HandedOver { .. }, true) => {
                slot.turn(State::Confirmed { at_ms: now_ms(), reply: "a person found it in the mailbox".into() }).await?;
            }
            (State::HandedOver { draft, .. }, false) => slot.turn(State::Intended { draft: draft.clone() }).await?,
            (State::Confirmed { .. }, true) | (State::Intended { .. } | State::Refused { .. }, false) => {}
            (State::Confirmed { reply, .. }, false) => {
                return Err(MailError::Letter(format!(
                    "the server confirmed this mail ({reply}), so it is not in doubt; send it again with a new key if it must go again"
                )));
            }
            (State::Intended { .. } | State::Refused { .. }, true) => {
                return Err(MailError::Letter("this mail was never handed over, so it cannot have arrived; check the key".into()));
            }
        }
        Ok(match &slot.record {
            Some(record) if matches!(record.state, State::Confirmed { .. }) => done(&slot, record),
            _ => not_done("a person found that it did not arrive; it may be sent"),
        })
    }

    fn write_draft(&self, letter: &MailRequest) -> Result<Drafted, MailError> {
        let name = letter.digest();
        let composed = letter.compose(&self.settings, &format!("<{name}.draft@baton.invalid>"))?;
        let folder = self.outbox.folder().join("drafts");
        let trouble = |e: std::io::Error| MailError::Outbox(format!("{} cannot be written ({e})", folder.display()));
        crate::workspace::make_private(&folder).map_err(trouble)?;
        let path = folder.join(format!("{name}.eml"));
        if !path.exists() {
            outbox::write_durably(&folder, &format!("{name}.eml"), &composed.bytes).map_err(trouble)?;
        }
        Ok(Drafted { path: path.display().to_string(), from: composed.from, to: composed.to, bytes: composed.bytes.len() as u64 })
    }
}

fn sent(slot: &Slot, record: &Record, already: bool) -> SendResult {
    let detail = if let State::Confirmed { reply, .. } = &record.state { reply.clone() } else { String::new() };
    let outcome = if record.transport == "dry_run" { "dry_run" } else { "sent" };
    let path = Some(slot.mail_path()).filter(|path| path.exists()).map(|path| path.display().to_string()).unwrap_or_default();
    SendResult { outcome: outcome.into(), message_id: record.message_id.clone(), already, path, detail }
}

fn done(slot: &Slot, record: &Record) -> LookupResult {
    let sent = sent(slot, record, true);
    LookupResult { done: Some(true), why: sent.detail.clone(), result: Some(sent) }
}

fn not_done(why: &str) -> LookupResult {
    LookupResult { done: Some(false), result: None, why: why.into() }
}

/// Names, for the hub, the tool that looks up after a crash whether a call with a key took place.
fn looked_up_by(tool: &str) -> MetaObject {
    let mut meta = MetaObject::new();
    meta.insert("baton/lookup".into(), json!(tool));
    meta
}

fn key_of(meta: &RequestMetaObject, argument: Option<&str>) -> Result<String, MailError> {
    match meta.get(META_KEY).and_then(Value::as_str).or(argument).map(str::trim) {
        Some(key) if !key.is_empty() && key.chars().count() <= KEY_CHARS_MAX => Ok(key.to_owned()),
        _ => Err(MailError::Letter(format!("`key` must name this mail, with 1 to {KEY_CHARS_MAX} characters, so that it is never sent twice"))),
    }
}

/// An error for the caller: a message to act on, and in `_meta` data for programs.
fn error_result(e: &MailError) -> CallToolResult {
    let mut meta = MetaObject::new();
    let (done, again) = match e {
        MailError::Busy | MailError::InDoubt { .. } => (Value::Null, false),
        MailError::Refused { again, .. } => (json!(false), *again),
        MailError::Outbox(_) => (Value::Null, false),
        MailError::Settings(_) | MailError::Letter(_) => (json!(false), false),
    };
    meta.insert("baton/done".into(), done);
    meta.insert("baton/again".into(), json!(again));
    let mut result = CallToolResult::error(vec![ContentBlock::text(e.to_string())]);
    result.meta = Some(meta);
    result
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, MailError> + Send + 'static) -> Result<T, MailError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| Err(MailError::Outbox(format!("writing crashed: {e}"))))
}

//! Answers `CallModel` with any of the models.
//!
//! ```text
//!   Job ── Models ── name ── guard (turn, breaker) ── Model ── Answer ── structured ── Reply
//!                      │ cannot?                        remote · triton · embedded · extract
//!                      └── the next fallback
//! ```
//!
//! A reply's value is simple: the text as a JSON string; the validated JSON if the call had a schema; or
//! `{"text": …, "tool_calls": [{"name", "arguments"}]}` if the model called tools. Who answered, how and for how much
//! stands beside it in `Reply::about` and `Reply::usage`.
//!
//! Deliberately absent: trying the same model again. That is decided in `graph`, from `Failure::retry`.

#![warn(missing_docs)]

pub mod cassette;
pub mod choice;
pub mod evidence;
pub mod extract;
mod guard;
pub mod name;
pub mod remote;
pub mod table;
pub mod triton;
pub mod utf8;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use call_limits::CallLimits;
use graph::{Effect, Failure, FailureKind, Job, Key, ModelCall, Reply, Usage};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub use name::{Family, Name, NameError};
pub use secret::{Env, KeySource, Secret};
pub use table::{Dialect, Endpoint, Row, Table};

use effects::{EffectHandler, Progress, Repeatability, clip};
use guard::Guard;
use remote::Remote;
use triton::Triton;

/// A language model.
#[async_trait]
pub trait Model: Send + Sync {
    /// The key is the same for every attempt at the same effect. Dropping the future ends the call.
    async fn answer(&self, call: &ModelCall, key: &Key, progress: &Progress) -> Result<Answer, ModelError>;
}

/// What a model returned for one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The text, JSON or tool calls that the model generated.
    pub output: ModelOutput,
    /// Tokens and cost of this call.
    pub usage: Usage,
    /// The provider's name for the model, if it reports one.
    pub model: Option<String>,
    /// Why generation ended.
    pub finish: Finish,
    /// More for `Reply::about`: an object, or null.
    pub notes: Value,
}

/// The generated part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelOutput {
    /// Plain text.
    Text(String),
    /// Already JSON. It is validated all the same.
    Json(Value),
    /// Calls of tools that the request offered.
    Calls {
        /// Text generated beside the calls; may be empty.
        text: String,
        /// The calls, in the order they were generated.
        calls: Vec<Called>,
    },
}

/// A tool call that a model generated.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    /// The name of the tool, as in the request.
    pub name: String,
    /// The arguments: an object, or a string that holds JSON.
    pub arguments: Value,
}

/// Why generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended its reply.
    Stop,
    /// The token limit came first.
    Length,
    /// The model called tools.
    ToolCalls,
    /// The provider withheld it.
    Filtered,
    /// The provider did not report it, or reported something else.
    Unknown,
}

impl Finish {
    fn word(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::ToolCalls => "tool_calls",
            Finish::Filtered => "filtered",
            Finish::Unknown => "unknown",
        }
    }
}

/// Why there is no answer, and who could do something about it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What could make the call succeed.
    pub remedy: Remedy,
    /// The kind that a flow receives.
    pub kind: FailureKind,
    /// The message for users and logs.
    pub message: String,
}

/// What could make a failed call succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The same call may succeed later.
    Again {
        /// The pause that the provider asks for.
        after_ms: Option<u64>,
    },
    /// This model will not, but another may.
    Another,
    /// Only a person can: a key, a setting, a request that makes no sense.
    User,
}

impl ModelError {
    /// An error that a later attempt at the same model may not have.
    pub fn again(kind: FailureKind, message: impl Into<String>) -> Self {
        ModelError { remedy: Remedy::Again { after_ms: None }, kind, message: message.into() }
    }

    /// An error of this model that another model may not have.
    pub fn another(kind: FailureKind, message: impl Into<String>) -> Self {
        ModelError { remedy: Remedy::Another, kind, message: message.into() }
    }

    /// An error that only the user can remove.
    pub fn user(message: impl Into<String>) -> Self {
        ModelError { remedy: Remedy::User, kind: FailureKind::Refused, message: message.into() }
    }

    fn failure(self) -> Failure {
        let failure = Failure::new(self.kind, self.message);
        match self.remedy {
            Remedy::Again { after_ms: Some(ms) } => failure.retry_after_ms(ms),
            Remedy::Again { after_ms: None } => failure.retry(),
            Remedy::Another | Remedy::User => failure,
        }
    }
}

/// All models there are, and the order in which they are asked.
pub struct Models {
    table: Table,
    chosen: RwLock<Name>,
    endpoints: BTreeMap<String, OpenEndpoint>,
    key_lookup: Option<KeyLookup>,
    /// Models in this process.
    own: BTreeMap<Name, Arc<dyn Model>>,
    guards: BTreeMap<String, Guard>,
}

/// Looks a variable up at each call, for keys that may be stored or removed while the program runs.
pub type KeyLookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// An endpoint whose key was looked for.
struct OpenEndpoint {
    connection: Connection,
    key: Result<Option<Secret>, String>,
}

enum Connection {
    Http(Arc<remote::Connection>),
    Grpc(Arc<triton::Connection>),
}

impl Models {
    /// `chosen` answers calls that name no model. Keys are looked up here, once, unless [`with_key_lookup`](Models::with_key_lookup) is used; a
    /// missing one is reported when it is needed.
    pub fn new(table: Table, chosen: Name, env: Env<'_>) -> Result<Self, ModelError> {
        let mut endpoints = BTreeMap::new();
        let mut guards = BTreeMap::new();
        let clients = remote::clients()?;
        for (name, endpoint) in &table.endpoints {
            let connection = match endpoint.dialect {
                Dialect::Triton => Connection::Grpc(Arc::new(triton::Connection::new(endpoint))),
                Dialect::OpenaiChat | Dialect::OpenaiResponses | Dialect::Anthropic | Dialect::Gemini | Dialect::Ollama => {
                    Connection::Http(Arc::new(remote::Connection::new(&clients, endpoint)?))
                }
            };
            let key = endpoint.key.as_ref().map(|source| source.find(env)).transpose();
            let identity = identity(endpoint, key.as_ref().ok().and_then(Option::as_ref));
            guards.insert(name.clone(), Guard::new(name, &identity, endpoint.calls_max, endpoint.calls_per_minute_max));
            endpoints.insert(name.clone(), OpenEndpoint { connection, key });
        }
        let own = BTreeMap::from([(Name::extract(), Arc::new(extract::Extract) as Arc<dyn Model>)]);
        Ok(Models { table, chosen: RwLock::new(chosen), endpoints, key_lookup: None, own, guards })
    }

    /// Adds a model that does not go through the table: the embedded one, for instance, or a test's.
    pub fn with(mut self, name: Name, model: Arc<dyn Model>) -> Self {
        self.own.insert(name, model);
        self
    }

    /// Keys that are named by a variable are looked up with this at each call. Those in files and from programs are read once.
    pub fn with_key_lookup(mut self, lookup: KeyLookup) -> Self {
        self.key_lookup = Some(lookup);
        self
    }

    /// Limits of calls to endpoints that other servers use too are decided there from now on.
    pub fn share_limits(&self, limits: &Arc<dyn CallLimits>) {
        for (name, guard) in &self.guards {
            if self.table.endpoints.get(name).is_some_and(Endpoint::is_shared) {
                guard.share(limits.clone());
            }
        }
    }

    /// The model that answers calls which name none.
    pub fn chosen(&self) -> Name {
        self.chosen.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another model answers such calls from now on.
    pub fn choose(&self, name: Name) {
        *self.chosen.write().unwrap_or_else(PoisonError::into_inner) = name;
    }

    /// Asks the model the call names (or the chosen one), and then the fallbacks in order while the trouble is of a kind
    /// that another could be without.
    pub async fn answer(&self, call: &ModelCall, key: &Key, progress: &Progress) -> Reply {
        self.answer_by(call.model.as_deref(), NO_USER, call, key, progress).await
    }

    /// The same, by the named model for a user.
    async fn answer_by(&self, model: Option<&str>, user: &str, call: &ModelCall, key: &Key, progress: &Progress) -> Reply {
        let first = match model.map(str::parse::<Name>) {
            None => self.chosen(),
            Some(Ok(name)) => name,
            Some(Err(error)) => return Reply::failed(Failure::new(FailureKind::Refused, error.to_string())),
        };
        let others = self.table.fallbacks.iter().filter(|name| **name != first);
        let names: Vec<&Name> = std::iter::once(&first).chain(others).collect();
        let mut troubles: Vec<(&Name, ModelError)> = Vec::new();
        for &name in &names {
            let received = ProgressProbe::new(progress);
            match self.ask(name, user, call, key, &received.progress).await {
                Ok(answer) => return self.reply(name, call, answer, &troubles),
                Err(trouble) => {
                    tracing::debug!(model = %name, kind = %trouble.kind, "a model could not answer: {}", trouble.message);
                    let is_final = trouble.remedy == Remedy::User;
                    troubles.push((name, trouble));
                    if is_final {
                        break;
                    }
                    // Text that was already sent cannot be withdrawn; watchers are notified that the text starts again.
                    if received.anything() && troubles.len() < names.len() {
                        progress.send("\n[the answer broke off; another model is asked]\n");
                    }
                }
            }
        }
        failed(&troubles)
    }

    async fn ask(&self, name: &Name, user: &str, call: &ModelCall, key: &Key, progress: &Progress) -> Result<Answer, ModelError> {
        let guard = self.guards.get(name.endpoint());
        let model = self.open(name)?;
        match guard {
            None => model.answer(call, key, progress).await,
            Some(guard) => guard.through(user, model.answer(call, key, progress)).await,
        }
    }

    fn open(&self, name: &Name) -> Result<Arc<dyn Model>, ModelError> {
        if let Some(model) = self.own.get(name) {
            return Ok(model.clone());
        }
        if name.family == Family::Embedded {
            return Err(ModelError::another(FailureKind::Refused, format!("{name} is not there: its weights have not been pulled")));
        }
        let endpoint = self.table.endpoint(name).map_err(|error| ModelError::user(error.to_string()))?;
        let opened = self.endpoints.get(name.endpoint()).ok_or_else(|| ModelError::user(format!("{name} has no endpoint")))?;
        let key = match (&self.key_lookup, &endpoint.key) {
            // One line of a local file at most.
            (Some(lookup), Some(source @ KeySource::Env(_))) => source.find(&**lookup).map(Some),
            _ => opened.key.clone(),
        };
        let key = key.map_err(|why| ModelError::user(format!("{name}: {why}")))?;
        let (name, row) = (name.clone(), self.table.row(name));
        Ok(match &opened.connection {
            Connection::Http(connection) => Arc::new(Remote::new(name, connection.clone(), row, key)),
            Connection::Grpc(connection) => Arc::new(Triton::new(name, connection.clone(), row, key)),
        })
    }

    /// The answer as a flow sees it: checked against the call, for every kind of model.
    fn reply(&self, name: &Name, call: &ModelCall, answer: Answer, troubles: &[(&Name, ModelError)]) -> Reply {
        let Answer { output, mut usage, model, finish, notes } = answer;
        let price = self.table.row(name).price(usage);
        usage.usd_micros = price.unwrap_or_default();
        let mut about = json!({"model": name.to_string(), "finish": finish.word()});
        if let Some(model) = model.filter(|model| *model != name.model) {
            about["answered_as"] = json!(model);
        }
        if price.is_none() && !usage.is_zero() {
            about["price"] = json!("unknown");
        }
        if !troubles.is_empty() {
            about["tried"] = troubles.iter().map(|(name, trouble)| json!({"model": name.to_string(), "why": clip(&trouble.message, 300)})).collect();
        }
        if let Value::Object(notes) = notes {
            notes.into_iter().for_each(|(key, note)| about[key] = note);
        }
        let reply = match value_of(call, output, finish) {
            Ok((value, is_repaired)) => {
                if is_repaired {
                    about["mended"] = json!(true);
                }
                Reply::ok(value)
            }
            Err(UnusableReply { why, output }) => Reply::failed(Failure::new(FailureKind::Invalid, format!("{name}: {why}")).with_output(output)),
        };
        reply.using(usage).about(about)
    }
}

/// For calls that belong to no user.
const NO_USER: &str = "";

/// The same for the same address and key, wherever that is used; a digest, so that it reveals nothing about the key.
fn identity(endpoint: &Endpoint, key: Option<&Secret>) -> String {
    let mut digest = Sha256::new();
    for part in ["baton call limits", endpoint.url.trim_end_matches('/'), key.map_or("", Secret::reveal)] {
        digest.update(part.as_bytes());
        digest.update([0]);
    }
    digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// A reply that is not usable, and why. Its text is kept, because a flow may still find an answer in it.
struct UnusableReply {
    why: String,
    output: String,
}

fn value_of(call: &ModelCall, output: ModelOutput, finish: Finish) -> Result<(Value, bool), UnusableReply> {
    let cut_off = match (finish, call.tokens_max) {
        (Finish::Length, Some(max)) => format!(" (it was cut off at tokens_max = {max})"),
        (Finish::Length, None) => " (it was cut off at the model's limit)".to_owned(),
        _ => String::new(),
    };
    match (output, &call.schema) {
        (ModelOutput::Calls { text, calls }, _) if !call.tools.is_empty() && !calls.is_empty() => {
            let mut is_repaired = false;
            let mut checked = Vec::new();
            for called in calls {
                let Some(tool) = call.tools.iter().find(|tool| tool.name == called.name) else {
                    let offered: Vec<&str> = call.tools.iter().map(|tool| tool.name.as_str()).collect();
                    let why = format!("the model called a tool that is not there, {:?}; offered were {}", called.name, offered.join(", "));
                    return Err(UnusableReply { why, output: text });
                };
                let arguments = match called.arguments {
                    Value::String(text) if text.trim().is_empty() => structured::check(json!({}), &tool.schema),
                    Value::String(text) => structured::read(&text, &tool.schema),
                    Value::Null => structured::check(json!({}), &tool.schema),
                    value => structured::check(value, &tool.schema),
                }
                .map_err(|error| UnusableReply {
                    why: format!("the arguments for {} do not fit: {error}{cut_off}", called.name),
                    output: text.clone(),
                })?;
                is_repaired |= arguments.is_repaired;
                checked.push(json!({"name": called.name, "arguments": arguments.value}));
            }
            Ok((json!({"text": text, "tool_calls": checked}), is_repaired))
        }
        (ModelOutput::Json(value), Some(schema)) => {
            let output = value.to_string();
            done(structured::check(value, schema), output, &cut_off)
        }
        (ModelOutput::Text(text) | ModelOutput::Calls { text, .. }, Some(schema)) => {
            let read = structured::read(&text, schema);
            done(read, structured::without_thinking(&text).into_owned(), &cut_off)
        }
        (ModelOutput::Json(value), None) => Ok((value, false)),
        (ModelOutput::Text(text) | ModelOutput::Calls { text, .. }, None) => {
            let text = structured::without_thinking(&text);
            if text.trim().is_empty() {
                return Err(UnusableReply { why: format!("the model returned no text{cut_off}"), output: String::new() });
            }
            Ok((Value::String(text.into_owned()), false))
        }
    }
}

fn done(read: Result<structured::ValidJson, structured::NotJson>, output: String, cut_off: &str) -> Result<(Value, bool), UnusableReply> {
    read.map(|read| (read.value, read.is_repaired)).map_err(|error| UnusableReply { why: format!("{error}{cut_off}"), output })
}

/// No model answered. If a retry may help with any of them, the failure is retryable; the error of the first model comes first.
fn failed(troubles: &[(&Name, ModelError)]) -> Reply {
    let again = troubles.iter().filter_map(|(_, trouble)| match trouble.remedy {
        Remedy::Again { after_ms } => Some(after_ms.unwrap_or_default()),
        Remedy::Another | Remedy::User => None,
    });
    let again = again.min();
    let message = troubles.iter().map(|(name, trouble)| format!("{name}: {}", trouble.message)).collect::<Vec<_>>().join("; then ");
    let last_word = troubles.iter().find(|(_, trouble)| trouble.remedy == Remedy::User);
    let kind = last_word.or(troubles.first()).map_or(FailureKind::Internal, |(_, trouble)| trouble.kind);
    let remedy = match again {
        Some(0) => Remedy::Again { after_ms: None },
        Some(ms) => Remedy::Again { after_ms: Some(ms) },
        None => Remedy::User,
    };
    let tried: Value = troubles.iter().map(|(name, _)| json!(name.to_string())).collect();
    Reply::failed(ModelError { remedy, kind, message }.failure()).about(json!({"tried": tried}))
}

/// Records whether any text was sent.
struct ProgressProbe {
    progress: Progress,
    has_sent: Arc<std::sync::atomic::AtomicBool>,
}

impl ProgressProbe {
    fn new(outer: &Progress) -> Self {
        let has_sent = Arc::new(std::sync::atomic::AtomicBool::new(false));
        if !outer.has_listener() {
            return ProgressProbe { progress: Progress::nowhere(), has_sent };
        }
        let (outer, noted) = (outer.clone(), has_sent.clone());
        let progress = Progress::to(move |text| {
            noted.store(true, std::sync::atomic::Ordering::Relaxed);
            outer.send(text);
        });
        ProgressProbe { progress, has_sent }
    }

    fn anything(&self) -> bool {
        self.has_sent.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[async_trait]
impl EffectHandler for Models {
    /// Asking twice costs twice, and changes nothing.
    fn repeatability(&self, _job: &Job) -> Repeatability {
        Repeatability::Repeatable
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        match &*job.effect {
            Effect::CallModel(call) => {
                let model = call.model.as_deref().or(job.context.model.as_deref());
                self.answer_by(model, job.context.user.as_str(), call, &job.key, progress).await
            }
            Effect::CallTool(_) | Effect::CallAgent(_) | Effect::AskPerson(_) => {
                let words = format!("models answer no {} {}", job.effect.kind(), job.effect.name());
                Reply::failed(Failure::new(FailureKind::Refused, words))
            }
        }
    }
}

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Usage;

/// The result of one attempt at one effect. A failure is a value too, which a flow can react to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The value, or why there is none.
    pub result: Result<Value, Failure>,
    /// What it used.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
    /// How long it took, measured by the handler; the only source of time in a run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub took_us: u64,
    /// Who answered and how (`{"model": …, "finish": …}`), for people and for accounts. It stays in the journal, and no flow
    /// decides by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<Value>,
}

impl Reply {
    /// A reply that went well.
    pub fn ok(value: impl Into<Value>) -> Self {
        Reply { result: Ok(value.into()), usage: Usage::default(), took_us: 0, about: None }
    }

    /// A reply that did not.
    pub fn failed(failure: Failure) -> Self {
        Reply { result: Err(failure), usage: Usage::default(), took_us: 0, about: None }
    }

    /// Sets what it used.
    pub fn using(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Sets how long it took, in microseconds.
    pub fn taking_us(mut self, took_us: u64) -> Self {
        self.took_us = took_us;
        self
    }

    /// Sets who answered and how.
    pub fn about(mut self, about: Value) -> Self {
        self.about = Some(about);
        self
    }

    /// Marks a tool's reply that holds no foreign text: all of it is Baton's own, or of servers that the user trusts. Only handlers set this.
    pub fn without_foreign_text(self) -> Self {
        self.about(json!({ NO_FOREIGN_TEXT: true }))
    }

    /// Marks a tool's reply that has nothing private, because it is public or computed from the arguments alone, and names the addresses
    /// of its results. Only handlers set this.
    pub fn without_private_text(mut self, addresses: Vec<String>) -> Self {
        let mut about = self.about.take().unwrap_or_else(|| json!({}));
        about[NO_PRIVATE_TEXT] = Value::Bool(true);
        if !addresses.is_empty() {
            about[ADDRESSES] = addresses.into();
        }
        self.about(about)
    }

    /// Marks a failure whose message was written by a server that is not trusted. Only handlers set this.
    pub fn with_foreign_error(mut self) -> Self {
        let mut about = self.about.take().unwrap_or_else(|| json!({}));
        about[FOREIGN_ERROR] = Value::Bool(true);
        self.about(about)
    }

    pub(crate) fn has_foreign_text(&self) -> bool {
        let is_marked = |mark: &str| self.about.as_ref().is_some_and(|about| about[mark] == true);
        if self.result.is_ok() { !is_marked(NO_FOREIGN_TEXT) } else { is_marked(FOREIGN_ERROR) }
    }

    pub(crate) fn has_private_text(&self) -> bool {
        !self.about.as_ref().is_some_and(|about| about[NO_PRIVATE_TEXT] == true)
    }

    /// Where its results come from, if they are public.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &str> {
        let about = self.about.as_ref().filter(|_| !self.has_private_text());
        about.and_then(|about| about.get(ADDRESSES)).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }
}

const NO_FOREIGN_TEXT: &str = "no_foreign_text";
const FOREIGN_ERROR: &str = "foreign_error";
const NO_PRIVATE_TEXT: &str = "no_private_text";
const ADDRESSES: &str = "addresses";

/// Why an effect has no result: a message for people and a kind for flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct Failure {
    /// What sort of failure it is.
    pub kind: FailureKind,
    /// What happened and what to do, for people.
    pub message: String,
    /// Whether another attempt makes sense.
    #[serde(default, skip_serializing_if = "Retry::is_no")]
    pub retry: Retry,
    /// The text that the model or tool returned although it failed, shortened to a limit. A flow may use it.
    #[serde(rename = "said", default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// A run that failed, or one below it, had started an effect that is not repeatable. Set for child runs only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_acted: bool,
}

impl Failure {
    /// A failure that is not tried again.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Failure { kind, message: message.into(), retry: Retry::No, output: None, has_acted: false }
    }

    /// Marks it as worth another attempt.
    pub fn retry(mut self) -> Self {
        self.retry = Retry::Yes;
        self
    }

    /// The same, after a time that the other side named.
    pub fn retry_after_ms(mut self, ms: u64) -> Self {
        self.retry = Retry::AfterMs(ms);
        self
    }

    /// Adds the text that was returned although it failed. Blank text is left out.
    pub fn with_output(mut self, output: impl Into<String>) -> Self {
        let output: String = output.into();
        self.output = (!output.trim().is_empty()).then_some(output);
        self
    }
}

/// Whether another attempt is safe and useful; set by the handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// Another attempt would fail the same way.
    #[default]
    No,
    /// Another attempt may succeed.
    Yes,
    /// The other side named a time, as `Retry-After` does.
    AfterMs(u64),
}

impl Retry {
    fn is_no(&self) -> bool {
        *self == Retry::No
    }
}

/// What sort of failure it is; flows and retries depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The other side could not be reached or broke off.
    Network,
    /// The deadline passed.
    Timeout,
    /// Arguments or a reply were not of the expected form.
    Invalid,
    /// Refused: no such tool, no permission, no key.
    Refused,
    /// The tool, agent or model ran and reported an error of its own.
    Tool,
    /// A limit of the machine; the message names it.
    Limit,
    /// A budget is used up; the message names it.
    Budget,
    /// An effect this one needs has failed, so this one was not performed.
    Need,
    /// A reference into another reply found nothing there, or nothing that fits.
    Reference,
    /// It was started, and it is unknown whether it happened.
    InDoubt,
    /// The run was stopped.
    Cancelled,
    /// A bug on our side.
    Internal,
}

impl std::fmt::Display for FailureKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FailureKind::Network => "network",
            FailureKind::Timeout => "timeout",
            FailureKind::Invalid => "invalid",
            FailureKind::Refused => "refused",
            FailureKind::Tool => "tool",
            FailureKind::Limit => "limit",
            FailureKind::Budget => "budget",
            FailureKind::Need => "need",
            FailureKind::Reference => "reference",
            FailureKind::InDoubt => "in doubt",
            FailureKind::Cancelled => "cancelled",
            FailureKind::Internal => "internal",
        })
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

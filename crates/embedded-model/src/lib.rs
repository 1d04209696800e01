//! The model that runs in this process: a small language model on two cores, for users without another one.
//!
//! ```text
//!   answer() ──queue──> worker thread: chat ─ prefix ─ decode(net, grammar) ──deltas, Answer──> answer()
//!                          │ owns the network; loads it at the first call, frees it when idle
//! ```
//!
//! One thread owns the model and answers one call after another; the asynchronous runtime never computes. A call whose future
//! is dropped ends at the next token. Weights are pulled and verified by [`weights`]; nothing here touches the network.
//!
//! How many threads it takes is read once per process from `CANDLE_NUM_THREADS`; without it, see [`threads::wanted`]. A program
//! should set the variable to that before it starts any thread, since candle's kernels, which some weights need, decide otherwise.
//!
//! Deliberately absent: validating a reply against the schema beyond what the grammar forces (`structured` does it for every
//! model), and trying again.

#![warn(missing_docs)]
// Without inference, the thread and its messages are never created.
#![cfg_attr(not(feature = "inference"), allow(dead_code))]

#[cfg(feature = "inference")]
mod adapter;
#[cfg(feature = "inference")]
mod blocks;
#[cfg(feature = "inference")]
mod chat;
#[cfg(feature = "inference")]
mod decode;
#[cfg(feature = "inference")]
mod gguf;
#[cfg(feature = "inference")]
mod grammar;
#[cfg(feature = "inference")]
mod kernel;
pub mod kernels;
#[cfg(feature = "inference")]
mod net;
#[cfg(feature = "inference")]
mod prefix;
#[cfg(feature = "inference")]
mod prefix_files;
mod provider;
pub mod threads;
#[cfg(feature = "inference")]
mod vocabulary;
pub mod weights;
#[cfg(feature = "inference")]
mod worker;
#[cfg(not(feature = "inference"))]
#[path = "absent.rs"]
mod worker;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use graph::{FailureKind, ModelCall};
use serde_json::Value;
use tokio::sync::mpsc;

pub use self::kernels::{Kernels, Limits};
pub use self::weights::Adapter;
use effects::Progress;

/// A model in a file, loaded on its first call.
pub struct Embedded {
    path: PathBuf,
    options: Options,
    /// `None` until the first call.
    queue: Mutex<Option<SyncSender<Order>>>,
}

/// Limits and choices of the model.
#[derive(Clone, Debug)]
pub struct Options {
    /// The model's memory is freed after this long without a call.
    pub idle_max: Duration,
    /// Prompt and answer together; the weights may allow less.
    pub context_tokens_max: usize,
    /// For calls that say nothing about it.
    pub answer_tokens_max: usize,
    /// Calls that wait while another is answered.
    pub queue_max: usize,
    /// What stays of earlier prompts.
    pub prefixes_max: usize,
    /// Tokens of each of them.
    pub prefix_tokens_max: usize,
    /// Whether what prompts have in common is kept in files beside the weights, for the next process.
    pub keeps_prefixes: bool,
    /// The kernels; a choice that this processor cannot run is an error of the first call.
    pub kernels: Kernels,
    /// A change of the weights that is applied when they are loaded.
    pub adapter: Option<&'static Adapter>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            idle_max: Duration::from_secs(300),
            context_tokens_max: 8192,
            answer_tokens_max: 1024,
            queue_max: 64,
            prefixes_max: 4,
            prefix_tokens_max: 1536,
            keeps_prefixes: true,
            kernels: Kernels::default(),
            adapter: None,
        }
    }
}

/// The answer to one call, and what it cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The generated text or JSON.
    pub output: GeneratedOutput,
    /// Why generation ended.
    pub finish: Finish,
    /// Counts of tokens.
    pub tokens: Tokens,
    /// Durations.
    pub timing: Timing,
    /// The network that computed it.
    pub network: NetworkInfo,
}

/// What the network is computed with, and how much a token costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkInfo {
    /// Never [`Kernels::Auto`].
    pub kernels: Kernels,
    /// Weights that are read for each token that is generated, in bytes; unknown of candle's kernels.
    pub token_bytes: Option<usize>,
    /// Products of a weight and an activation for each token of a prompt.
    pub token_products: Option<usize>,
}

/// What this machine could do at most with these kernels on all threads, measured in about a second. candle's are not measured,
/// nor are those that this processor cannot run.
pub fn limits(kernels: Kernels) -> Option<Limits> {
    kernels.limits()
}

/// Whether this binary can run the model: not if it was built without the feature `inference`.
pub const IS_BUILT: bool = cfg!(feature = "inference");

/// What the model generated.
#[derive(Clone, Debug, PartialEq)]
pub enum GeneratedOutput {
    /// The call had no schema.
    Text(String),
    /// The call had a schema, and this is what the schema's grammar let through.
    Json(Value),
}

/// Why generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended its answer.
    Stop,
    /// The token limit was reached.
    Length,
}

/// Counts of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Tokens of the prompt that an earlier call had already read.
    pub cached: usize,
    /// Tokens of the answer.
    pub answer: usize,
    /// Tokens of the answer about which the schema left no choice.
    pub forced: usize,
}

/// Durations of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Loading the weights, if this call had to.
    pub load: Duration,
    /// Reading the prompt, until the first token is known.
    pub prompt: Duration,
    /// All tokens after the first.
    pub answer: Duration,
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum EmbeddedError {
    #[error("this binary was built without the embedded model; name another model with --model, or build it with the feature `embedded-model`")]
    NotBuilt,
    #[error("there are no weights at {path}; `baton models pull` fetches them")]
    NoWeights { path: PathBuf },
    #[error("the weights cannot be used: {why}. `baton models remove` and `baton models pull --verify` fetch them again")]
    Damaged { why: String },
    #[error("{why} (setting `kernels` in `[embedded]`)")]
    BadKernels { why: String },
    #[error("the embedded model has {waiting} calls waiting already")]
    Busy { waiting: usize },
    #[error("the prompt has {prompt} tokens and the answer may have {answer}, but the embedded model holds {context} at a time")]
    TooLong { prompt: usize, answer: usize, context: usize },
    #[error("{why}")]
    BadRequest { why: String },
    #[error("the schema cannot be followed: {why}")]
    BadSchema { why: String },
    #[error("the answer was cut off after {tokens} tokens, so it is not the JSON that was asked for: {text}")]
    Truncated { tokens: usize, text: String },
    #[error("the call was cancelled")]
    Cancelled,
    #[error("a bug in the embedded model: {why}")]
    Bug { why: String },
}

impl EmbeddedError {
    /// As a failure of a flow's effect.
    pub fn kind(&self) -> FailureKind {
        match self {
            EmbeddedError::NotBuilt | EmbeddedError::NoWeights { .. } | EmbeddedError::Damaged { .. } | EmbeddedError::BadKernels { .. } => {
                FailureKind::Refused
            }
            EmbeddedError::Busy { .. } | EmbeddedError::TooLong { .. } => FailureKind::Limit,
            EmbeddedError::BadRequest { .. } | EmbeddedError::BadSchema { .. } | EmbeddedError::Truncated { .. } => FailureKind::Invalid,
            EmbeddedError::Cancelled => FailureKind::Cancelled,
            EmbeddedError::Bug { .. } => FailureKind::Internal,
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "so that `map_err` can name it")]
    fn damaged(why: impl ToString) -> Self {
        EmbeddedError::Damaged { why: why.to_string() }
    }

    #[expect(clippy::needless_pass_by_value, reason = "so that `map_err` can name it")]
    fn bug(why: impl ToString) -> Self {
        EmbeddedError::Bug { why: why.to_string() }
    }
}

impl Embedded {
    /// Opens nothing yet: a missing or damaged file is reported by the first call.
    pub fn open(path: impl Into<PathBuf>) -> Self {
        Embedded::with(path, Options::default())
    }

    /// The same as [`Embedded::open`], with other options.
    pub fn with(path: impl Into<PathBuf>, options: Options) -> Self {
        Embedded { path: path.into(), options, queue: Mutex::new(None) }
    }

    /// The file of the weights.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Text is sent to `progress` as it is generated. Dropping the future ends the call at the next token.
    pub async fn answer(&self, call: &ModelCall, progress: &Progress) -> Result<Answer, EmbeddedError> {
        self.order(Task::Answer(Box::new(call.clone())), progress).await
    }

    /// Loads the weights and makes one pass over them, so that the first answer need not wait for it.
    pub async fn warm(&self) -> Result<NetworkInfo, EmbeddedError> {
        self.order(Task::Warm, &Progress::nowhere()).await.map(|answer| answer.network)
    }

    async fn order(&self, task: Task, progress: &Progress) -> Result<Answer, EmbeddedError> {
        let (events, mut received) = mpsc::unbounded_channel();
        let listening = Listening(Arc::default());
        self.send(Order { task, is_cancelled: listening.0.clone(), events })?;
        loop {
            match received.recv().await {
                Some(Event::Delta(text)) => progress.send(&text),
                Some(Event::Done(result)) => return *result,
                None => return Err(EmbeddedError::bug("its thread has ended")),
            }
        }
    }

    fn send(&self, order: Order) -> Result<(), EmbeddedError> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = match &*queue {
            Some(sender) => sender,
            None => queue.insert(worker::start(self.path.clone(), self.options.clone())?),
        };
        match sender.try_send(order) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => Err(EmbeddedError::Busy { waiting: self.options.queue_max }),
            Err(TrySendError::Disconnected(_)) => {
                *queue = None;
                Err(EmbeddedError::bug("its thread has ended"))
            }
        }
    }
}

/// Work for the thread that owns the model.
struct Order {
    task: Task,
    is_cancelled: Arc<AtomicBool>,
    events: mpsc::UnboundedSender<Event>,
}

enum Task {
    Warm,
    Answer(Box<ModelCall>),
}

enum Event {
    Delta(String),
    Done(Box<Result<Answer, EmbeddedError>>),
}

/// Dropping it cancels the call.
struct Listening(Arc<AtomicBool>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(all(test, feature = "inference"))]
mod tests;

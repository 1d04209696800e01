//! Whether a text supports a claim, by a small model that is part of the binary: MiniLM-L6 as a cross-encoder, int8 weights, trained by `lab/train`.
//!
//! Beside it the answer check: whether passages state that a short answer is the answer to a question, by a second model on the same word embeddings.
//!
//! Deliberately absent: async, IO, and the decision what a status is (`evidence::decide`).
//!
//! ```text
//!   (evidence, claim) ── tokens ──▶ windows of 350 tokens ── encoder ──▶ logits ── calibration ──▶ Judgement of the best window
//!   (passages, question, answer) ── tokens ──▶ one text of 512 tokens ── encoder ──▶ logits ── calibration ──▶ probability
//! ```

#![warn(missing_docs)]

#[cfg(feature = "model")]
mod answers;
#[cfg(feature = "model")]
mod model;
#[cfg(not(feature = "model"))]
#[path = "absent.rs"]
mod model;
#[cfg(feature = "model")]
mod net;
#[cfg(feature = "model")]
mod tokens;

pub use model::Verifier;

/// Why there is no verifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what it is")]
pub enum LoadError {
    #[error("this binary was built without the verifier; build it with the feature `verifier`")]
    NotBuilt,
    #[error("the verifier: {0}")]
    Weights(String),
    #[error("the verifier's tokenizer cannot be read: {0}")]
    Tokenizer(String),
    #[error("no threads for the verifier: {0}")]
    Threads(String),
}

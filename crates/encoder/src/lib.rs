//! The small text encoder that the verifier, the answer check and the vectors of passages share: layers of BERT (384 wide) with int8 weights, six for the
//! verifier, six for the answer check and three for vectors. The weights of all are part of the binary; they share the word embeddings and the tokenizer.
//!
//! Deliberately absent: tokens, threads, IO, and what is made of the output (a head over it, or a mean).
//!
//! ```text
//!   tokens ── Table ──▶ rows of 384 ── n × (attention, inner layer) ──▶ a row of 384 for each token
//! ```

#![warn(missing_docs)]

pub mod builtin;
mod encoder;
mod kernel;
mod weights;

pub use encoder::{Encoder, INNER, Layer, Norm, POSITIONS_MAX, Parts, Scratch, Text, WIDTH, WORDS};
pub use kernel::{Kernel, Matrix, Rows};
pub use weights::{Table, Weights, WeightsError};

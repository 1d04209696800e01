//! The small text encoder that the verifier and the vectors of passages share: six layers of BERT (MiniLM-L6) with int8 weights.
//!
//! Deliberately absent: tokens, threads, IO, and what is made of the output (a head over it, or a mean).
//!
//! ```text
//!   tokens ── Table ──▶ rows of 384 ── 6 × (attention, inner layer) ──▶ a row of 384 for each token
//! ```

#![warn(missing_docs)]

mod encoder;
mod kernel;
mod weights;

pub use encoder::{Encoder, INNER, LAYERS, Layer, Norm, POSITIONS_MAX, Parts, Scratch, Text, WIDTH};
pub use kernel::{Kernel, Matrix, Rows};
pub use weights::{Table, Weights, WeightsError};

//! The weights that are part of the binary, as `lab/train` made them.

/// The verifier: its layers, its head, and the word embeddings.
pub static VERIFIER: &[u8] = include_bytes!("../weights/verifier.bin");
/// Layers of the verifier.
pub const VERIFIER_LAYERS: usize = 6;
/// The answer check: layers and a head over the verifier's word embeddings.
pub static ANSWERS: &[u8] = include_bytes!("../weights/answers.bin");
/// Layers of the answer check.
pub const ANSWERS_LAYERS: usize = 6;
/// The vectors of passages: layers over the verifier's word embeddings.
pub static VECTORS: &[u8] = include_bytes!("../weights/vectors.bin");
/// Layers of the vectors.
pub const VECTORS_LAYERS: usize = 3;
/// The word pieces of all three: BERT's, without case.
pub static TOKENIZER: &[u8] = include_bytes!("../weights/tokenizer.json");

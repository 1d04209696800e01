//! The weights that are part of the binary, as `lab/train` made them.

/// The verifier: six layers, its head, and the word embeddings.
pub static VERIFIER: &[u8] = include_bytes!("../weights/verifier.bin");
/// The vectors of passages: three layers over the verifier's word embeddings.
pub static VECTORS: &[u8] = include_bytes!("../weights/vectors.bin");
/// The word pieces of both: BERT's, without case.
pub static TOKENIZER: &[u8] = include_bytes!("../weights/tokenizer.json");

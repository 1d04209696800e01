//! Work on files that several servers have the same copies of: one of them parses a file and computes its vectors, the others take the results.
//!
//! ```text
//!   a file was uploaded ─► each server: passages known? ── yes ─► take them
//!                                          │ no: this server reads it, while the others wait ─► keep them for all
//! ```
//!
//! Each server builds its own index from the same passages and vectors, so all find what one machine would find.

use crate::Passage;

/// A passage's key: a hash of the text of its vector.
pub type PassageKey = u128;

/// The passages of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum SharedPassages {
    /// Another server has read it.
    Known(Vec<Passage>),
    /// This server reads it and keeps the result, or releases it.
    Ours,
    /// It is read here, for this server alone.
    Unshared,
}

/// The vectors of some passages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharedVectors {
    /// Computed by another server: a scale and the values, as they are stored.
    pub known: Vec<(PassageKey, Vec<u8>)>,
    /// To be computed and kept by this server.
    pub ours: Vec<PassageKey>,
    /// Being computed by another server; ask again later.
    pub elsewhere: Vec<PassageKey>,
}

/// Results that several servers share. Implementations block, report their errors themselves, and answer `Unshared` or nothing while they
/// cannot be reached: then the work is done here. What a server takes over and does not keep is given to another one after a while.
pub trait SharedWork: Send + Sync {
    /// `content` is the same for the same bytes under the same name, read in the same way. Waits while another server reads the file if `may_wait`.
    fn passages(&self, hash: &str, content: &str, may_wait: bool) -> SharedPassages;
    /// Keeps what was read, with the keys of the vectors that it needs.
    fn keep_passages(&self, hash: &str, content: &str, passages: &[Passage], keys: &[PassageKey]);
    /// The file could not be read.
    fn release_passages(&self, hash: &str, content: &str);
    /// Takes over the vectors of these passages that nobody has or computes.
    fn vectors(&self, keys: &[PassageKey]) -> SharedVectors;
    /// Keeps computed vectors.
    fn keep_vectors(&self, vectors: &[(PassageKey, Vec<u8>)]);
}

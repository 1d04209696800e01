//! What is made of users' files and shared by several servers: passages and vectors, as bytes.

use async_trait::async_trait;

use crate::Result;

/// The processed form of a file, or who makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// It is there.
    Known(Vec<u8>),
    /// The caller makes it; after a while without a result another one may.
    Ours,
    /// Another server makes it.
    Elsewhere,
    /// No such file was uploaded.
    Unshared,
}

/// A vector, by the key of its passage.
pub type KeyedVector = (Vec<u8>, Vec<u8>);

/// Passages and vectors of files in a store that several servers share. They are deleted with the last file that has them.
#[async_trait]
pub trait SharedIndex: Send + Sync {
    /// The passages of a file with this SHA-256, as `content` names the way it is read. `server` is the caller.
    async fn take_passages(&self, hash: &[u8], content: &str, server: &str) -> Result<Share>;
    /// Keeps passages, and the keys of the vectors that they need.
    async fn keep_passages(&self, hash: &[u8], content: &str, passages: Vec<u8>, keys: Vec<Vec<u8>>) -> Result<()>;
    /// Gives back what was taken.
    async fn release_passages(&self, hash: &[u8], content: &str, server: &str) -> Result<()>;
    /// The vectors of passages of uploaded files, by a model's name. Keys of other passages are left out.
    async fn take_vectors(&self, model: &str, keys: Vec<Vec<u8>>, server: &str) -> Result<Vec<(Vec<u8>, Share)>>;
    /// Keeps vectors.
    async fn keep_vectors(&self, model: &str, vectors: Vec<KeyedVector>) -> Result<()>;
}

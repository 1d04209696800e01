//! Tokens of users.

use graph::UserId;

/// Tokens that are made with one token, which are sessions of pages; the oldest are dropped.
pub const SESSIONS_MAX: usize = 100;

/// Something that lets a user in, by its SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// SHA-256 of the token.
    pub digest: [u8; 32],
    /// The user it signs in.
    pub user: UserId,
    /// The digest of the token it was made with: a session goes with that.
    pub made_with: Option<[u8; 32]>,
    /// When it was created.
    pub created_ms: i64,
    /// Without an end otherwise.
    pub until_ms: Option<i64>,
    /// What it allows, in a word, for lists; the token itself decides.
    pub scope: Option<String>,
}

/// A stored token, without its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    /// Its number, by which it is revoked.
    pub token: u64,
    /// The user it signs in.
    pub user: UserId,
    /// The digest of the token it was made with.
    pub made_with: Option<[u8; 32]>,
    /// When it was created.
    pub created_ms: i64,
    /// When it expires; never, if not set.
    pub until_ms: Option<i64>,
    /// What it allows, in a word. `None` for sessions and for tokens from before this was kept.
    pub scope: Option<String>,
}

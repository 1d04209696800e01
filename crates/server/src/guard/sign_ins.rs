//! Sign-ins for the audit log: each token, session and account once a day, and wrong tokens.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use audit::{Event, EventKind, Recorder};
use graph::UserId;

use crate::listen::Peer;
use crate::problem::Problem;

/// After so long the same token is recorded again.
const AGAIN_AFTER: Duration = Duration::from_secs(86_400);
const SEEN_MAX: usize = 10_000;
/// Nobody is known by a wrong token.
const NOBODY: &str = "unknown";

#[derive(Default)]
pub(super) struct SignIns {
    recorder: OnceLock<Recorder>,
    /// When each was recorded last, by its digest.
    seen: Mutex<HashMap<[u8; 32], Instant>>,
}

impl SignIns {
    pub(super) fn record_to(&self, recorder: Recorder) {
        // The first one stays.
        let _ = self.recorder.set(recorder);
    }

    /// What cannot be recorded is refused.
    pub(super) async fn record(&self, event: Event) -> Result<(), Problem> {
        let Some(recorder) = self.recorder.get() else { return Ok(()) };
        recorder.record(event).await.map_err(|error| {
            tracing::error!("refused, because it cannot be recorded: {error}");
            Problem::busy("the audit log cannot be written, so that nothing is done; the server's log says why")
        })
    }

    /// Records a sign-in, unless this one was recorded today.
    pub(super) async fn seen(&self, digest: [u8; 32], user: &UserId, how: &str, peer: Option<&Peer>) -> Result<(), Problem> {
        if self.recorder.get().is_none() || !self.is_new(digest) {
            return Ok(());
        }
        let event = Event::new(EventKind::SignIn, user.as_str()).detail(how).from(peer.map(|peer| peer.remote.ip()));
        let recorded = self.record(event).await;
        if recorded.is_err() {
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(&digest);
        }
        recorded
    }

    /// The caller counts wrong tokens and calls this for the first few of a network only, so that nobody can fill the log.
    pub(super) fn refused(&self, peer: Option<&Peer>, how: &str) {
        if let Some(recorder) = self.recorder.get() {
            recorder.note(Event::new(EventKind::SignInRefused, NOBODY).detail(how).from(peer.map(|peer| peer.remote.ip())));
        }
    }

    fn is_new(&self, digest: [u8; 32]) -> bool {
        let now = Instant::now();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.get(&digest).is_some_and(|at| now.duration_since(*at) < AGAIN_AFTER) {
            return false;
        }
        if seen.len() >= SEEN_MAX {
            seen.clear();
        }
        seen.insert(digest, now);
        true
    }
}

//! Passages and vectors of uploads in a store that several servers share, for the index, which blocks.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use index::{Passage, PassageKey, SharedPassages, SharedVectors, SharedWork};
use store::{Share, SharedIndex, Store, StoreError};
use tokio::runtime::Handle;

/// A statement that takes longer is given up, and the work is done here.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a file that another server reads is looked for, and for how long: the other one may take 30 s, and loses its right after 60 s.
const ELSEWHERE_PAUSE: Duration = Duration::from_millis(250);
const ELSEWHERE_MAX: Duration = Duration::from_secs(75);
/// The vectors of this version are comparable with each other only.
const VECTOR_MODEL: &str = "baton-vectors-2";

pub(crate) struct StoreWork {
    store: Arc<dyn Store>,
    runtime: Handle,
    /// This process.
    server: String,
}

impl StoreWork {
    /// `None` where the store is not shared. Called inside a runtime.
    pub(crate) fn of(store: &Arc<dyn Store>) -> Option<Arc<dyn SharedWork>> {
        store.shared_index()?;
        let server = engine::new_run_id().to_string();
        Some(Arc::new(StoreWork { store: store.clone(), runtime: Handle::current(), server }))
    }

    /// Waits for an answer of the store on a thread of the index. `None`, with a warning, if it fails.
    fn wait<T, F>(&self, ask: impl FnOnce(Arc<dyn Store>) -> F) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let (sender, receiver) = sync_channel(1);
        let answer = ask(self.store.clone());
        self.runtime.spawn(async move {
            // The caller may have given up waiting.
            let _ = sender.send(answer.await);
        });
        match receiver.recv_timeout(PATIENCE) {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(error)) => {
                tracing::warn!("work on documents cannot be shared with other servers at the moment: {error}");
                None
            }
            // Also when the runtime stops, which drops the sender.
            Err(_) => {
                tracing::debug!("work on documents cannot be shared with other servers: no answer of the database");
                None
            }
        }
    }
}

fn shared(store: &dyn Store) -> Result<&dyn SharedIndex, StoreError> {
    store.shared_index().ok_or(StoreError::Closed)
}

impl SharedWork for StoreWork {
    fn passages(&self, hash: &str, content: &str, may_wait: bool) -> SharedPassages {
        let Some(hash) = bytes_of(hash) else { return SharedPassages::Unshared };
        let began = Instant::now();
        loop {
            let (hash, content, server) = (hash.clone(), content.to_owned(), self.server.clone());
            let share = self.wait(|store| async move { shared(&*store)?.take_passages(&hash, &content, &server).await });
            match share {
                Some(Share::Known(bytes)) => match serde_json::from_slice(&bytes) {
                    Ok(passages) => return SharedPassages::Known(passages),
                    Err(error) => {
                        tracing::warn!("passages of another server cannot be read: {error}");
                        return SharedPassages::Unshared;
                    }
                },
                Some(Share::Ours) => return SharedPassages::Ours,
                Some(Share::Elsewhere) if may_wait && began.elapsed() < ELSEWHERE_MAX => std::thread::sleep(ELSEWHERE_PAUSE),
                Some(Share::Elsewhere | Share::Unshared) | None => return SharedPassages::Unshared,
            }
        }
    }

    fn keep_passages(&self, hash: &str, content: &str, passages: &[Passage], keys: &[PassageKey]) {
        let (Some(hash), Ok(bytes), content) = (bytes_of(hash), serde_json::to_vec(passages), content.to_owned()) else { return };
        let keys = keys.iter().map(|key| key.to_le_bytes().to_vec()).collect();
        self.wait(|store| async move { shared(&*store)?.keep_passages(&hash, &content, bytes, keys).await });
    }

    fn release_passages(&self, hash: &str, content: &str) {
        let Some(hash) = bytes_of(hash) else { return };
        let (content, server) = (content.to_owned(), self.server.clone());
        self.wait(|store| async move { shared(&*store)?.release_passages(&hash, &content, &server).await });
    }

    fn vectors(&self, keys: &[PassageKey]) -> SharedVectors {
        let (keys, server) = (keys.iter().map(|key| key.to_le_bytes().to_vec()).collect(), self.server.clone());
        let shares = self.wait(|store| async move { shared(&*store)?.take_vectors(VECTOR_MODEL, keys, &server).await });
        let mut vectors = SharedVectors::default();
        for (key, share) in shares.unwrap_or_default() {
            let Ok(key) = key.try_into().map(PassageKey::from_le_bytes) else { continue };
            match share {
                Share::Known(vector) => vectors.known.push((key, vector)),
                Share::Ours => vectors.ours.push(key),
                Share::Elsewhere => vectors.elsewhere.push(key),
                Share::Unshared => {}
            }
        }
        vectors
    }

    fn keep_vectors(&self, vectors: &[(PassageKey, Vec<u8>)]) {
        let vectors = vectors.iter().map(|(key, vector)| (key.to_le_bytes().to_vec(), vector.clone())).collect();
        self.wait(|store| async move { shared(&*store)?.keep_vectors(VECTOR_MODEL, vectors).await });
    }
}

/// The bytes of a hash in hexadecimal digits.
fn bytes_of(hash: &str) -> Option<Vec<u8>> {
    (0..hash.len()).step_by(2).map(|at| u8::from_str_radix(hash.get(at..at + 2)?, 16).ok()).collect()
}

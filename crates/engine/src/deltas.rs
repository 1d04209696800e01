//! Pieces of answers that are generated in another process, passed on to those who watch the run here.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use graph::RunId;
use store::{Change, Delta};
use tokio::sync::broadcast::{Receiver, error::RecvError};

use crate::Inner;
use crate::watch::{Feed, FeedItem, TreeEvent};

/// Runs whose place in their tree is remembered.
const RUNS_MAX: usize = 4_096;

/// Where effects are performed elsewhere, and the store passes on what is said there.
pub(crate) fn spawn(engine: &Arc<Inner>) {
    if engine.settings.dispatcher.is_some()
        && let Some(changes) = engine.store.changes()
    {
        tokio::spawn(pass_on(Arc::downgrade(engine), changes));
    }
}

async fn pass_on(engine: Weak<Inner>, mut changes: Receiver<Change>) {
    let mut above: HashMap<RunId, Arc<[RunId]>> = HashMap::new();
    loop {
        let delta = match changes.recv().await {
            Ok(Change::Delta(delta)) => delta,
            // What was missed is in the reply.
            Ok(_) | Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        let Some(engine) = engine.upgrade() else { return };
        if engine.lock_early_subscribers().is_empty() {
            continue;
        }
        if !above.contains_key(&delta.run) {
            if above.len() >= RUNS_MAX {
                above.clear();
            }
            above.insert(delta.run.clone(), engine.runs_above(&delta.run).await.into());
        }
        if let Some(above) = above.get(&delta.run) {
            engine.publish_delta(&delta, above);
        }
    }
}

impl Inner {
    async fn runs_above(&self, run: &RunId) -> Vec<RunId> {
        let mut all = Vec::new();
        let mut next = Some(run.clone());
        while let Some(run) = next {
            next = self.store.run(&run).await.ok().flatten().and_then(|row| row.parent);
            all.extend(next.clone());
        }
        all
    }

    fn publish_delta(&self, delta: &Delta, above: &[RunId]) {
        let seen = FeedItem::Delta { task: delta.task, attempt: delta.attempt, text: delta.text.clone() };
        let feed_of = |run: &RunId| -> Option<Arc<Feed>> { self.lock_early_subscribers().get(run).cloned() };
        let event = || TreeEvent { run: delta.run.clone(), seen: seen.clone() };
        above.iter().chain([&delta.run]).filter_map(feed_of).for_each(|feed| feed.publish_tree(event));
        if let Some(feed) = feed_of(&delta.run) {
            feed.publish(seen.clone());
        }
    }
}

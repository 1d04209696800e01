//! Tasks of an engine that belong to no run, counted so that [`crate::Engine::stop`] can wait for them before the store is closed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::watch as cell;

use crate::Inner;

/// How many background tasks there are.
pub(crate) struct Background(cell::Sender<usize>);

impl Default for Background {
    fn default() -> Self {
        Background(cell::Sender::new(0))
    }
}

impl Background {
    /// Waits until there is none.
    pub(crate) async fn idle(&self) {
        // The sender is in `self`, so the channel cannot be closed.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Inner {
    /// Runs a task that uses the store and may outlive the run that caused it.
    pub(crate) fn spawn_background(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        self.background.0.send_modify(|count| *count += 1);
        let counted = TaskGuard(self.clone());
        tokio::spawn(async move {
            task.await;
            drop(counted);
        });
    }

    /// Whether the engine starts and resumes nothing more.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}

struct TaskGuard(Arc<Inner>);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.background.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

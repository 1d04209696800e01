//! What a step adds to the store, and the events published after that.

use std::sync::Arc;

use effects::Repeatability;
use graph::{Effect, Entry, Event, Job, child_run};
use store::{Commit, Intent, NewMessage, NewSnapshot, Status};

use super::{Child, ChildState, Driver};
use crate::Result;
use crate::attempt::PriorAttempt;
use crate::lease::UNCLAIMED;
use crate::watch::FeedItem;

impl Driver {
    pub(super) fn write(&mut self, entry: &Entry) {
        let line = entry.encode();
        self.tail_bytes += line.len();
        self.commit.lines.push(line);
    }

    /// Collects the events, messages and, if one is due, the snapshot of the last step.
    pub(super) fn collect_output(&mut self) {
        let events = self.machine.take_events();
        // The messages of a child are a reply to its parent; only those of the top-level run go to the thread.
        let is_answer = self.machine.facts().depth == 0;
        for numbered in &events {
            if let Event::Said { role, content } = &numbered.event
                && is_answer
            {
                self.commit.messages.push(NewMessage { role: role.clone(), content: content.clone() });
            }
        }
        self.events.extend(events);

        // Larger snapshots are written less often, so that all of them together stay smaller than the journal.
        let due = self.tail_bytes >= self.engine.settings.snapshot_bytes_min.max(4 * self.snapshot_bytes);
        if due && let Some(snapshot) = self.machine.snapshot() {
            let bytes = snapshot.encode();
            self.snapshot_bytes = bytes.len();
            self.tail_bytes = 0;
            self.commit.snapshot = Some(NewSnapshot { entries: snapshot.entries, bytes });
        }
    }

    /// Records the intent to perform an effect that is not repeatable.
    pub(super) fn intend(&mut self, job: Job) -> (Job, PriorAttempt) {
        let is_child = matches!(&*job.effect, Effect::CallAgent(call) if self.engine.flows.contains_key(&call.agent));
        if is_child {
            self.children.insert(job.task, Child { run: child_run(job.key), job: job.clone(), state: ChildState::Going });
            return (job, PriorAttempt::None);
        }
        if matches!(&*job.effect, Effect::CallAgent(_)) {
            self.agent_calls.insert(job.task, job.clone());
        }
        let past = if !self.begun.is_empty() && self.begun.remove(&(job.task, job.attempt)) { PriorAttempt::Interrupted } else { PriorAttempt::None };
        match self.engine.handler.repeatability(&job) {
            Repeatability::Repeatable => (job, PriorAttempt::None),
            Repeatability::Checkable | Repeatability::Once => {
                if past == PriorAttempt::None {
                    self.intended.insert(job.task);
                    self.commit.intents.push(Intent { task: job.task, attempt: job.attempt, key: job.key });
                }
                (job, past)
            }
        }
    }

    /// Writes the collected output; events are published only after that.
    pub(super) async fn commit(&mut self) -> Result<()> {
        if self.status != Status::Running {
            self.commit.status = Some(Status::Running);
            self.status = Status::Running;
        }
        let commit = self.take_commit();
        if commit.new.is_some() || !commit.lines.is_empty() || !commit.intents.is_empty() || commit.status.is_some() || commit.snapshot.is_some() {
            let was_claimed = self.is_claimed();
            self.keep(commit).await?;
            if !was_claimed {
                self.engine.took(&self.lease).await;
            }
        }
        self.publish_events();
        Ok(())
    }

    /// The first commit of a new run also acquires the lease of its thread: one write, one fsync.
    pub(super) async fn keep(&mut self, commit: Commit) -> Result<()> {
        if self.is_claimed() {
            let written = self.engine.store.commit(commit).await;
            self.engine.health.wrote(&written);
            return Ok(written?);
        }
        self.lease = self.engine.open_with(commit).await?;
        self.commit.lease = self.lease.clone();
        Ok(())
    }

    pub(super) fn is_claimed(&self) -> bool {
        self.lease.fence != UNCLAIMED
    }

    pub(super) fn take_commit(&mut self) -> Commit {
        let at_ms = (self.engine.settings.clock)();
        let next = Commit::new(self.commit.run.clone(), self.lease.clone(), 0, self.machine.entries());
        let mut commit = std::mem::replace(&mut self.commit, next);
        commit.at_ms = at_ms;
        self.committed_ms = at_ms;
        commit
    }

    pub(super) fn publish_events(&mut self) {
        let events = std::mem::take(&mut self.events);
        if self.active.is_watched() {
            events.into_iter().for_each(|numbered| self.active.publish(FeedItem::Event(Arc::new(numbered), self.committed_ms)));
        }
        for waiting in self.waiting.drain(..) {
            // The caller may have gone away.
            let _ = waiting.send(Ok(()));
        }
    }
}

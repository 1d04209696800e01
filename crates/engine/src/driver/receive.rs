//! Control messages and results of attempts, as they arrive.

use futures::future;
use futures::{FutureExt, StreamExt};
use graph::{Entry, Reply, TaskId};
use serde_json::Value;
use tokio::time::Instant;

use super::{ChildState, Driver};
use crate::attempt::{AttemptResult, PriorAttempt};
use crate::{Control, EngineError, Result, permissions};

impl Driver {
    /// Waits for the first message or result, then takes all that are ready.
    pub(super) async fn receive(&mut self) -> Result<()> {
        let stop_by = self.stop_by;
        tokio::select! {
            biased;
            Some(word) = self.control.recv() => self.handle_control(word),
            Some(result) = self.attempts.next() => self.take_result(result)?,
            () = sleep_until(stop_by), if stop_by.is_some() => self.attempts.clear(),
        }
        while let Ok(word) = self.control.try_recv() {
            self.handle_control(word);
        }
        while let Some(Some(result)) = self.attempts.next().now_or_never() {
            self.take_result(result)?;
        }
        Ok(())
    }

    pub(super) fn handle_control(&mut self, word: Control) {
        match word {
            Control::Cancel { reason, done } => {
                if let Some(entry) = self.machine.cancel(&reason) {
                    self.write(&entry);
                }
                self.attempts.clear();
                self.cancel_remote();
                self.waiting.extend(done);
            }
            Control::Answer { task, attempt, value, done } => match self.take_answer(task, attempt, &value) {
                Ok(()) => self.waiting.extend(done),
                Err(e) => {
                    if let Some(done) = done {
                        let _ = done.send(Err(e));
                    }
                }
            },
            Control::ChildOver { child, done } => {
                if let Some(child) = self.children.values_mut().find(|known| known.run == child) {
                    let was = std::mem::replace(&mut child.state, ChildState::Over);
                    if was == ChildState::Parked {
                        let job = child.job.clone();
                        self.launch(job, PriorAttempt::None);
                    }
                }
                // If the receiver was dropped, the sender resumes the parent from the store.
                let _ = done.send(());
            }
            Control::Stop { by } => self.stop_by = Some(by),
        }
    }

    /// Takes a person's answer. A standing permission is written in the same commit, and other open questions that it covers are answered with it.
    pub(super) fn take_answer(&mut self, task: TaskId, attempt: u32, value: &Value) -> Result<()> {
        let open = self.machine.waiting();
        let asked = open.iter().find(|waiting| (waiting.task, waiting.attempt) == (task, attempt));
        let permission = asked.and_then(|waiting| permissions::given(self.machine.facts(), waiting, value, (self.engine.settings.clock)()));
        let Some(entry) = self.machine.feed(task, attempt, Reply::ok(value.clone()))? else { return Ok(()) };
        self.answered(task, Some(entry));
        if let (Some(on_answer), Some(asked)) = (&self.engine.settings.on_answer, asked) {
            on_answer(self.machine.facts(), asked, value);
        }
        let Some(permission) = permission else { return Ok(()) };
        let thread = self.machine.facts().thread.clone();
        for other in
            open.iter().filter(|other| other.task != task && permissions::covers(&permission.grant, permission.definition.as_ref(), &thread, other))
        {
            let entry = self.machine.feed(other.task, other.attempt, Reply::ok(value.clone()))?;
            self.answered(other.task, entry);
        }
        self.commit.permissions.push(permission);
        Ok(())
    }

    pub(super) fn take_result(&mut self, result: AttemptResult) -> Result<()> {
        match result {
            AttemptResult::Replied { task, attempt, reply } => {
                self.children.remove(&task);
                self.agent_calls.remove(&task);
                let entry = self.machine.feed(task, attempt, reply)?;
                self.answered(task, entry);
            }
            AttemptResult::InDoubt { task, attempt } => {
                let entry = self.machine.doubt(task, attempt)?;
                self.write(&entry);
            }
            AttemptResult::ChildParked { task } => {
                if let Some(child) = self.children.get_mut(&task) {
                    match child.state {
                        ChildState::Going | ChildState::Parked => child.state = ChildState::Parked,
                        ChildState::Over => {
                            let job = child.job.clone();
                            self.launch(job, PriorAttempt::None);
                        }
                    }
                }
            }
            // The child stopped because the engine stops; this run stops too, after its next commit.
            AttemptResult::Lost(EngineError::Stopping) => {
                self.stop_by.get_or_insert_with(Instant::now);
            }
            AttemptResult::Lost(e) => return Err(e),
        }
        Ok(())
    }

    pub(super) fn answered(&mut self, task: TaskId, entry: Option<Entry>) {
        let Some(entry) = entry else { return };
        self.write(&entry);
        if !self.intended.is_empty() && self.intended.remove(&task) {
            self.commit.settled.push(task);
        }
    }
}

async fn sleep_until(by: Option<Instant>) {
    match by {
        Some(by) => tokio::time::sleep_until(by).await,
        None => future::pending().await,
    }
}

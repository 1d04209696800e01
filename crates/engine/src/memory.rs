//! The context that a run receives from earlier runs, and the notes it leaves for later ones, per user and thread.
//!
//! ```text
//!   start, or a child's start ─► Context: history, last outcome, preferences, notes ─► Graph::recall ─► input ─► journal
//!   last commit of a run that ended well ◄─ notes ◄─ Run::notes
//! ```
//!
//! During a run its context is in its state; between runs it is in the store only, because a copy in memory would not see what other processes write. Notes go into the commit that ends a run, so they are neither lost nor written twice.
//! They are dropped after `Settings::notes_ms`; messages are kept as long as their thread.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use graph::{Context, Graph, Message, Note, Run, RunId, ThreadId, UserId, WITHOUT_FINDINGS};
use serde_json::Value;
use store::{NOTES_MAX, NewNote, NoteFilter, RunFilter, RunRow, Status, StoreError, ThreadRow};

use crate::open::panic_message;
use crate::{Inner, Result};

/// Number of latest messages that are given to flows.
const MESSAGES_MAX: u64 = 200;
const HISTORY_BYTES_MAX: usize = 64 << 10;
/// A longer message is cut, so that it does not displace the others.
const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// Runs of the thread that are looked at; with a question and an answer each, they cover `MESSAGES_MAX`.
const RUNS_MAX: usize = 100;
/// A longer outcome is not read, and its answer counts as one with findings.
const OUTCOME_BYTES_MAX: usize = 256 << 10;

impl Inner {
    /// Adds context from earlier runs to an input. Returns whether the added text may be other than the user's own words.
    /// A `history` replaces the messages of the thread.
    pub(crate) async fn recall(
        &self,
        graph: &Graph,
        user: &UserId,
        thread: &ThreadId,
        history: Option<Vec<Message>>,
        input: &mut Value,
    ) -> Result<bool> {
        if !graph.remembers() {
            return Ok(false);
        }
        let mut context = self.context(graph.name(), user, thread).await?;
        if let Some(history) = history {
            replace_history(&mut context, history, input);
        }
        Ok(graph.recall(input, &context))
    }

    async fn context(&self, flow: &str, user: &UserId, thread: &ThreadId) -> Result<Context> {
        let mut context = Context { preferences: self.store.preferences(user).await?, ..Context::default() };
        let now_ms = (self.settings.clock)();
        let filter = NoteFilter { user: user.clone(), flow: Some(flow.to_owned()), thread: Some(thread.clone()), now_ms, limit: NOTES_MAX };
        let as_note = |row: store::NoteRow| Note { kind: row.kind, key: row.key, value: row.value, reach: row.reach, ms_max: None };
        context.notes = self.store.notes(filter).await?.into_iter().map(as_note).collect();
        if let Some(row) = self.store.thread(thread).await? {
            if row.user.as_ref().is_some_and(|owner| owner != user) {
                return Err(StoreError::NotYours { thread: thread.clone() }.into());
            }
            let outcome_bytes_max = Some(OUTCOME_BYTES_MAX);
            let filter = RunFilter { thread: Some(thread.clone()), roots_only: true, limit: RUNS_MAX, outcome_bytes_max, ..RunFilter::default() };
            let runs = self.store.runs(filter).await?;
            let last = runs.iter().find(|run| run.status.is_over());
            context.has_failed_before = last.is_some_and(|run| run.status == Status::Failed);
            let without_findings: HashSet<&RunId> = runs.iter().filter(|run| is_without_findings(run)).map(|run| &run.run).collect();
            self.fill_history(&mut context, &row, &without_findings).await?;
        }
        Ok(context)
    }

    /// The last messages, oldest first, which of them hold no findings, and how many turns there were in all.
    async fn fill_history(&self, context: &mut Context, thread: &ThreadRow, without_findings: &HashSet<&RunId>) -> Result<()> {
        let from = thread.messages.saturating_sub(MESSAGES_MAX);
        let rows = store::newest_messages(&*self.store, thread, from, HISTORY_BYTES_MAX, MESSAGE_BYTES_MAX).await?;
        let from = rows.first().map_or(from, |first| first.seq);
        // What is further back is questions and answers in turn.
        context.turns = from / 2 + rows.iter().filter(|row| row.role == "user").count() as u64;
        let mut bytes = 0;
        let mut kept: Vec<(Message, bool)> = Vec::with_capacity(rows.len());
        for row in rows.into_iter().rev() {
            let mut content = row.content;
            content.truncate(content.floor_char_boundary(MESSAGE_BYTES_MAX));
            bytes += content.len();
            if bytes > HISTORY_BYTES_MAX {
                break;
            }
            let is_without_findings = row.role != "user" && without_findings.contains(&row.run);
            kept.push((Message { role: row.role, content }, is_without_findings));
        }
        kept.reverse();
        context.without_findings = kept.iter().enumerate().filter(|(_, (_, is_about))| *is_about).map(|(index, _)| index).collect();
        context.history = kept.into_iter().map(|(message, _)| message).collect();
        Ok(())
    }

    /// The notes of a run that has ended.
    pub(crate) fn notes_of(&self, machine: &Run) -> Vec<NewNote> {
        let facts = machine.facts();
        let now_ms = (self.settings.clock)();
        // This is code of the flow. The run has ended, so a panic here loses only the notes.
        let notes = catch_unwind(AssertUnwindSafe(|| machine.notes())).unwrap_or_else(|panic| {
            tracing::error!(run = %facts.run, "no notes of the run are stored, because its flow panicked: {}", panic_message(&*panic));
            Vec::new()
        });
        let kept_ms = |note: &Note| note.ms_max.unwrap_or(i64::MAX).min(self.settings.notes_ms);
        let new = |note: Note| NewNote {
            until_ms: now_ms.saturating_add(kept_ms(&note)),
            user: facts.context.user.clone(),
            flow: facts.flow.to_string(),
            reach: note.reach,
            kind: note.kind,
            key: note.key,
            value: note.value,
        };
        notes.into_iter().filter(|note| kept_ms(note) > 0).map(new).collect()
    }
}

/// An empty history is set in the input too: the flows that the run calls would recall the thread's messages otherwise.
fn replace_history(context: &mut Context, history: Vec<Message>, input: &mut Value) {
    context.turns = history.iter().filter(|message| message.role == "user").count() as u64;
    context.without_findings = Vec::new();
    if let (true, Value::Object(fields)) = (history.is_empty(), input) {
        fields.entry("history").or_insert_with(|| Value::Array(Vec::new()));
    }
    context.history = history;
}

/// Whether the output of a finished run states that its answer holds no findings.
fn is_without_findings(run: &RunRow) -> bool {
    let output = run.outcome.as_ref().and_then(|outcome| outcome.get("output"));
    output.and_then(|output| output.get(WITHOUT_FINDINGS)).and_then(Value::as_bool) == Some(true)
}

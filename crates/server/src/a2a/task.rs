//! A run as a task: its state, its result and its messages.

use graph::{Entry, Outcome};
use serde_json::{Map, Value, json};
use store::{RunFilter, RunRow, Status};
use wire::a2a::error::{TASK_NOT_CANCELABLE, TASK_NOT_FOUND};
use wire::a2a::{Artifact, ListTasks, Message, Part, Role, Task, TaskList, TaskState, TaskStatus};

use super::history::{self, History};
use super::{A2a, no_task, refusal, wrong};
use crate::api::shown_name;
use crate::guard::Identity;
use crate::langgraph::calendar;
use crate::problem::{Problem, StatusCode};
use crate::turn::{self, Answered, OpenQuestion, hint};

/// What a client wants of a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// `None` is all.
    history: Option<usize>,
    has_artifacts: bool,
}

impl Shape {
    pub(super) fn of(history_length: Option<i32>) -> Result<Shape, Problem> {
        let history = history_length.map(usize::try_from).transpose();
        Ok(Shape { history: history.map_err(|_| wrong("historyLength is 0 or more"))?, has_artifacts: true })
    }
}

impl A2a {
    /// A task of this user's; nobody else's exists.
    pub(super) async fn row(&self, who: &Identity, id: &str) -> Result<RunRow, Problem> {
        let row = self.api().run(who, id).await;
        let row = row.map_err(|problem| if problem.status == StatusCode::NOT_FOUND { no_task(id) } else { problem })?;
        if row.parent.is_none() { Ok(row) } else { Err(no_task(id)) }
    }

    pub(super) async fn task(&self, who: &Identity, row: RunRow, shape: Shape) -> Result<Task, Problem> {
        let stored = history::get(self, &who.user, row.run.as_str()).await?;
        let (status, answered) = self.status(&row).await?;
        let context = context_of(who, &row, stored.as_ref());
        let mut history = match stored {
            Some(stored) => stored.shown(row.run.as_str()),
            None => self.first_words(&row).await?,
        };
        let surplus = history.len().saturating_sub(shape.history.unwrap_or(usize::MAX));
        history.drain(..surplus);
        let metadata = json!({ "baton": { "run": row.run, "thread": row.thread, "flow": row.flow } });
        Ok(Task {
            id: row.run.to_string(),
            context_id: context,
            status,
            artifacts: shape.has_artifacts.then(|| answered.map(|answered| artifacts(&answered)).unwrap_or_default()),
            history,
            metadata: object(metadata),
        })
    }

    /// What a run began with that no client of A2A started.
    async fn first_words(&self, row: &RunRow) -> Result<Vec<Message>, Problem> {
        let first = self.store().journal(&row.run, 0, 1).await?.pop();
        let Some(Ok(Entry::Started(start))) = first.map(|line| Entry::decode(&line.bytes)) else { return Ok(Vec::new()) };
        let question = start.input.get("question").and_then(Value::as_str).filter(|question| !question.is_empty());
        let message = |text: &str| Message {
            message_id: format!("{}-question", row.run),
            role: Role::User,
            parts: vec![Part::text(text, "")],
            ..Message::default()
        };
        Ok(question.map(message).into_iter().collect())
    }

    async fn status(&self, row: &RunRow) -> Result<(TaskStatus, Option<Answered>), Problem> {
        let timestamp = calendar::shown(row.updated_ms);
        let status = |state, message| TaskStatus { state, message, timestamp: timestamp.clone() };
        let run = row.run.as_str();
        Ok(match row.status {
            Status::Running => (status(TaskState::Working, None), None),
            Status::Asking | Status::Waiting => match self.api().0.engine.open_questions(row).await {
                Ok(open) => match open.into_iter().next() {
                    Some(asks) => (status(TaskState::InputRequired, Some(question(&asks))), None),
                    None => (status(TaskState::Working, None), None),
                },
                // It continued meanwhile.
                Err(engine::EngineError::Over { .. }) => (status(TaskState::Working, None), None),
                Err(error) => return Err(error.into()),
            },
            Status::Done | Status::Failed | Status::Cancelled => match engine::result_of(row).map(|closing| (closing.outcome, closing.spent)) {
                Some((Outcome::Done { output }, spent)) => (status(TaskState::Completed, None), Some(turn::answered(&output, spent))),
                Some((Outcome::Failed { fault }, _)) => (status(TaskState::Failed, Some(agent_message(run, "end", &fault.to_string()))), None),
                Some((Outcome::Cancelled { reason }, _)) => (status(TaskState::Canceled, Some(agent_message(run, "end", &reason))), None),
                None => (status(TaskState::Failed, Some(agent_message(run, "end", "its outcome is no longer stored"))), None),
            },
        })
    }

    pub(super) async fn cancel(&self, who: &Identity, id: &str) -> Result<Task, Problem> {
        let row = self.row(who, id).await?;
        let over = || refusal(TASK_NOT_CANCELABLE, "the task is over; nothing is left to cancel");
        if row.status.is_over() {
            return Err(over());
        }
        let engine = &self.api().0.engine;
        match engine.cancel(&row.run, "cancelled by the client").await {
            Ok(_) => {}
            Err(engine::EngineError::Over { .. }) => return Err(over()),
            Err(error) => return Err(error.into()),
        }
        // A run that another process drives gets a signal and ends there.
        let _ = tokio::time::timeout(CANCELLED_WITHIN, engine.wait(&row.run)).await;
        let row = self.row(who, id).await?;
        self.task(who, row, Shape::of(None)?).await
    }

    /// The newest first, by when something last happened in them.
    pub(super) async fn list(&self, who: &Identity, query: &ListTasks) -> Result<TaskList, Problem> {
        let _place = self.api().0.quota.listing(&who.user).await?;
        let page_size = query.page_size.unwrap_or(PAGE);
        if !(1..=PAGE_MAX).contains(&page_size) {
            return Err(wrong(format!("pageSize is 1 to {PAGE_MAX}")));
        }
        let after = match query.status_timestamp_after.as_str() {
            "" => None,
            text => Some(calendar::parse(text).ok_or_else(|| wrong("statusTimestampAfter is a time such as 2026-11-16T09:44:00Z"))?),
        };
        let shape = Shape { has_artifacts: query.include_artifacts == Some(true), ..Shape::of(query.history_length)? };
        let thread = match query.context_id.as_str() {
            "" => None,
            context => match self.api().thread(who, context).await {
                Ok(thread) => Some(thread.thread),
                Err(problem) if problem.status == StatusCode::NOT_FOUND => return Ok(TaskList { page_size, ..TaskList::default() }),
                Err(problem) => return Err(problem),
            },
        };
        // Outcomes are read for the tasks of the page only.
        let filter = RunFilter {
            thread,
            user: Some(who.user.clone()),
            roots_only: true,
            limit: LISTED_MAX,
            outcome_bytes_max: Some(0),
            ..RunFilter::default()
        };
        let mut rows = self.store().runs(filter).await?;
        let is_wanted =
            |row: &RunRow| after.is_none_or(|after| row.updated_ms >= after) && query.status.is_none_or(|state| may_be(row.status, state));
        rows.retain(is_wanted);
        rows.sort_by(|one, other| (other.updated_ms, &other.run).cmp(&(one.updated_ms, &one.run)));
        let total_size = i32::try_from(rows.len()).unwrap_or(i32::MAX);
        if !query.page_token.is_empty() {
            let last = page_token(&query.page_token)?;
            rows.retain(|row| (row.updated_ms, row.run.as_str()) < (last.0, last.1));
        }
        let mut listed = TaskList { page_size, total_size, ..TaskList::default() };
        let (mut listed_rows, mut bytes) = (0_usize, 0);
        for row in rows.iter().take(page_size as usize) {
            // One that was deleted meanwhile is left out.
            if let Some(row) = self.store().run(&row.run).await? {
                let task = self.task(who, row, shape).await?;
                bytes += serde_json::to_vec(&task).map_or(0, |task| task.len());
                if bytes > PAGE_BYTES_MAX && !listed.tasks.is_empty() {
                    break;
                }
                listed.tasks.push(task);
            }
            listed_rows += 1;
        }
        if let (Some(last), true) = (listed_rows.checked_sub(1).map(|last| &rows[last]), listed_rows < rows.len()) {
            listed.next_page_token = format!("{}.{}", last.updated_ms, last.run);
        }
        Ok(listed)
    }
}

const CANCELLED_WITHIN: std::time::Duration = std::time::Duration::from_secs(5);
/// Runs of a user that are looked through for a list.
const LISTED_MAX: usize = 1_000;
const PAGE: i32 = 50;
const PAGE_MAX: i32 = 100;
/// A page ends before the task with which it would be longer.
const PAGE_BYTES_MAX: usize = 4 << 20;

fn page_token(token: &str) -> Result<(i64, &str), Problem> {
    let read = token.split_once('.').and_then(|(updated_ms, run)| Some((updated_ms.parse().ok()?, run)));
    read.ok_or_else(|| wrong("pageToken is the nextPageToken of the page before"))
}

fn may_be(status: Status, state: TaskState) -> bool {
    match state {
        TaskState::Unspecified => true,
        TaskState::Submitted | TaskState::Rejected | TaskState::AuthRequired => false,
        TaskState::Working => status == Status::Running,
        TaskState::InputRequired => matches!(status, Status::Asking | Status::Waiting),
        TaskState::Completed => status == Status::Done,
        TaskState::Failed => status == Status::Failed,
        TaskState::Canceled => status == Status::Cancelled,
    }
}

pub(super) fn context_of(who: &Identity, row: &RunRow, stored: Option<&History>) -> String {
    stored.map(|stored| stored.context.clone()).filter(|context| !context.is_empty()).unwrap_or_else(|| shown_name(&who.user, &row.thread))
}

/// A task that does not exist, or belongs to another user.
pub(super) fn is_missing(problem: &Problem) -> bool {
    problem.kind == TASK_NOT_FOUND.reason
}

fn object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

/// A message of this agent. Its id is derived from its subject, so that it is the same each time it is sent.
pub(super) fn agent_message(run: &str, about: &str, text: &str) -> Message {
    Message { message_id: format!("{run}-{about}"), role: Role::Agent, parts: vec![Part::text(text, "text/plain")], ..Message::default() }
}

/// A question: as text for people, and with the schema of the answer for programs.
pub(super) fn question(asks: &OpenQuestion) -> Message {
    let waiting = &asks.waiting;
    let (step, index): (u64, u32) = waiting.task.into();
    let text = format!("{}\n\n{}", waiting.question.prompt.trim(), hint(waiting));
    let mut message = agent_message(asks.run.as_str(), &format!("question-{step}-{index}-{}", waiting.attempt), &text);
    let (question, call) = (&waiting.question, turn::call_json(waiting));
    message.parts.push(Part::data(json!({ "question": question.prompt, "schema": question.schema, "call": call, "why": waiting.why })));
    message
}

const ANSWER: &str = "answer";
const SOURCES: &str = "sources";

pub(super) fn answer_artifact(text: &str) -> Artifact {
    let parts = vec![Part::text(text, "text/markdown")];
    Artifact {
        artifact_id: ANSWER.to_owned(),
        name: ANSWER.to_owned(),
        description: "The answer, with its citations".to_owned(),
        parts,
        metadata: None,
    }
}

/// What the answer cites, one part each; `[1]` is the first.
pub(super) fn sources_artifact(answered: &Answered) -> Option<Artifact> {
    if answered.sources.is_empty() {
        return None;
    }
    let parts = answered.sources.iter().map(|source| Part::data(json!(source))).collect();
    let description = "What the answer cites; [1] is the first".to_owned();
    Some(Artifact { artifact_id: SOURCES.to_owned(), name: SOURCES.to_owned(), description, parts, metadata: None })
}

fn artifacts(answered: &Answered) -> Vec<Artifact> {
    std::iter::once(answer_artifact(&answered.text)).chain(sources_artifact(answered)).collect()
}

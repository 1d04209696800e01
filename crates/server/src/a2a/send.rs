//! A message: it starts a task, or answers the question that a task waits with.

use store::{RunRow, Status};
use wire::a2a::error::{CONTENT_TYPE_NOT_SUPPORTED, UNSUPPORTED_OPERATION};
use wire::a2a::{Message, MessageContent, Role, SendMessage, Task, TaskState, TaskStatus};

use super::history::{self, History};
use super::task::{Shape, context_of, question};
use super::{A2a, Caller, DEFAULT_FLOW, push, refusal, wrong};
use crate::guard::now_ms;
use crate::langgraph::calendar;
use crate::problem::{Problem, StatusCode};
use crate::turn::{self, StartedTurn, Turn, answer_value, hint};

const ID_BYTES_MAX: usize = 200;

/// A task that a message reached.
pub(super) struct StartedTask {
    pub(super) turn: StartedTurn,
    pub(super) context: String,
    /// What the client receives first, if the message was new; a message that was sent before finds the task as it is.
    pub(super) first: Option<Task>,
}

impl A2a {
    pub(super) async fn send(&self, caller: &Caller, request: SendMessage, is_watched: bool) -> Result<StartedTask, Problem> {
        let message = request.message.clone().ok_or_else(|| wrong("message: it is missing"))?;
        let content = check(&message)?;
        let config = request.configuration.as_ref().and_then(|configuration| configuration.task_push_notification_config.clone());
        if let Some(config) = &config {
            push::check(self, config).await?;
        }
        let reached = match message.task_id.is_empty() {
            true => Box::pin(self.begin(caller, &request, message, content, is_watched)).await?,
            false => Box::pin(self.answer(caller, message, content, is_watched)).await?,
        };
        if let Some(config) = config {
            push::put(self, &caller.who.user, reached.turn.run.as_str(), config).await?;
        }
        Ok(reached)
    }

    /// Sends a message and waits until its task rests, unless the client does not want to.
    pub(super) async fn send_and_wait(&self, caller: &Caller, request: SendMessage) -> Result<Task, Problem> {
        let configuration = request.configuration.clone().unwrap_or_default();
        let shape = Shape::of(configuration.history_length)?;
        let reached = self.send(caller, request, false).await?;
        let run = &reached.turn.run;
        if !configuration.return_immediately {
            turn::outcome(self.api(), run).await?;
        }
        let row = self.row(&caller.who, run.as_str()).await?;
        self.task(&caller.who, row, shape).await
    }

    async fn begin(
        &self,
        caller: &Caller,
        request: &SendMessage,
        mut message: Message,
        content: MessageContent,
        is_watched: bool,
    ) -> Result<StartedTask, Problem> {
        let api = self.api();
        let (of_metadata, options) = request.options()?;
        let of_tenant = Some(request.tenant.clone()).filter(|tenant| !tenant.is_empty());
        let flow = caller.flow.clone().or(of_tenant).or(of_metadata).unwrap_or_else(|| DEFAULT_FLOW.to_owned());
        turn::must_know(api, &flow).map_err(|problem| wrong(problem.message))?;
        let mut new_run = turn::new_run_with(&flow, content.text, options);
        new_run.thread = Some(message.context_id.clone()).filter(|context| !context.is_empty());
        // The text may be another agent's and not the user's.
        let requested = Turn { new_run, history: Vec::new(), is_tainted: true, wrapper: None };
        let terms = caller.terms.clone().or_key(Some(&message.message_id));
        let turn = turn::begin(api, &caller.who, "a2a", &terms, requested, is_watched).await?;
        let run = turn.run.as_str();
        if let Some(stored) = history::get(self, &caller.who.user, run).await? {
            let row = self.row(&caller.who, run).await?;
            let turn = if is_watched { turn::followed(api, row).await } else { turn };
            return Ok(StartedTask { turn, context: stored.context, first: None });
        }
        let context = match message.context_id.is_empty() {
            true => crate::api::shown_name(&caller.who.user, &turn.thread),
            false => message.context_id.clone(),
        };
        message.context_id.clone_from(&context);
        run.clone_into(&mut message.task_id);
        let mut stored = History::new(&context, message);
        history::put(self, &caller.who.user, run, &mut stored).await?;
        let first = Some(fresh(run, &stored, TaskState::Submitted));
        Ok(StartedTask { turn, context, first })
    }

    async fn answer(&self, caller: &Caller, mut message: Message, content: MessageContent, is_watched: bool) -> Result<StartedTask, Problem> {
        let (api, who) = (self.api(), &caller.who);
        let row = self.row(who, &message.task_id).await?;
        let run = row.run.clone();
        let mut stored = history::get(self, &who.user, run.as_str()).await?.unwrap_or_default();
        let context = context_of(who, &row, Some(&stored));
        if !message.context_id.is_empty() && message.context_id != context {
            return Err(wrong(format!("message.contextId: the task belongs to the context {context:?}")));
        }
        if stored.has(&message.message_id) {
            let turn = if is_watched { turn::followed(api, row).await } else { turn::found(api, who, row, false).await? };
            return Ok(StartedTask { turn, context, first: None });
        }
        must_ask(&row, &context)?;
        let (row, asks) = match turn::open_question(api, who, run.as_str()).await {
            Err(problem) if problem.status == StatusCode::CONFLICT => return Err(refusal(UNSUPPORTED_OPERATION, "the task asks nothing any more")),
            found => found?,
        };
        let value = match content.data.filter(serde_json::Value::is_object) {
            Some(value) => value,
            None => answer_value(&content.text, &asks.waiting).map_err(|why| wrong(format!("{why} {}", hint(&asks.waiting))))?,
        };
        let question = question(&asks);
        let turn = turn::give(api, who, row, &asks, value, is_watched).await?;
        message.context_id.clone_from(&context);
        stored.context.clone_from(&context);
        stored.push(question);
        stored.push(message);
        history::put(self, &who.user, run.as_str(), &mut stored).await?;
        push::schedule_notifications(self, &run);
        let first = Some(fresh(run.as_str(), &stored, TaskState::Working));
        Ok(StartedTask { turn, context, first })
    }
}

fn check(message: &Message) -> Result<MessageContent, Problem> {
    let id = &message.message_id;
    if id.trim().is_empty() || id.len() > ID_BYTES_MAX || id.chars().any(char::is_control) {
        return Err(wrong(format!("message.messageId has 1 to {ID_BYTES_MAX} bytes; it names this message when it is sent again")));
    }
    if message.role != Role::User {
        return Err(wrong("message.role: a client's messages are of ROLE_USER"));
    }
    if message.parts.is_empty() {
        return Err(wrong("message.parts: at least one part is needed"));
    }
    let content = message.content().map_err(|part| refusal(CONTENT_TYPE_NOT_SUPPORTED, part.0))?;
    if content.text.trim().is_empty() {
        return Err(wrong("message.parts: they are empty; say what you want to know"));
    }
    Ok(content)
}

/// Only a task that asks something takes a message.
fn must_ask(row: &RunRow, context: &str) -> Result<(), Problem> {
    let reason = match row.status {
        Status::Asking | Status::Waiting => return Ok(()),
        Status::Running => "the task is at work and asks nothing; wait until it does, or cancel it".to_owned(),
        Status::Done | Status::Failed | Status::Cancelled => {
            format!("the task is over; send the message without taskId and with contextId {context:?} to go on from it")
        }
    };
    Err(refusal(UNSUPPORTED_OPERATION, reason))
}

fn fresh(run: &str, stored: &History, state: TaskState) -> Task {
    Task {
        id: run.to_owned(),
        context_id: stored.context.clone(),
        status: TaskStatus { state, message: None, timestamp: calendar::shown(now_ms()) },
        artifacts: Some(Vec::new()),
        history: stored.clone().shown(run),
        metadata: None,
    }
}

//! Calls an A2A agent: a task in a context of its own, followed until it ends or asks something.
//!
//! ```text
//!   key of the effect ─► context id, message id ─► ListTasks of the context ─ none ─► SendStreamingMessage ─┐
//!                                                        │ ours                                             ▼
//!                                                        └────────────────────────► SubscribeToTask, or GetTask now and then
//!                                                                                        │ rests
//!                                                                                        ▼
//!                                                                      GetTask ─► artifacts as a message, or a question
//! ```
//!
//! Both ids are derived from the effect's key, in any process: after a crash on either side the task is found by its context, and a server that compares message ids takes the same
//! message once. A question (`input-required`) comes back under `waiting` of the context; its answer comes with the next call and is a message in the same task. It is sent only
//! while the task still has that question.

mod card;
mod grpc;
mod line;
mod reply;

use std::time::{Duration, Instant};

use effects::Progress;
use graph::{Failure, FailureKind, Job, Reply};
use http::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;
use wire::a2a::error::{TASK_NOT_CANCELABLE, TASK_NOT_FOUND};
use wire::a2a::{Message, Part, Role, SendConfiguration, SendMessage, Task, TaskState, VERSION, VERSION_HEADER};
use wire::langserve::Description;

use crate::exchange::{self, Exchange, uuid_of};
use crate::langserve::Service;
use card::Cards;
use line::{AgentClient, CallError, Op, SendResult, Tasks};

/// The interval of requests for a task without a stream.
const PAUSE: Duration = Duration::from_millis(300);
/// How long an agent that has our task may be unreachable.
const LOST_MAX: Duration = Duration::from_secs(30);

pub(crate) struct Agent {
    http: Service,
    /// Where the configuration says that it speaks gRPC.
    grpc: Option<Service>,
    cards: Cards,
    tasks: Tasks,
}

/// A person's word for a question of the task, as the supervisor gives it back.
#[derive(Deserialize)]
struct Answer {
    task: String,
    #[serde(default)]
    question: String,
    #[serde(default)]
    value: Value,
}

impl Agent {
    pub(crate) fn new(url: &str, path: &str, grpc_url: Option<&str>, token: Option<String>) -> Result<Agent, String> {
        let grpc = grpc_url.map(|url| Service::new(url, "", token.clone())).transpose().map_err(|why| format!("grpc_url: {why}"))?;
        Ok(Agent { http: Service::new(url, path, token)?, grpc, cards: Cards::default(), tasks: Tasks::default() })
    }

    pub(crate) fn address(&self) -> String {
        self.http.address()
    }

    /// What its card says it can do.
    pub(crate) async fn describe(&self) -> Result<Option<Description>, String> {
        self.cards.describe(&self.http, self.grpc.as_ref()).await.map(Some)
    }

    pub(crate) async fn call(&self, name: &str, input: &Value, job: &Job, progress: &Progress) -> Reply {
        exchange::reply_in_time(name, &self.http, job, self.run(name, input, job, progress)).await
    }

    async fn run(&self, name: &str, input: &Value, job: &Job, progress: &Progress) -> Result<Value, Failure> {
        let line = self.line(name, job).await?;
        let answer = input.pointer("/context/answers/0").and_then(|answer| Answer::deserialize(answer).ok());
        let key = job.key.to_string();
        let heard = match &answer {
            Some(answer) => send_answer(&line, &key, answer, progress).await?,
            None => find_or_start_task(&line, &key, input, progress).await?,
        };
        let task = match heard {
            // It is of the kind that keeps no tasks.
            SendResult { message: Some(message), .. } => return Ok(reply::of_message(name, input, &message)),
            SendResult { task: Some(task), .. } => follow(&line, &task, progress).await?,
            SendResult { .. } => return Err(line.exchange.invalid_reply("took the message and named no task")),
        };
        self.tasks.take(&line.key);
        reply::of_task(name, input, &task)
    }

    async fn line<'a>(&'a self, name: &'a str, job: &Job) -> Result<AgentClient<'a>, Failure> {
        let mut headers = exchange::headers(&self.http, job);
        headers.insert(HeaderName::from_static(VERSION_HEADER), HeaderValue::from_static(VERSION));
        let exchange = Exchange { service: self.grpc.as_ref().unwrap_or(&self.http), name, headers };
        let place = self
            .cards
            .place(&self.http, self.grpc.as_ref())
            .await
            .map_err(|why| Failure::new(FailureKind::Network, format!("{name}: {why}")).retry())?;
        let place = place.map_err(|why| Failure::new(FailureKind::Refused, format!("{name}: {why}")))?;
        Ok(AgentClient { exchange, place, key: job.key.to_string(), tasks: &self.tasks })
    }

    /// Stops the task of a call whose caller stopped waiting.
    pub(crate) async fn cancel(&self, name: &str, input: &Value, job: &Job) -> Result<(), Failure> {
        let line = self.line(name, job).await?;
        let answer = input.pointer("/context/answers/0").and_then(|answer| Answer::deserialize(answer).ok());
        let known = answer.map(|answer| answer.task).or(self.tasks.take(&line.key));
        let task = match known {
            Some(task) => task,
            None => {
                let listed = line.call(Op::List(&uuid_of(&line.key))).await.map_err(|trouble| trouble.failure(name))?;
                let Some(task) = listed.pointer("/tasks/0/id").and_then(Value::as_str) else { return Ok(()) };
                task.to_owned()
            }
        };
        match line.call(Op::Cancel(&task)).await {
            // It was over before.
            Err(CallError::Refused { kind: Some(TASK_NOT_FOUND | TASK_NOT_CANCELABLE), .. }) => Ok(()),
            cancelled => cancelled.map(drop).map_err(|trouble| trouble.failure(name)),
        }
    }
}

/// Finds the task that an earlier attempt started, or starts it.
async fn find_or_start_task(line: &AgentClient<'_>, key: &str, input: &Value, progress: &Progress) -> Result<SendResult, Failure> {
    let context = uuid_of(key);
    match line.call(Op::List(&context)).await {
        Ok(listed) => {
            if let Some(task) = listed["tasks"].as_array().and_then(|tasks| own_task(tasks, &context)) {
                return Ok(SendResult::of(task));
            }
        }
        Err(CallError::Failed(failure)) if failure.kind == FailureKind::Network => return Err(failure),
        // Not every agent lists tasks.
        Err(_) => {}
    }
    let parts = vec![Part::text(reply::request_of(input), "text/plain")];
    let metadata = input.pointer("/context/capability").map(|capability| [("capability".to_owned(), capability.clone())].into_iter().collect());
    let message = Message { message_id: message_id(key), context_id: context, role: Role::User, parts, metadata, ..Message::default() };
    send(line, message, progress).await
}

/// The task of this context. An agent that does not filter may list tasks of others, whose answers are none of ours.
fn own_task<'t>(tasks: &'t [Value], context: &str) -> Option<&'t str> {
    let is_own = |task: &&Value| task["contextId"].as_str().is_none_or(|named| named.is_empty() || named == context);
    tasks.iter().find(is_own)?["id"].as_str()
}

/// Gives an answer, unless it was given before.
async fn send_answer(line: &AgentClient<'_>, key: &str, answer: &Answer, progress: &Progress) -> Result<SendResult, Failure> {
    let task = get(line, &answer.task).await?;
    let asked = task.status.message.as_ref().map(|message| message.message_id.as_str()).unwrap_or_default();
    let id = message_id(key);
    let is_open = task.status.state.is_interrupted() && (answer.question.is_empty() || answer.question == asked);
    if !is_open || task.history.iter().any(|message| message.message_id == id) {
        return Ok(SendResult::of(&answer.task));
    }
    let part = match &answer.value {
        Value::String(text) => Part::text(text.as_str(), "text/plain"),
        Value::Object(_) => Part::data(answer.value.clone()),
        other => Part::text(other.to_string(), "text/plain"),
    };
    let (task_id, context_id) = (answer.task.clone(), task.context_id);
    send(line, Message { message_id: id, task_id, context_id, role: Role::User, parts: vec![part], ..Message::default() }, progress).await
}

/// The message of an effect, the same for every attempt.
fn message_id(key: &str) -> String {
    uuid_of(&key.chars().rev().collect::<String>())
}

async fn send(line: &AgentClient<'_>, message: Message, progress: &Progress) -> Result<SendResult, Failure> {
    let task = message.task_id.clone();
    let configuration = Some(SendConfiguration { return_immediately: true, ..SendConfiguration::default() });
    let request = SendMessage { tenant: line.place.tenant.clone(), message: Some(message), configuration, metadata: None };
    let heard = match line.place.has_streams {
        true => line.stream(Op::Stream(&request), progress).await,
        false => line
            .call(Op::Send(&request))
            .await
            .and_then(|reply| SendResult::read(&reply).ok_or_else(|| line.invalid_reply("sent neither a task nor a message"))),
    };
    match heard {
        Ok(heard) if heard.task.is_some() || heard.message.is_some() => Ok(heard),
        // The line broke before a word came; the next attempt finds out whether there is a task.
        Ok(_) if task.is_empty() => Err(Failure::new(FailureKind::Network, format!("{} said nothing", line.exchange.name)).retry()),
        Ok(_) => Ok(SendResult::of(&task)),
        Err(trouble) => Err(trouble.failure(line.exchange.name)),
    }
}

async fn get(line: &AgentClient<'_>, task: &str) -> Result<Task, Failure> {
    let found = line.call(Op::Get(task)).await;
    let found = found.map_err(|trouble| match trouble {
        // The server has no such task, because it was restarted without a store: the next attempt starts again.
        CallError::Refused { kind: Some(TASK_NOT_FOUND), .. } => {
            Failure::new(FailureKind::Network, format!("{} no longer has its task", line.exchange.name)).retry()
        }
        other => other.failure(line.exchange.name),
    })?;
    serde_json::from_value(found).map_err(|why| line.exchange.invalid_reply(&format!("describes its task in a form of its own ({why})")))
}

/// Follows a task until it rests, through broken lines.
async fn follow(line: &AgentClient<'_>, task: &str, progress: &Progress) -> Result<Task, Failure> {
    let mut lost_at: Option<Instant> = None;
    let mut has_streams = line.place.has_streams;
    loop {
        let found = match get(line, task).await {
            Ok(found) => {
                lost_at = None;
                found
            }
            // One that is being restarted has the task afterwards, or says that it has not.
            Err(failure)
                if failure.kind == FailureKind::Network && is_lost(&failure) && lost_at.get_or_insert_with(Instant::now).elapsed() < LOST_MAX =>
            {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        if found.status.state.is_terminal() || found.status.state.is_interrupted() {
            return Ok(found);
        }
        if found.status.state == TaskState::Unspecified {
            return Err(line.exchange.invalid_reply("does not say what state its task is in"));
        }
        if has_streams {
            // One that refuses is not asked again; its task is looked at now and then.
            has_streams = line.stream(Op::Subscribe(task), progress).await.is_ok();
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn is_lost(failure: &Failure) -> bool {
    !failure.message.contains("no longer has its task")
}

#[cfg(test)]
mod tests;

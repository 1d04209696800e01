//! Calls an A2A agent: a task in a context of its own, followed until it ends or asks something.
//!
//! ```text
//!   key of the effect ─► context id, message id ─► ListTasks of the context ─ none ─► SendStreamingMessage ─┐
//!                                                        │ ours                                             ▼
//!                                                        └────────────────────────► SubscribeToTask, or GetTask now and then
//!                                                                                        │ ended, or asks
//!                                                                                        ▼
//!                                                                      GetTask ─► artifacts as a message, or a question
//! ```
//!
//! Both ids are derived from the effect's key, in any process: after a crash on either side the task is found by its context, and a server that compares message ids takes the same
//! message once. A question (`input-required`) is returned under `waiting` of the context; its answer comes with the next call and is a message in the same task. It is sent only
//! while the task still has that question.

mod card;
mod client;
mod grpc;
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
use crate::report;
use card::Cards;
use client::{AgentClient, CallError, Op, SendResult, Tasks};

/// The interval of requests for a task that is not streamed.
const PAUSE: Duration = Duration::from_millis(300);
/// How long an agent that has our task may be unreachable.
const LOST_MAX: Duration = Duration::from_secs(30);

pub(crate) struct Agent {
    http: Service,
    /// The address for gRPC, if one is configured.
    grpc: Option<Service>,
    cards: Cards,
    tasks: Tasks,
}

/// The user's answer to a question of the task, as the supervisor returns it.
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

    /// Its capabilities, as its card lists them.
    pub(crate) async fn describe(&self) -> Result<Option<Description>, String> {
        self.cards.describe(&self.http, self.grpc.as_ref()).await.map(Some)
    }

    pub(crate) async fn call(&self, name: &str, input: &Value, job: &Job, progress: &Progress) -> Reply {
        exchange::reply_in_time(name, &self.http, job, self.run(name, input, job, progress)).await
    }

    async fn run(&self, name: &str, input: &Value, job: &Job, progress: &Progress) -> Result<Value, Failure> {
        let client = self.client(name, job).await?;
        let answer = input.pointer("/context/answers/0").and_then(|answer| Answer::deserialize(answer).ok());
        let key = job.key.to_string();
        let sent = match &answer {
            Some(answer) => send_answer(&client, &key, answer, progress).await?,
            None => find_or_start_task(&client, &key, input, progress).await?,
        };
        let task = match sent {
            // An agent without tasks answers with a message.
            SendResult { message: Some(message), .. } => return Ok(reply::of_message(name, input, &message)),
            SendResult { task: Some(task), .. } => follow(&client, &task, progress).await?,
            SendResult { .. } => return Err(client.exchange.invalid_reply("accepted the message but named no task")),
        };
        self.tasks.take(&client.key);
        reply::of_task(name, input, &task)
    }

    /// A client for the requests of one call.
    async fn client<'a>(&'a self, name: &'a str, job: &Job) -> Result<AgentClient<'a>, Failure> {
        let mut headers = exchange::headers(&self.http, job);
        headers.insert(HeaderName::from_static(VERSION_HEADER), HeaderValue::from_static(VERSION));
        let exchange = Exchange { service: self.grpc.as_ref().unwrap_or(&self.http), name, headers };
        let endpoint = self
            .cards
            .endpoint(&self.http, self.grpc.as_ref())
            .await
            .map_err(|why| Failure::new(FailureKind::Network, format!("{name}: {why}")).retry())?;
        let endpoint = endpoint.map_err(|why| Failure::new(FailureKind::Refused, format!("{name}: {why}")))?;
        Ok(AgentClient { exchange, endpoint, key: job.key.to_string(), tasks: &self.tasks })
    }

    /// Stops the task of a call whose caller stopped waiting.
    pub(crate) async fn cancel(&self, name: &str, input: &Value, job: &Job) -> Result<(), Failure> {
        let client = self.client(name, job).await?;
        let answer = input.pointer("/context/answers/0").and_then(|answer| Answer::deserialize(answer).ok());
        let known = answer.map(|answer| answer.task).or(self.tasks.take(&client.key));
        let task = match known {
            Some(task) => task,
            None => {
                let listed = client.call(Op::List(&uuid_of(&client.key))).await.map_err(|error| error.failure(name))?;
                let Some(task) = listed.pointer("/tasks/0/id").and_then(Value::as_str) else { return Ok(()) };
                task.to_owned()
            }
        };
        match client.call(Op::Cancel(&task)).await {
            // It has ended already.
            Err(CallError::Refused { kind: Some(TASK_NOT_FOUND | TASK_NOT_CANCELABLE), .. }) => Ok(()),
            cancelled => cancelled.map(drop).map_err(|error| error.failure(name)),
        }
    }
}

/// Finds the task that an earlier attempt started, or starts it.
async fn find_or_start_task(client: &AgentClient<'_>, key: &str, input: &Value, progress: &Progress) -> Result<SendResult, Failure> {
    let context = uuid_of(key);
    match client.call(Op::List(&context)).await {
        Ok(listed) => {
            if let Some(task) = listed["tasks"].as_array().and_then(|tasks| own_task(tasks, &context)) {
                return Ok(SendResult::of(task));
            }
        }
        Err(CallError::Failed(failure)) if failure.kind == FailureKind::Network => return Err(failure),
        // Not every agent lists tasks.
        Err(_) => {}
    }
    let parts = vec![Part::text(report::request_of(input), "text/plain")];
    let metadata = input.pointer("/context/capability").map(|capability| [("capability".to_owned(), capability.clone())].into_iter().collect());
    let message = Message { message_id: message_id(key), context_id: context, role: Role::User, parts, metadata, ..Message::default() };
    send(client, message, progress).await
}

/// The task of this context. An agent that does not filter by context also lists tasks of other callers.
fn own_task<'t>(tasks: &'t [Value], context: &str) -> Option<&'t str> {
    let is_own = |task: &&Value| task["contextId"].as_str().is_none_or(|named| named.is_empty() || named == context);
    tasks.iter().find(is_own)?["id"].as_str()
}

/// Sends an answer, unless it was sent before or its question is no longer open.
async fn send_answer(client: &AgentClient<'_>, key: &str, answer: &Answer, progress: &Progress) -> Result<SendResult, Failure> {
    let task = get(client, &answer.task).await.map_err(|error| error.failure(client.exchange.name))?;
    let open_question = task.status.message.as_ref().map(|message| message.message_id.as_str()).unwrap_or_default();
    let id = message_id(key);
    let is_open = task.status.state.is_interrupted() && (answer.question.is_empty() || answer.question == open_question);
    if !is_open || task.history.iter().any(|message| message.message_id == id) {
        return Ok(SendResult::of(&answer.task));
    }
    let part = match &answer.value {
        Value::String(text) => Part::text(text.as_str(), "text/plain"),
        Value::Object(_) => Part::data(answer.value.clone()),
        other => Part::text(other.to_string(), "text/plain"),
    };
    let (task_id, context_id) = (answer.task.clone(), task.context_id);
    send(client, Message { message_id: id, task_id, context_id, role: Role::User, parts: vec![part], ..Message::default() }, progress).await
}

/// The message of an effect, the same for every attempt.
fn message_id(key: &str) -> String {
    uuid_of(&key.chars().rev().collect::<String>())
}

async fn send(client: &AgentClient<'_>, message: Message, progress: &Progress) -> Result<SendResult, Failure> {
    let task = message.task_id.clone();
    let configuration = Some(SendConfiguration { return_immediately: true, ..SendConfiguration::default() });
    let request = SendMessage { tenant: client.endpoint.tenant.clone(), message: Some(message), configuration, metadata: None };
    let sent = match client.endpoint.has_streams {
        true => client.stream(Op::Stream(&request), progress).await,
        false => client
            .call(Op::Send(&request))
            .await
            .and_then(|reply| SendResult::read(&reply).ok_or_else(|| client.invalid_reply("sent neither a task nor a message"))),
    };
    match sent {
        Ok(sent) if sent.task.is_some() || sent.message.is_some() => Ok(sent),
        // The stream ended before its first event; the next attempt finds out whether there is a task.
        Ok(_) if task.is_empty() => {
            Err(Failure::new(FailureKind::Network, format!("{} closed the stream before its first event", client.exchange.name)).retry())
        }
        Ok(_) => Ok(SendResult::of(&task)),
        Err(error) => Err(error.failure(client.exchange.name)),
    }
}

/// Why a task could not be read.
#[derive(Debug)]
enum GetError {
    /// The agent has no such task, because it was restarted without a store.
    NoTask,
    Failed(Failure),
}

impl GetError {
    /// The failure of the call. A task that is gone is worth another attempt, which starts it again.
    fn failure(self, name: &str) -> Failure {
        match self {
            GetError::NoTask => Failure::new(FailureKind::Network, format!("{name} no longer has its task")).retry(),
            GetError::Failed(failure) => failure,
        }
    }

    /// Whether the agent may have the task and could not be reached.
    fn is_unreachable(&self) -> bool {
        matches!(self, GetError::Failed(failure) if failure.kind == FailureKind::Network)
    }
}

async fn get(client: &AgentClient<'_>, task: &str) -> Result<Task, GetError> {
    let found = client.call(Op::Get(task)).await.map_err(|error| match error {
        CallError::Refused { kind: Some(TASK_NOT_FOUND), .. } => GetError::NoTask,
        other => GetError::Failed(other.failure(client.exchange.name)),
    })?;
    let invalid = |why| client.exchange.invalid_reply(&format!("describes its task in an unknown form ({why})"));
    serde_json::from_value(found).map_err(|why| GetError::Failed(invalid(why)))
}

/// Follows a task until it ends or waits for an answer. A connection that breaks is opened again.
async fn follow(client: &AgentClient<'_>, task: &str, progress: &Progress) -> Result<Task, Failure> {
    let mut lost_at: Option<Instant> = None;
    let mut has_streams = client.endpoint.has_streams;
    loop {
        let found = match get(client, task).await {
            Ok(found) => {
                lost_at = None;
                found
            }
            // An agent that is being restarted reports afterwards whether it has the task.
            Err(error) if error.is_unreachable() && lost_at.get_or_insert_with(Instant::now).elapsed() < LOST_MAX => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(error) => return Err(error.failure(client.exchange.name)),
        };
        if found.status.state.is_terminal() || found.status.state.is_interrupted() {
            return Ok(found);
        }
        if found.status.state == TaskState::Unspecified {
            return Err(client.exchange.invalid_reply("does not report the state of its task"));
        }
        if has_streams {
            // An agent that refuses to stream is not asked for a stream again; its task is polled.
            has_streams = client.stream(Op::Subscribe(task), progress).await.is_ok();
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests;

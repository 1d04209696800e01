//! A task as a stream: its current state, then its events, until it ends. The stream of a message also ends with a question; a subscription waits for its answer.
//!
//! ```text
//! task ─► statusUpdate WORKING: a step, a call of a tool, a note · artifactUpdate `answer`, piece by piece
//!      ─► artifactUpdate `answer` (last chunk), `sources` ─► statusUpdate COMPLETED
//!      ─► statusUpdate INPUT_REQUIRED, FAILED or CANCELED
//! ```
//!
//! A client that disconnects stops nothing: a task runs until it is cancelled.

use axum::body::Bytes;
use axum::response::Response;
use graph::RunId;
use hyper::body::Frame;
use serde_json::{Value, json};
use wire::a2a::error::UNSUPPORTED_OPERATION;
use wire::a2a::{Artifact, ArtifactUpdate, Message, Part, SendMessage, StatusUpdate, StreamResponse, Task, TaskState, TaskStatus, grpc, proto};

use super::send::StartedTask;
use super::task::{Shape, agent_message, answer_artifact, question, sources_artifact};
use super::{A2a, Caller, kind_of, refusal};
use crate::api::Api;
use crate::guard::{Identity, now_ms};
use crate::langgraph::calendar;
use crate::problem::Problem;
use crate::turn::{self, Answered, Sink, StartedTurn, TurnEvent, TurnOutcome};

/// The form of a binding's events.
#[derive(Clone)]
pub(super) enum Form {
    /// Each as the result of the request with this id.
    Rpc(Value),
    Http,
    Grpc,
}

impl Form {
    fn frame(&self, update: StreamResponse) -> Frame<Bytes> {
        let bytes = match self {
            Form::Rpc(id) => format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": id, "result": update })).into(),
            Form::Http => format!("data: {}\n\n", json!(update)).into(),
            Form::Grpc => grpc::frame(&proto::StreamResponse::from(update)).into(),
        };
        Frame::data(bytes)
    }

    fn error(&self, problem: &Problem) -> Frame<Bytes> {
        let kind = kind_of(problem);
        match self {
            Form::Rpc(id) => Frame::data(format!("data: {}\n\n", kind.of_rpc(id, &problem.message)).into()),
            Form::Http => Frame::data(format!("event: error\ndata: {}\n\n", kind.of_http(&problem.message)).into()),
            Form::Grpc => Frame::trailers(super::grpc::trailers(problem)),
        }
    }

    /// A stream in this form: the end to write to, and the response.
    fn open(&self, api: &Api, who: &Identity) -> Result<(Sink, Response), Problem> {
        match self {
            Form::Rpc(_) | Form::Http => turn::channel(api, who),
            Form::Grpc => turn::frames(api, who).map(|(sink, source)| (sink, super::grpc::streamed(source))),
        }
    }
}

impl A2a {
    pub(super) async fn stream(&self, caller: &Caller, request: SendMessage, form: Form) -> Result<Response, Problem> {
        let history_length = request.configuration.as_ref().and_then(|configuration| configuration.history_length);
        let shape = Shape::of(history_length)?;
        // Checked before the task starts: a task whose events cannot be delivered must not start.
        let (sink, response) = form.open(self.api(), &caller.who)?;
        let StartedTask { turn, context, first } = self.send(caller, request, true).await?;
        let first = match first {
            Some(first) => first,
            None => self.task(&caller.who, self.row(&caller.who, turn.run.as_str()).await?, shape).await?,
        };
        let writer = TaskWriter { task: turn.run.clone(), context, sink, form, is_subscription: false };
        self.spawn(&caller.who, turn, first, writer);
        Ok(response)
    }

    pub(super) async fn subscribe(&self, who: &Identity, id: &str, form: Form) -> Result<Response, Problem> {
        let row = self.row(who, id).await?;
        if row.status.is_over() {
            return Err(refusal(UNSUPPORTED_OPERATION, "the task has ended; read its result with GetTask"));
        }
        let (sink, response) = form.open(self.api(), who)?;
        // Events from here on are sent, so the task is read afterwards.
        let turn = turn::followed(self.api(), row).await;
        let first = self.task(who, self.row(who, id).await?, Shape::of(None)?).await?;
        let context = first.context_id.clone();
        let writer = TaskWriter { task: turn.run.clone(), context, sink, form, is_subscription: true };
        self.spawn(who, turn, first, writer);
        Ok(response)
    }

    fn spawn(&self, who: &Identity, turn: StartedTurn, first: Task, writer: TaskWriter) {
        let (a2a, who) = (self.clone(), who.clone());
        tokio::spawn(async move {
            if let Err(problem) = writer.write(&a2a, turn, first).await {
                tracing::debug!(task = %writer.task, user = %who.user, "a stream ended early: {}", problem.message);
                // Nobody may be reading any more.
                let _ = writer.sink.send_frame(writer.form.error(&problem)).await;
            }
        });
    }
}

struct TaskWriter {
    task: RunId,
    context: String,
    sink: Sink,
    form: Form,
    /// A question does not end the stream.
    is_subscription: bool,
}

/// Nobody reads any more.
struct ClientGone;

impl TaskWriter {
    /// Ends where nobody reads any more.
    async fn write(&self, a2a: &A2a, mut turn: StartedTurn, first: Task) -> Result<(), Problem> {
        let state = first.status.state;
        let is_gone = self.send(StreamResponse::Task(Box::new(first))).await.is_err();
        let mut is_waiting = state.is_interrupted();
        if is_gone || state.is_terminal() || (is_waiting && !self.is_subscription) {
            return Ok(());
        }
        let (mut sent_text, mut has_sent) = (String::new(), false);
        let mut number = 0;
        let mut events = turn.events();
        loop {
            if let Some(events) = &mut events {
                loop {
                    let happened = tokio::select! {
                        happened = events.next_after(is_waiting) => happened,
                        () = self.sink.closed() => return Ok(()),
                    };
                    is_waiting = false;
                    let Some(happened) = happened else { break };
                    number += 1;
                    if self.happened(happened, has_sent, number).await.is_err() {
                        return Ok(());
                    }
                    has_sent |= !events.sent_text().is_empty();
                }
                // Once, and not with every piece: an answer may have hundreds of thousands of them.
                events.sent_text().clone_into(&mut sent_text);
            }
            let rest = turn::outcome(a2a.api(), &turn.run).await?;
            is_waiting = self.is_subscription && events.is_some() && matches!(rest, TurnOutcome::Question(_));
            // There is nothing to stop if the client is gone.
            if self.write_outcome(rest, &sent_text).await.is_err() || !is_waiting {
                return Ok(());
            }
        }
    }

    async fn send(&self, update: StreamResponse) -> Result<(), ClientGone> {
        if self.sink.send_frame(self.form.frame(update)).await { Ok(()) } else { Err(ClientGone) }
    }

    async fn status(&self, state: TaskState, message: Option<Message>) -> Result<(), ClientGone> {
        let status = TaskStatus { state, message, timestamp: calendar::shown(now_ms()) };
        self.send(StreamResponse::StatusUpdate(StatusUpdate { task_id: self.task.to_string(), context_id: self.context.clone(), status })).await
    }

    async fn artifact(&self, artifact: Artifact, append: bool, last_chunk: bool) -> Result<(), ClientGone> {
        let update = ArtifactUpdate { task_id: self.task.to_string(), context_id: self.context.clone(), artifact, append, last_chunk };
        self.send(StreamResponse::ArtifactUpdate(update)).await
    }

    async fn working(&self, number: u64, text: &str, data: Option<Value>) -> Result<(), ClientGone> {
        let mut message = agent_message(self.task.as_str(), &format!("work-{number}"), text);
        message.parts.extend(data.map(Part::data));
        self.status(TaskState::Working, Some(message)).await
    }

    async fn happened(&self, happened: TurnEvent, has_sent: bool, number: u64) -> Result<(), ClientGone> {
        match happened {
            TurnEvent::StepStarted { step } => self.working(number, &step, None).await,
            TurnEvent::StepFinished { .. } | TurnEvent::ToolFinished { result: Ok(_), .. } => Ok(()),
            TurnEvent::Text(text) => self.artifact(answer_artifact(&text), has_sent, false).await,
            TurnEvent::ToolStarted { tool, arguments, .. } => {
                self.working(number, &format!("calls {tool}"), Some(json!({ "tool": tool, "arguments": arguments }))).await
            }
            TurnEvent::ToolFinished { tool, result: Err(why), .. } => self.working(number, &format!("{tool} failed: {why}"), None).await,
            TurnEvent::Noted { name, value } => self.working(number, &name, Some(json!({ "note": { "name": name, "value": value } }))).await,
        }
    }

    async fn write_outcome(&self, rest: TurnOutcome, sent_text: &str) -> Result<(), ClientGone> {
        let end = |text: &str| Some(agent_message(self.task.as_str(), "end", text));
        match rest {
            TurnOutcome::Answered(answered) => {
                self.answered(&answered, sent_text).await?;
                self.status(TaskState::Completed, None).await
            }
            TurnOutcome::Question(asks) => self.status(TaskState::InputRequired, Some(question(&asks))).await,
            TurnOutcome::Failed(why) => self.status(TaskState::Failed, end(&why)).await,
            TurnOutcome::Cancelled(why) => self.status(TaskState::Canceled, end(&why)).await,
        }
    }

    /// The rest of the answer. An answer that does not begin with the text that was sent replaces it.
    async fn answered(&self, answered: &Answered, sent_text: &str) -> Result<(), ClientGone> {
        let (text, append) = match answered.text.strip_prefix(sent_text) {
            Some(rest) if !sent_text.is_empty() => (rest, true),
            _ => (answered.text.as_str(), false),
        };
        self.artifact(answer_artifact(text), append, true).await?;
        match sources_artifact(answered) {
            Some(sources) => self.artifact(sources, false, true).await,
            None => Ok(()),
        }
    }
}

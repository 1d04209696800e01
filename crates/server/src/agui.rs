//! AG-UI: flows as agents of front ends. `POST /ag-ui/{flow}` (`POST /ag-ui` for the flow that picks one) takes a `RunAgentInput` and streams events.
//!
//! ```text
//! RUN_STARTED, STATE_SNAPSHOT ─► STEP_STARTED/FINISHED, STATE_DELTA (what the flow notes), TOOL_CALL_START/ARGS/END/RESULT, TEXT_MESSAGE_START/CONTENT/END
//!   ─► RUN_FINISHED: outcome success, interrupt (a person is asked; `resume` answers) or cancelled
//!   ─► RUN_ERROR
//! ```
//!
//! Tools of the front end are handed back: their calls have no result, and the results come with the next input.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Extension, Json, Router};
use serde_json::{Value, json};
use wire::agui::{Resume, ResumeStatus, RunAgentInput, event};

use crate::api::Api;
use crate::api::params::JsonBody;
use crate::guard::Identity;
use crate::openai::{Form, call_list, turn_of};
use crate::problem::Problem;
use crate::turn::{self, Events, Sink, StartedTurn, TurnEvent, TurnHeaders, TurnOutcome};

/// The flow at `/ag-ui`.
const DEFAULT_FLOW: &str = "auto";

pub(crate) fn routes(api: &Api) -> Router {
    Router::new().route("/ag-ui", post(run_default)).route("/ag-ui/{flow}", post(run)).with_state(api.clone())
}

/// What went wrong before a stream began.
pub(crate) fn error(problem: &Problem) -> Response {
    (problem.status, Json(event("RUN_ERROR", json!({ "message": problem.message, "code": problem.kind })))).into_response()
}

async fn run_default(api: State<Api>, who: Extension<Identity>, headers: HeaderMap, input: JsonBody<RunAgentInput>) -> Result<Response, Problem> {
    run(api, who, Path(DEFAULT_FLOW.to_owned()), headers, input).await
}

async fn run(
    State(api): State<Api>,
    Extension(who): Extension<Identity>,
    Path(flow): Path<String>,
    headers: HeaderMap,
    JsonBody(input): JsonBody<RunAgentInput>,
) -> Result<Response, Problem> {
    let terms = TurnHeaders::of(&headers)?;
    turn::must_know(&api, &flow)?;
    let begun = match input.resume.as_deref() {
        Some([resume]) => resumed(&api, &who, resume).await?,
        Some([_, _, ..]) => return Err(Problem::bad_request("resume: one question is open at a time; answer it alone")),
        Some([]) | None => {
            let form = Form::of(Some(&input.tools), None, "tools", None)?;
            let conversation = input.conversation()?;
            let wrapper = (!form.is_plain()).then(|| form.wrapper(Value::Null));
            let mut turn = turn_of(&flow, conversation, input.options()?, wrapper);
            turn.new_run.thread = Some(input.thread_id.clone()).filter(|thread| !thread.is_empty());
            turn::begin(&api, &who, "ag-ui", &terms, turn, true).await?
        }
    };
    let (sink, response) = turn::channel(&api, &who)?;
    let teller = StreamWriter { thread: input.thread_id, run: input.run_id, message: format!("msg_{}_{}", begun.run, begun.created_ms), sink };
    let stops = !terms.has_key();
    tokio::spawn(async move {
        let id = begun.run.clone();
        if !teller.write(&api, begun).await && stops {
            // One that is over by now is not stopped.
            let _ = api.0.engine.cancel(&id, "the client closed its stream").await;
        }
    });
    Ok(response)
}

async fn resumed(api: &Api, who: &Identity, resume: &Resume) -> Result<StartedTurn, Problem> {
    let (row, asks) = turn::open_question(api, who, &resume.interrupt_id).await?;
    if resume.status == ResumeStatus::Cancelled {
        let begun = turn::found(api, who, row, true).await?;
        api.0.engine.cancel(&begun.run, "declined by the user").await?;
        return Ok(begun);
    }
    let value = match &resume.payload {
        Value::String(text) => {
            turn::answer_value(text, &asks.waiting).map_err(|why| Problem::invalid(format!("{why} {}", turn::hint(&asks.waiting))))?
        }
        value => value.clone(),
    };
    turn::give(api, who, row, &asks, value, true).await
}

/// Sends a run as events.
struct StreamWriter {
    /// As the front end names them.
    thread: String,
    run: String,
    message: String,
    sink: Sink,
}

impl StreamWriter {
    async fn send(&self, kind: &str, fields: Value) -> bool {
        self.sink.send(format!("data: {}\n\n", event(kind, fields))).await
    }

    /// Whether the client received everything.
    async fn write(&self, api: &Api, mut begun: StartedTurn) -> bool {
        let ids = json!({ "threadId": self.thread, "runId": self.run });
        let state = json!({ "run": begun.run, "thread": begun.thread, "flow": begun.flow, "notes": {}, "sources": [] });
        if !self.send("RUN_STARTED", ids).await || !self.send("STATE_SNAPSHOT", json!({ "snapshot": state })).await {
            return false;
        }
        let Some(mut events) = begun.events() else { return true };
        let mut steps: Vec<String> = Vec::new();
        let mut has_text = false;
        loop {
            let happened = tokio::select! {
                happened = events.next() => happened,
                () = self.sink.closed() => return false,
            };
            let Some(happened) = happened else { break };
            if !self.happened(happened, &mut steps, &mut has_text).await {
                return false;
            }
        }
        // A run that waits for a person is within its steps.
        for step in steps.into_iter().rev() {
            if !self.send("STEP_FINISHED", json!({ "stepName": step })).await {
                return false;
            }
        }
        match turn::outcome(api, &begun.run).await {
            Ok(rest) => self.write_outcome(&begun, rest, &events, has_text).await,
            Err(problem) => self.send("RUN_ERROR", json!({ "message": problem.message, "code": problem.kind })).await,
        }
    }

    async fn happened(&self, happened: TurnEvent, steps: &mut Vec<String>, has_text: &mut bool) -> bool {
        match happened {
            TurnEvent::StepStarted { step } => {
                if steps.contains(&step) {
                    return true;
                }
                steps.push(step.clone());
                self.send("STEP_STARTED", json!({ "stepName": step })).await
            }
            TurnEvent::StepFinished { step } => {
                let Some(at) = steps.iter().position(|open| *open == step) else { return true };
                steps.remove(at);
                self.send("STEP_FINISHED", json!({ "stepName": step })).await
            }
            TurnEvent::Noted { name, value } => {
                let path = format!("/notes/{}", name.replace('~', "~0").replace('/', "~1"));
                self.send("STATE_DELTA", json!({ "delta": [{ "op": "add", "path": path, "value": value }] })).await
            }
            TurnEvent::Text(text) => self.text(&text, has_text).await,
            TurnEvent::ToolStarted { id, tool, arguments } => self.call(&id, &tool, &arguments.to_string()).await,
            TurnEvent::ToolFinished { id, result, .. } => {
                let content = result.unwrap_or_else(|why| format!("error: {why}"));
                self.send("TOOL_CALL_RESULT", json!({ "messageId": format!("{id}-result"), "toolCallId": id, "content": content, "role": "tool" }))
                    .await
            }
        }
    }

    async fn text(&self, text: &str, has_text: &mut bool) -> bool {
        if text.is_empty() {
            return true;
        }
        if !std::mem::replace(has_text, true) && !self.send("TEXT_MESSAGE_START", json!({ "messageId": self.message, "role": "assistant" })).await {
            return false;
        }
        self.send("TEXT_MESSAGE_CONTENT", json!({ "messageId": self.message, "delta": text })).await
    }

    async fn call(&self, id: &str, tool: &str, arguments: &str) -> bool {
        self.send("TOOL_CALL_START", json!({ "toolCallId": id, "toolCallName": tool })).await
            && self.send("TOOL_CALL_ARGS", json!({ "toolCallId": id, "delta": arguments })).await
            && self.send("TOOL_CALL_END", json!({ "toolCallId": id })).await
    }

    async fn write_outcome(&self, begun: &StartedTurn, rest: TurnOutcome, events: &Events, mut has_text: bool) -> bool {
        let finished = |outcome: Value| json!({ "threadId": self.thread, "runId": self.run, "outcome": outcome });
        match rest {
            TurnOutcome::Answered(answered) => {
                let calls = call_list(begun.run.as_str(), &answered.output);
                if calls.is_empty() && !self.text(&events.missing(&answered.text), &mut has_text).await {
                    return false;
                }
                if has_text && !self.send("TEXT_MESSAGE_END", json!({ "messageId": self.message })).await {
                    return false;
                }
                let mut pending = Vec::new();
                for (id, name, arguments) in calls {
                    if !self.call(&id, &name, &arguments).await {
                        return false;
                    }
                    pending.push(id);
                }
                if !answered.sources.is_empty() {
                    let delta = json!([{ "op": "replace", "path": "/sources", "value": answered.sources }]);
                    if !self.send("STATE_DELTA", json!({ "delta": delta })).await {
                        return false;
                    }
                }
                let outcome =
                    if pending.is_empty() { json!({ "type": "success" }) } else { json!({ "type": "success", "pendingToolCallIds": pending }) };
                let mut fields = finished(outcome);
                fields["result"] = json!({ "answer": answered.text });
                self.send("RUN_FINISHED", fields).await
            }
            TurnOutcome::Question(asks) => {
                let question = &asks.waiting.question;
                let is_choice =
                    question.schema.as_ref().is_some_and(|schema| ["approve", "allow"].iter().any(|name| schema["properties"].get(*name).is_some()));
                let reason = if is_choice { "confirmation" } else { "input_required" };
                let mut interrupt = json!({ "id": begun.run, "reason": reason, "message": question.prompt });
                if let Some(schema) = &question.schema {
                    interrupt["responseSchema"] = schema.clone();
                }
                self.send("RUN_FINISHED", finished(json!({ "type": "interrupt", "interrupts": [interrupt] }))).await
            }
            TurnOutcome::Cancelled(_) => self.send("RUN_FINISHED", finished(json!({ "type": "cancelled" }))).await,
            TurnOutcome::Failed(why) => self.send("RUN_ERROR", json!({ "message": why, "code": "run_failed" })).await,
        }
    }
}

//! `POST /v1/chat/completions`

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use graph::Usage;
use serde_json::{Value, json};
use wire::openai::{ChatRequest, StreamOptions, chat_conversation};

use super::{Form, OpenAi, asks, ended_badly, error_body, object, turn_of};
use crate::api::Api;
use crate::api::params::JsonBody;
use crate::guard::{Identity, now_ms};
use crate::problem::Problem;
use crate::turn::{self, Sink, StartedTurn, TurnEvent, TurnHeaders, TurnOutcome};

pub(super) async fn create(
    State(openai): State<OpenAi>,
    Extension(who): Extension<Identity>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<ChatRequest>,
) -> Result<Response, Problem> {
    let api = &openai.api;
    let terms = TurnHeaders::of(&headers)?;
    check(&request)?;
    turn::must_know(api, &request.model)?;
    let form = Form::of(request.tools.as_deref(), request.tool_choice.as_ref(), "response_format", request.response_format.as_ref())?;
    let mut conversation = chat_conversation(&request.messages)?;
    if conversation.question.trim().is_empty() {
        return Err(Problem::bad_request("messages: the user's last message is empty; say what you want to know"));
    }
    let is_streamed = request.stream == Some(true);
    let asking = asks::run_of(&conversation.history);
    asks::without(&mut conversation.history);
    let open = match &asking {
        // A question that was answered through another protocol is part of the conversation like any other message.
        Some(run) => turn::open_question(api, &who, run).await.ok(),
        None => None,
    };
    let head = |run: &str| Head { id: format!("chatcmpl-{run}"), created_s: now_ms() / 1_000, model: request.model.clone() };
    let begun = match open {
        Some((row, asks)) => match turn::answer_value(&conversation.question, &asks.waiting) {
            Ok(value) => turn::give(api, &who, row, &asks, value, is_streamed).await?,
            // What is no answer is asked again, as a person would.
            Err(_) => turn::found(api, &who, row, is_streamed).await?,
        },
        None => {
            let wrapper = (!form.is_plain()).then(|| form.wrapper(Value::Null));
            let turn = turn_of(&request.model, conversation, request.baton.clone(), wrapper);
            turn::begin(api, &who, "openai", &terms, turn, is_streamed).await?
        }
    };
    let head = head(begun.run.as_str());
    if is_streamed {
        let (sink, response) = turn::channel(api, &who)?;
        // A client that closes its stream wants no more of it, unless it may ask again by its key.
        let teller = StreamWriter { api: api.clone(), head, form, sink, usage: request.stream_options, stops: !terms.has_key() };
        tokio::spawn(teller.write(begun));
        return Ok(response);
    }
    let rest = turn::outcome(api, &begun.run).await?;
    if let Some(problem) = ended_badly(&rest) {
        return Err(problem);
    }
    let done = FinishedChoice::of(&rest, begun.run.as_str());
    if let TurnOutcome::Answered(answered) = &rest {
        form.check(&answered.output)?;
    }
    let mut message = json!({ "role": "assistant", "content": done.content, "refusal": null, "annotations": done.annotations });
    if !done.calls.is_empty() {
        message["tool_calls"] = json!(done.calls);
    }
    let choice = json!({ "index": 0, "message": message, "logprobs": null, "finish_reason": done.finish });
    let mut body = head.object("chat.completion", &json!([choice]));
    body["usage"] = object::chat_usage(done.usage);
    body["baton"] = baton(&begun, &rest);
    Ok((StatusCode::OK, Json(body)).into_response())
}

/// What OpenAI's clients may ask for and flows do not do is refused rather than left out.
fn check(request: &ChatRequest) -> Result<(), Problem> {
    let refused = |field: &str, why: &str| Err(Problem::bad_request(format!("{field}: {why}")));
    if request.n.is_some_and(|n| n != 1) {
        return refused("n", "a run gives one answer; leave it out or send 1");
    }
    if request.logprobs == Some(true) {
        return refused("logprobs", "a flow's answer has none");
    }
    if request.modalities.iter().flatten().any(|kind| kind != "text") {
        return refused("modalities", "flows answer with text");
    }
    if request.functions.as_ref().is_some_and(|functions| !functions.is_null()) {
        return refused("functions", "send them as tools");
    }
    Ok(())
}

/// The run behind an answer, for programs that support Baton.
pub(super) fn baton(begun: &StartedTurn, rest: &TurnOutcome) -> Value {
    let mut about = json!({ "run": begun.run, "thread": begun.thread });
    if let TurnOutcome::Question(asks) = rest {
        about["asks"] = json!({ "run": asks.run, "task": asks.waiting.task, "question": asks.waiting.question });
    }
    about
}

struct Head {
    id: String,
    created_s: i64,
    model: String,
}

impl Head {
    fn object(&self, kind: &str, choices: &Value) -> Value {
        json!({ "id": self.id, "object": kind, "created": self.created_s, "model": self.model, "choices": choices })
    }
}

/// How a run came to rest, as a choice.
struct FinishedChoice {
    content: Option<String>,
    annotations: Vec<Value>,
    calls: Vec<Value>,
    finish: &'static str,
    usage: Usage,
}

impl FinishedChoice {
    fn of(rest: &TurnOutcome, run: &str) -> FinishedChoice {
        let plain = |content: String| FinishedChoice {
            content: Some(content),
            annotations: Vec::new(),
            calls: Vec::new(),
            finish: "stop",
            usage: Usage::default(),
        };
        match rest {
            TurnOutcome::Question(asks) => plain(asks::message(asks, Some(run))),
            TurnOutcome::Answered(answered) => {
                let calls = object::chat_calls(run, &answered.output);
                if !calls.is_empty() {
                    return FinishedChoice { content: None, annotations: Vec::new(), calls, finish: "tool_calls", usage: answered.usage };
                }
                FinishedChoice { annotations: object::chat_annotations(answered), usage: answered.usage, ..plain(answered.text.clone()) }
            }
            TurnOutcome::Failed(why) | TurnOutcome::Cancelled(why) => plain(why.clone()),
        }
    }
}

/// Sends a run as chunks.
struct StreamWriter {
    api: Api,
    head: Head,
    form: Form,
    sink: Sink,
    usage: Option<StreamOptions>,
    /// The run is stopped when the client disconnects.
    stops: bool,
}

impl StreamWriter {
    fn wants_usage(&self) -> bool {
        self.usage.is_some_and(|usage| usage.include_usage == Some(true))
    }

    async fn chunk(&self, delta: Value, finish: Option<&str>) -> bool {
        let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish });
        let mut chunk = self.head.object("chat.completion.chunk", &json!([choice]));
        if self.wants_usage() {
            chunk["usage"] = Value::Null;
        }
        self.sink.send(format!("data: {chunk}\n\n")).await
    }

    async fn write(self, mut begun: StartedTurn) {
        let is_sent = self.write_chunks(&mut begun).await;
        if !is_sent && self.stops {
            // One that is over by now is not stopped.
            let _ = self.api.0.engine.cancel(&begun.run, "the client closed its stream").await;
        }
    }

    /// Whether the client received everything.
    async fn write_chunks(&self, begun: &mut StartedTurn) -> bool {
        if !self.chunk(json!({ "role": "assistant", "content": "" }), None).await {
            return false;
        }
        let Some(mut events) = begun.events() else { return true };
        loop {
            let happened = tokio::select! {
                happened = events.next() => happened,
                () = self.sink.closed() => return false,
            };
            match happened {
                // Text that is fitted into a schema is sent once it fits.
                Some(TurnEvent::Text(text)) if self.form.schema.is_none() => {
                    if !self.chunk(json!({ "content": text }), None).await {
                        return false;
                    }
                }
                Some(_) => {}
                None => break,
            }
        }
        let rest = match turn::outcome(&self.api, &begun.run).await {
            Ok(rest) => rest,
            Err(problem) => return self.fail(&problem).await,
        };
        let unfit = match &rest {
            TurnOutcome::Answered(answered) => self.form.check(&answered.output).err(),
            _ => None,
        };
        if let Some(problem) = unfit.or_else(|| ended_badly(&rest)) {
            return self.fail(&problem).await;
        }
        let done = FinishedChoice::of(&rest, begun.run.as_str());
        let content = done.content.as_deref().unwrap_or_default();
        let missing = if self.form.schema.is_none() { events.missing(content) } else { content.to_owned() };
        if !missing.is_empty() && done.calls.is_empty() && !self.chunk(json!({ "content": missing }), None).await {
            return false;
        }
        if !done.annotations.is_empty() && !self.chunk(json!({ "annotations": done.annotations }), None).await {
            return false;
        }
        if !done.calls.is_empty() && !self.chunk(json!({ "tool_calls": done.calls }), None).await {
            return false;
        }
        if !self.chunk(json!({}), Some(done.finish)).await {
            return false;
        }
        if self.wants_usage() {
            let mut last = self.head.object("chat.completion.chunk", &json!([]));
            last["usage"] = object::chat_usage(done.usage);
            self.sink.send(format!("data: {last}\n\n")).await;
        }
        self.sink.send("data: [DONE]\n\n".to_owned()).await
    }

    async fn fail(&self, problem: &Problem) -> bool {
        let error = json!({ "error": error_body(problem) });
        self.sink.send(format!("data: {error}\n\n")).await;
        true
    }
}

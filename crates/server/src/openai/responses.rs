//! `/v1/responses`: conversations that are kept here. A response is a run of the flow `completion`, whose input holds the request; its id names the run.
//!
//! A run that waits for a person is a completed response whose message is the question; the response that names it as `previous_response_id` answers it and is the
//! same run, so its id has a number behind the run's.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use graph::Entry;
use serde::Deserialize;
use serde_json::{Value, json};
use store::{RunRow, StoreError};
use wire::api::ChatMessage;
use wire::openai::{Conversation, ResponsesRequest, response_conversation};

use super::{Form, OpenAi, asks, ended_badly, error_body, object, turn_of};
use crate::api::Api;
use crate::api::params::{JsonBody, QueryParams};
use crate::guard::{Identity, now_ms};
use crate::problem::{Problem, StatusCode};
use crate::turn::{self, StartedTurn, TurnEvent, TurnHeaders, TurnOutcome};

const PREFIX: &str = "resp_";
const WRAPPER: &str = "completion";

pub(super) async fn create(
    State(openai): State<OpenAi>,
    Extension(who): Extension<Identity>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<ResponsesRequest>,
) -> Result<Response, Problem> {
    let api = &openai.api;
    let terms = TurnHeaders::of(&headers)?;
    check(&request)?;
    let previous = match &request.previous_response_id {
        Some(id) => Some(Previous::of(api, &who, id).await?),
        None => None,
    };
    let known = previous.as_ref().map(Previous::calls).unwrap_or_default();
    let input = request.input.clone().ok_or_else(|| Problem::bad_request("input: it is a text or a list of items"))?;
    let conversation = response_conversation(&input, &known)?;
    let (is_streamed, is_background) = (request.stream == Some(true), request.background == Some(true));
    let (id, begun) = match previous {
        Some(Previous { row, rest: Some(TurnOutcome::Question(asks)), .. }) => {
            let text = conversation.question.trim().to_owned();
            // Each question of a run is at another place of it.
            let (step, index): (u64, u32) = asks.waiting.task.into();
            let id = format!("{PREFIX}{}_{step}_{index}_{}", row.run, asks.waiting.attempt);
            (id, turn::answer(api, &who, row.run.as_str(), &text, is_streamed).await?)
        }
        previous => {
            let turn = continued(api, &request, previous, conversation)?;
            let begun = turn::begin(api, &who, "responses", &terms, turn, is_streamed).await?;
            (format!("{PREFIX}{}", begun.run), begun)
        }
    };
    if is_streamed {
        return stream(&openai, &who, &id, begun, None);
    }
    if !is_background {
        turn::outcome(api, &begun.run).await?;
    }
    let row = api.run(&who, begun.run.as_str()).await?;
    let (response, rest) = object(api, &id, &row).await?;
    if let Some(problem) = rest.as_ref().and_then(ended_badly).filter(|_| !is_background) {
        return Err(problem);
    }
    if request.store == Some(false) {
        forget(&openai, &id, &row).await?;
    }
    Ok(Json(response).into_response())
}

fn check(request: &ResponsesRequest) -> Result<(), Problem> {
    if request.conversation.as_ref().is_some_and(|given| !given.is_null()) {
        return Err(Problem::bad_request("conversation: there are none here; continue with previous_response_id"));
    }
    if request.background == Some(true) && request.store == Some(false) {
        return Err(Problem::bad_request("store: a response in the background is stored; leave store out"));
    }
    if request.stream == Some(true) && request.store == Some(false) {
        return Err(Problem::bad_request("store: a streamed response is stored, so that a client can come back to it; leave store out"));
    }
    Ok(())
}

/// What is to be started: the conversation so far, and the request as it is repeated later.
fn continued(api: &Api, request: &ResponsesRequest, previous: Option<Previous>, mut conversation: Conversation) -> Result<turn::Turn, Problem> {
    let model = request.model.clone().or_else(|| previous.as_ref().map(|previous| previous.model()));
    let model = model.filter(|model| !model.is_empty()).ok_or_else(|| Problem::bad_request("model: name a flow; GET /v1/models lists them"))?;
    turn::must_know(api, &model)?;
    let format = request.text.as_ref().and_then(|text| text.get("format"));
    let form = Form::of(request.tools.as_deref(), request.tool_choice.as_ref(), "text.format", format)?;
    if let Some(previous) = previous {
        if let Some(problem) = previous.unfinished() {
            return Err(problem);
        }
        let (mut history, question) = previous.conversation();
        match conversation.question.is_empty() {
            // Results of functions go with the question they were called for.
            true => conversation.question = question,
            false => history.extend([chat_message("user", question), chat_message("assistant", previous.answer())]),
        }
        history.append(&mut conversation.history);
        conversation.history = history;
        conversation.is_tainted = true;
    }
    if conversation.question.trim().is_empty() {
        return Err(Problem::bad_request("input: it is empty; say what you want to know"));
    }
    let instructions = [request.instructions.as_deref().unwrap_or_default(), &conversation.instructions].join("\n");
    let kept = json!({
        "created_at": now_ms() / 1_000,
        "model": model,
        "instructions": request.instructions,
        "previous_response_id": request.previous_response_id,
        "metadata": request.metadata.clone().unwrap_or_default(),
        "tools": request.tools.clone().unwrap_or_default(),
        "tool_choice": request.tool_choice.clone().unwrap_or_else(|| json!("auto")),
        "text": request.text.clone().unwrap_or_else(|| json!({ "format": { "type": "text" } })),
        "background": request.background == Some(true),
        "store": request.store != Some(false),
        "question": conversation.question,
        "history": conversation.history,
    });
    let conversation = Conversation { instructions: instructions.trim().to_owned(), ..conversation };
    Ok(turn_of(&model, conversation, request.baton.clone(), Some(form.wrapper(kept))))
}

fn chat_message(role: &str, content: String) -> ChatMessage {
    ChatMessage { role: role.to_owned(), content }
}

/// The response before this one.
struct Previous {
    row: RunRow,
    /// What it was started with.
    request: Value,
    rest: Option<TurnOutcome>,
}

impl Previous {
    async fn of(api: &Api, who: &Identity, id: &str) -> Result<Previous, Problem> {
        let missing = || Problem::new(StatusCode::NOT_FOUND, "previous_response_not_found", format!("there is no response {id:?}"));
        let row = find(api, who, id).await.map_err(|problem| if problem.status == StatusCode::NOT_FOUND { missing() } else { problem })?;
        let request = request_of(api, &row).await?;
        let rest = outcome_of(api, &row).await?;
        Ok(Previous { row, request, rest })
    }

    fn unfinished(&self) -> Option<Problem> {
        match &self.rest {
            None => Some(Problem::conflict(format!("the response {PREFIX}{} is still being made; wait until it is completed", self.row.run))),
            Some(rest) => ended_badly(rest),
        }
    }

    fn model(&self) -> String {
        self.request["model"].as_str().unwrap_or_default().to_owned()
    }

    fn conversation(&self) -> (Vec<ChatMessage>, String) {
        let history = serde_json::from_value(self.request["history"].clone()).unwrap_or_default();
        (history, self.request["question"].as_str().unwrap_or_default().to_owned())
    }

    fn answer(&self) -> String {
        match &self.rest {
            Some(TurnOutcome::Answered(answered)) => answered.text.clone(),
            _ => String::new(),
        }
    }

    fn calls(&self) -> Vec<(String, String)> {
        let Some(TurnOutcome::Answered(answered)) = &self.rest else { return Vec::new() };
        let calls = object::calls(self.row.run.as_str(), &answered.output);
        calls.into_iter().map(|(id, name, arguments)| (id, format!("{name}({arguments})"))).collect()
    }
}

/// The run of a response of this user's.
async fn find(api: &Api, who: &Identity, id: &str) -> Result<RunRow, Problem> {
    let missing = || Problem::new(StatusCode::NOT_FOUND, "not_found", format!("there is no response {id:?}"));
    let run = id.strip_prefix(PREFIX).and_then(|rest| rest.split('_').next()).ok_or_else(missing)?;
    let row = api.run(who, run).await.map_err(|problem| if problem.status == StatusCode::NOT_FOUND { missing() } else { problem })?;
    if row.flow == WRAPPER { Ok(row) } else { Err(missing()) }
}

/// The request that a run was started with.
async fn request_of(api: &Api, row: &RunRow) -> Result<Value, Problem> {
    let first = api.0.engine.store().journal(&row.run, 0, 1).await?.pop();
    match first.and_then(|line| Entry::decode(&line.bytes).ok()) {
        Some(Entry::Started(start)) => Ok(start.input.get("request").cloned().unwrap_or_default()),
        _ => Err(Problem::internal(&format!("the journal of {} does not begin with its start", row.run))),
    }
}

/// How it rests; `None` while it goes.
async fn outcome_of(api: &Api, row: &RunRow) -> Result<Option<TurnOutcome>, Problem> {
    match row.status {
        store::Status::Running => Ok(None),
        _ => turn::outcome(api, &row.run).await.map(Some),
    }
}

/// The response as it is now.
async fn object(api: &Api, id: &str, row: &RunRow) -> Result<(Value, Option<TurnOutcome>), Problem> {
    let (request, rest) = (request_of(api, row).await?, outcome_of(api, row).await?);
    Ok((whole(id, row, &request, rest.as_ref()), rest))
}

fn whole(id: &str, row: &RunRow, request: &Value, rest: Option<&TurnOutcome>) -> Value {
    let (status, error) = match rest {
        None => ("in_progress", Value::Null),
        Some(TurnOutcome::Answered(_) | TurnOutcome::Question(_)) => ("completed", Value::Null),
        Some(TurnOutcome::Cancelled(_)) => ("cancelled", Value::Null),
        Some(failed @ TurnOutcome::Failed(_)) => {
            let body = ended_badly(failed).map(|problem| error_body(&problem)).unwrap_or_default();
            ("failed", json!({ "code": body["code"], "message": body["message"] }))
        }
    };
    let usage = match rest {
        Some(TurnOutcome::Answered(answered)) => object::response_usage(answered.usage),
        _ => Value::Null,
    };
    let mut about = json!({ "run": row.run, "thread": row.thread });
    if let Some(TurnOutcome::Question(asks)) = rest {
        about["asks"] = json!({ "run": asks.run, "task": asks.waiting.task, "question": asks.waiting.question });
    }
    json!({
        "id": id,
        "object": "response",
        "created_at": request["created_at"],
        "status": status,
        "background": request["background"],
        "error": error,
        "incomplete_details": null,
        "instructions": request["instructions"],
        "metadata": request["metadata"],
        "model": request["model"],
        "output": rest.map(|rest| items(row.run.as_str(), rest)).unwrap_or_default(),
        "parallel_tool_calls": true,
        "previous_response_id": request["previous_response_id"],
        "store": request["store"],
        "temperature": null,
        "text": request["text"],
        "tool_choice": request["tool_choice"],
        "tools": request["tools"],
        "top_p": null,
        "usage": usage,
        "baton": about,
    })
}

fn message_item(run: &str, text: &str, annotations: &[Value]) -> Value {
    let part = json!({ "type": "output_text", "text": text, "annotations": annotations, "logprobs": [] });
    json!({ "type": "message", "id": format!("msg_{run}"), "status": "completed", "role": "assistant", "content": [part] })
}

fn items(run: &str, rest: &TurnOutcome) -> Vec<Value> {
    match rest {
        TurnOutcome::Question(asks) => vec![message_item(run, &asks::message(asks, None), &[])],
        TurnOutcome::Failed(_) | TurnOutcome::Cancelled(_) => Vec::new(),
        TurnOutcome::Answered(answered) => {
            let calls = object::calls(run, &answered.output);
            if calls.is_empty() {
                return vec![message_item(run, &answered.text, &object::response_annotations(answered))];
            }
            let item = |(at, (call_id, name, arguments)): (usize, (String, String, String))| json!({ "type": "function_call", "id": format!("fc_{run}_{at}"), "call_id": call_id, "name": name, "arguments": arguments, "status": "completed" });
            calls.into_iter().enumerate().map(item).collect()
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Show {
    stream: Option<bool>,
    starting_after: Option<u64>,
}

pub(super) async fn show(
    State(openai): State<OpenAi>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    QueryParams(asked): QueryParams<Show>,
) -> Result<Response, Problem> {
    let row = find(&openai.api, &who, &id).await?;
    if asked.stream == Some(true) {
        let begun = turn::found(&openai.api, &who, row, false).await?;
        return stream(&openai, &who, &id, begun, asked.starting_after);
    }
    Ok(Json(object(&openai.api, &id, &row).await?.0).into_response())
}

pub(super) async fn cancel(
    State(openai): State<OpenAi>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let api = &openai.api;
    let row = find(api, &who, &id).await?;
    match api.0.engine.cancel(&row.run, "cancelled by the client").await {
        // One that is over stays as it ended.
        Ok(_) | Err(engine::EngineError::Over { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let _ = tokio::time::timeout(CANCELLED_WITHIN, api.0.engine.wait(&row.run)).await;
    let row = find(api, &who, &id).await?;
    Ok(Json(object(api, &id, &row).await?.0))
}

/// A run that another process drives gets a signal and ends there.
const CANCELLED_WITHIN: std::time::Duration = std::time::Duration::from_secs(5);

pub(super) async fn remove(
    State(openai): State<OpenAi>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let row = find(&openai.api, &who, &id).await?;
    forget(&openai, &id, &row).await?;
    Ok(Json(json!({ "id": id, "object": "response", "deleted": true })))
}

async fn forget(openai: &OpenAi, id: &str, row: &RunRow) -> Result<(), Problem> {
    openai.streams.forget(id);
    // A run that has just ended gives its thread back a moment later.
    for _ in 0..LOOKS_MAX {
        match openai.api.0.engine.store().delete_thread(&row.thread, now_ms()).await {
            Ok(_) => return Ok(()),
            Err(StoreError::Held { .. }) => tokio::time::sleep(LOOK_AGAIN).await,
            Err(error) => return Err(error.into()),
        }
    }
    Err(Problem::conflict("the response is still being made; cancel it first"))
}

const LOOKS_MAX: u32 = 20;
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(50);

pub(super) async fn input_items(
    State(openai): State<OpenAi>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let row = find(&openai.api, &who, &id).await?;
    let request = request_of(&openai.api, &row).await?;
    let item = format!("msg_{}_input", row.run);
    let content = json!([{ "type": "input_text", "text": request["question"] }]);
    let data = json!([{ "type": "message", "id": item, "status": "completed", "role": "user", "content": content }]);
    Ok(Json(json!({ "object": "list", "data": data, "first_id": item, "last_id": item, "has_more": false })))
}

/// Streams the events of a response; the first reader starts the writer.
fn stream(openai: &OpenAi, who: &Identity, id: &str, begun: StartedTurn, after: Option<u64>) -> Result<Response, Problem> {
    let (sink, response) = turn::channel(&openai.api, who)?;
    let (log, is_new) = openai.streams.log(id);
    if is_new {
        let (openai, who, id, log) = (openai.clone(), who.clone(), id.to_owned(), log.clone());
        tokio::spawn(async move {
            if let Err(problem) = write(&openai, &who, &id, begun, &log).await {
                log.push("error", json!({ "code": problem.kind, "message": problem.message, "param": null }));
                // The next client may have more luck.
                openai.streams.forget(&id);
            }
            log.end();
        });
    }
    tokio::spawn(async move { log.read(after, &sink).await });
    Ok(response)
}

async fn write(openai: &OpenAi, who: &Identity, id: &str, mut begun: StartedTurn, log: &super::stored::Log) -> Result<(), Problem> {
    let api = &openai.api;
    let row = api.run(who, begun.run.as_str()).await?;
    let request = request_of(api, &row).await?;
    let run = row.run.as_str().to_owned();
    let has_form = !matches!(request["text"]["format"]["type"].as_str(), None | Some("text"));
    let started = json!({ "response": whole(id, &row, &request, None) });
    log.push("response.created", started.clone());
    log.push("response.in_progress", started);
    let item = json!({ "type": "message", "id": format!("msg_{run}"), "status": "in_progress", "role": "assistant", "content": [] });
    let at = json!({ "item_id": format!("msg_{run}"), "output_index": 0, "content_index": 0 });
    let with = |mut fields: Value, name: &str, value: Value| {
        fields[name] = value;
        fields
    };
    let empty = json!({ "type": "output_text", "text": "", "annotations": [], "logprobs": [] });
    let open = || {
        log.push("response.output_item.added", json!({ "output_index": 0, "item": item }));
        log.push("response.content_part.added", with(at.clone(), "part", empty.clone()));
    };
    let mut is_open = false;
    let piece = |text: &str| {
        if !text.is_empty() && log.takes(text) {
            log.push("response.output_text.delta", with(with(at.clone(), "delta", json!(text)), "logprobs", json!([])));
        }
    };
    // One that was begun for this stream is watched from its start; another one from here on, after what its journal has.
    let events = match begun.events() {
        Some(events) => Some(events),
        None => turn::found(api, who, row, true).await?.events(),
    };
    let mut events = events.ok_or_else(|| Problem::internal(&"the run is not watched"))?;
    while let Some(happened) = events.next().await {
        if let TurnEvent::Text(text) = happened
            && !has_form
        {
            if !std::mem::replace(&mut is_open, true) {
                open();
            }
            piece(&text);
        }
    }
    let rest = turn::outcome(api, &begun.run).await?;
    let row = api.run(who, &run).await?;
    let response = whole(id, &row, &request, Some(&rest));
    for (index, item) in items(&run, &rest).into_iter().enumerate() {
        if item["type"] == "function_call" {
            let of = json!({ "item_id": item["id"], "output_index": index });
            let begun = with(with(item.clone(), "arguments", json!("")), "status", json!("in_progress"));
            log.push("response.output_item.added", json!({ "output_index": index, "item": begun }));
            log.push("response.function_call_arguments.delta", with(of.clone(), "delta", item["arguments"].clone()));
            log.push("response.function_call_arguments.done", with(with(of, "arguments", item["arguments"].clone()), "name", item["name"].clone()));
        } else {
            if !is_open {
                open();
            }
            let part = &item["content"][0];
            let text = part["text"].as_str().unwrap_or_default();
            piece(&if has_form { text.to_owned() } else { events.missing(text) });
            for (number, annotation) in part["annotations"].as_array().into_iter().flatten().enumerate() {
                let added = with(with(at.clone(), "annotation_index", json!(number)), "annotation", annotation.clone());
                log.push("response.output_text.annotation.added", added);
            }
            log.push("response.output_text.done", with(with(at.clone(), "text", json!(text)), "logprobs", json!([])));
            log.push("response.content_part.done", with(at.clone(), "part", part.clone()));
        }
        log.push("response.output_item.done", json!({ "output_index": index, "item": item }));
    }
    let kind = if matches!(rest, TurnOutcome::Failed(_) | TurnOutcome::Cancelled(_)) { "response.failed" } else { "response.completed" };
    log.push(kind, json!({ "response": response }));
    Ok(())
}

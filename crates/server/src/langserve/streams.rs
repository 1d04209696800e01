//! LangServe's three streams of a run.
//!
//! `/stream` sends an update for each step that noted something, `{node: {…}}`, and last the whole of what came of it under the flow's name; `/stream_log` the same as
//! JSON Patch; `/stream_events` as events, with the words of models as they come. A stream ends when its client disconnects; its run continues.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use engine::{Engine, FeedItem};
use futures::stream;
use graph::{Event, RunId};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tracing::Instrument as _;
use wire::langserve::{Filter, Invoke, Op, Patch, StreamError, StreamEventItem};

use super::{Call, Caller, RawJson, Refused, RequestShape, RunConfig, Service, StreamRequest, outcome, read, state, uuid_of};
use crate::api::runs::hold;

/// Events that may be queued for a client; beyond that the stream waits, and the run does not.
const BEHIND_MAX: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Updates,
    Log,
    Events,
}

type StreamResponse = Result<Response, Refused>;

pub(super) async fn stream(State(service): State<Service>, Path(path): Path<String>, caller: Caller, RawJson(body): RawJson) -> StreamResponse {
    let watching = read::<Invoke>(&body).map(|Invoke { input, config, .. }| StreamRequest { input, config, filter: Filter::default() });
    begin(service, &path, &caller, watching?, Form::Updates).await
}

pub(super) async fn stream_log(State(service): State<Service>, Path(path): Path<String>, caller: Caller, RawJson(body): RawJson) -> StreamResponse {
    begin(service, &path, &caller, read(&body)?, Form::Log).await
}

pub(super) async fn stream_events(
    State(service): State<Service>,
    Path(path): Path<String>,
    caller: Caller,
    RawJson(body): RawJson,
) -> StreamResponse {
    begin(service, &path, &caller, read(&body)?, Form::Events).await
}

async fn begin(service: Service, path: &str, caller: &Caller, watching: StreamRequest, form: Form) -> StreamResponse {
    let StreamRequest { input, config, filter } = watching;
    let shown = input.clone();
    let served = service.served(path)?;
    let run_config = RunConfig::of(&service, served, caller, &config).await?;
    let call = Call::of(&service, served, caller, input, &run_config, None)?;
    // Refused before the stream starts, while a status can be sent.
    let open = match &service.0.api {
        Some(api) => Some((api.0.quota.stream(&caller.who.user)?, api.0.metrics.stream_opened())),
        None => None,
    };
    let place = service.place(&call).await?;
    let (to, from) = mpsc::channel::<Bytes>(BEHIND_MAX);
    let tags = config.tags.unwrap_or_default();
    let writer = StreamWriter { to, form, filter, tags, name: format!("/{path}"), input: shown, run: RunId::from(""), nodes: Nodes::default() };
    tokio::spawn(write(service, call, place, writer).in_current_span());
    let bytes =
        stream::unfold((from, open), |(mut from, open)| async move { from.recv().await.map(|bytes| (Ok::<_, Infallible>(bytes), (from, open))) });
    let mut response = Response::new(Body::from_stream(bytes));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

async fn write(service: Service, mut call: Call, place: Option<OwnedSemaphorePermit>, mut writer: StreamWriter) {
    let engine = &service.0.engine;
    let mut order = call.take_order();
    let Call { shape, answers, .. } = call;
    // Subscribed before the run is started, so that no event is missed.
    let run = order.run.get_or_insert_with(engine::new_run_id).clone();
    let mut watcher = engine.watch(&run, 0);
    let (flow, user) = (order.flow.clone(), order.context.user.clone());
    let started = match answers.as_slice() {
        [] => engine.start(order).await.map_err(Refused::of),
        answers => state::answer(engine, &user, &flow, answers).await,
    };
    let run = match started {
        Ok(run) => run,
        Err(refused) => return writer.fail(refused.status.as_u16(), refused.message()).await,
    };
    if let Some(place) = place {
        // Even if the client disconnects early.
        hold(engine, &run, place);
    }
    writer.run = run.clone();
    if answers.is_empty() {
        if !writer.began(&flow).await {
            return;
        }
        loop {
            let seen = tokio::select! {
                seen = watcher.next() => seen,
                // A parked run publishes nothing until it is answered.
                () = parked(engine, &run) => None,
            };
            let is_sent = match seen {
                Some(Ok(seen)) => writer.see(&seen).await,
                Some(Err(error)) => return writer.fail(500, error.to_string()).await,
                None => break,
            };
            if !is_sent {
                return;
            }
        }
    }
    finish(engine, &run, &shape, &flow, writer).await;
}

/// Resolves when the run waits for a person.
async fn parked(engine: &Engine, run: &RunId) {
    match engine.wait(run).await {
        Ok(engine::RunState::Parked(_)) => {}
        // It has ended, which the watcher reports.
        _ => std::future::pending().await,
    }
}

async fn finish(engine: &Engine, run: &RunId, shape: &RequestShape, flow: &str, writer: StreamWriter) {
    let at = match engine.wait(run).await {
        Ok(at) => at,
        Err(error) => return writer.fail(500, error.to_string()).await,
    };
    match outcome(engine, run, at, shape).await {
        Ok(output) => writer.ended(flow, &output).await,
        Err(refused) => writer.fail(refused.status.as_u16(), refused.message()).await,
    }
}

/// The current node of a run and its notes.
#[derive(Default)]
struct Nodes {
    step: u64,
    noted: Map<String, Value>,
}

struct StreamWriter {
    to: mpsc::Sender<Bytes>,
    form: Form,
    filter: Filter,
    tags: Vec<String>,
    name: String,
    input: Value,
    run: RunId,
    nodes: Nodes,
}

const CHAIN: &str = "chain";

impl StreamWriter {
    /// Whether the client is still connected.
    async fn send(&self, event: &str, data: &impl Serialize) -> bool {
        let data = serde_json::to_string(data).unwrap_or_default();
        self.to.send(Bytes::from(format!("event: {event}\r\ndata: {data}\r\n\r\n"))).await.is_ok()
    }

    async fn fail(&self, status_code: u16, message: String) {
        self.send("error", &StreamError { status_code, message }).await;
    }

    fn happening(&self, event: &str, name: &str, data: Value, tags: Vec<String>) -> StreamEventItem {
        let is_root = name == self.name;
        let root = uuid_of(&self.run);
        let run_id = if is_root { root.clone() } else { format!("{root}:{}", self.nodes.step) };
        let mut metadata = Map::new();
        if !is_root {
            metadata.insert("langgraph_step".into(), json!(self.nodes.step + 1));
            metadata.insert("langgraph_node".into(), json!(name));
        }
        let parent_ids = if is_root { Vec::new() } else { vec![root] };
        StreamEventItem { event: event.to_owned(), data, name: name.to_owned(), tags, run_id, metadata, parent_ids }
    }

    async fn began(&self, flow: &str) -> bool {
        let id = uuid_of(&self.run);
        match self.form {
            Form::Updates => self.send("metadata", &json!({ "run_id": id })).await,
            Form::Log => {
                let value = json!({ "id": id, "streamed_output": [], "final_output": null, "logs": {}, "name": self.name, "type": CHAIN });
                self.send("data", &Patch { ops: vec![Op::replace("", value)] }).await
            }
            Form::Events if self.filter.includes(&self.name, CHAIN, &self.tags) => {
                let _ = flow;
                self.send("data", &self.happening("on_chain_start", &self.name, json!({ "input": self.input }), self.tags.clone())).await
            }
            Form::Events => true,
        }
    }

    async fn see(&mut self, seen: &FeedItem) -> bool {
        match seen {
            FeedItem::Event(numbered, _) => match &numbered.event {
                Event::Entered { step, node } => {
                    self.nodes = Nodes { step: *step, noted: Map::new() };
                    self.entered(node).await
                }
                Event::Noted { name, value, .. } => {
                    self.nodes.noted.insert(name.clone(), value.clone());
                    true
                }
                Event::Left { node, .. } => self.left(node).await,
                Event::Started { .. }
                | Event::Asked { .. }
                | Event::Replied { .. }
                | Event::Skipped { .. }
                | Event::Doubted { .. }
                | Event::Held { .. }
                | Event::Said { .. }
                | Event::Edited { .. }
                | Event::Ended { .. } => !self.to.is_closed(),
            },
            FeedItem::Delta { text, .. } if self.form == Form::Events && self.filter.includes("model", "chat_model", &[]) => {
                let mut chunk = wire::langserve::Message::ai(&**text);
                chunk.kind = "AIMessageChunk".to_owned();
                self.send("data", &self.happening("on_chat_model_stream", "model", json!({ "chunk": chunk }), Vec::new())).await
            }
            FeedItem::Delta { .. } => true,
        }
    }

    fn step_tags(&self) -> Vec<String> {
        vec![format!("graph:step:{}", self.nodes.step + 1)]
    }

    async fn entered(&self, node: &str) -> bool {
        let tags = self.step_tags();
        match self.form {
            Form::Updates => true,
            Form::Log if self.filter.includes(node, CHAIN, &tags) => {
                let value = json!({
                    "id": format!("{}:{}", uuid_of(&self.run), self.nodes.step),
                    "name": node,
                    "type": CHAIN,
                    "tags": tags,
                    "metadata": { "langgraph_step": self.nodes.step + 1, "langgraph_node": node },
                    "start_time": null,
                    "streamed_output": [],
                    "streamed_output_str": [],
                    "final_output": null,
                    "end_time": null,
                });
                self.send("data", &Patch { ops: vec![Op::add(self.log(node), value)] }).await
            }
            Form::Events if self.filter.includes(node, CHAIN, &tags) => {
                self.send("data", &self.happening("on_chain_start", node, json!({}), tags)).await
            }
            Form::Log | Form::Events => true,
        }
    }

    async fn left(&mut self, node: &str) -> bool {
        let noted = Value::Object(std::mem::take(&mut self.nodes.noted));
        let has_noted = noted.as_object().is_some_and(|noted| !noted.is_empty());
        let tags = self.step_tags();
        match self.form {
            Form::Updates if has_noted => self.send("data", &json!({ node: noted })).await,
            Form::Log if self.filter.includes(node, CHAIN, &tags) => {
                self.send("data", &Patch { ops: vec![Op::add(format!("{}/final_output", self.log(node)), noted)] }).await
            }
            Form::Events if self.filter.includes(node, CHAIN, &tags) => {
                self.send("data", &self.happening("on_chain_end", node, json!({ "output": noted }), tags)).await
            }
            Form::Updates | Form::Log | Form::Events => true,
        }
    }

    /// Where a node's log is; one that is passed again has another.
    fn log(&self, node: &str) -> String {
        let name = node.replace('~', "~0").replace('/', "~1");
        if self.nodes.step == 0 { format!("/logs/{name}") } else { format!("/logs/{name}:{}", self.nodes.step + 1) }
    }

    async fn ended(&self, flow: &str, output: &Value) {
        let update = json!({ flow: output });
        let is_sent = match self.form {
            Form::Updates => self.send("data", &update).await,
            Form::Log => {
                self.send("data", &Patch { ops: vec![Op::add("/streamed_output/-", update), Op::replace("/final_output", output.clone())] }).await
            }
            Form::Events if self.filter.includes(&self.name, CHAIN, &self.tags) => {
                let streamed = self.happening("on_chain_stream", &self.name, json!({ "chunk": update }), self.tags.clone());
                self.send("data", &streamed).await
                    && self.send("data", &self.happening("on_chain_end", &self.name, json!({ "output": output }), self.tags.clone())).await
            }
            Form::Events => true,
        };
        if is_sent {
            // A client that disconnected has received everything before.
            let _ = self.to.send(Bytes::from_static(b"event: end\r\n\r\n")).await;
        }
    }
}

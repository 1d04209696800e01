//! State and history of a thread, and changing the state.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use engine::History;
use graph::{Event, Outcome};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use store::{RunRow, Status};
use wire::langgraph::Checkpoint;
use wire::langserve::{Message, MessageKind};

use super::ids::CheckpointId;
use super::state::{RunMessage, conversation, fault_of, fresh_edit, output_of, values_of};
use super::threads::{Branch, Thread};
use super::{Answer, LangGraph, Query, calendar, contains, ids, invalid, limit_of, not_found, read_or_default};
use crate::guard::{Identity, now_ms};
use crate::langserve::{Caller, RawJson, Refused, json_of};
use crate::rendering::Renderer;

/// Runs whose steps are looked through for a history.
const RUNS_MAX: usize = 200;
/// Bytes of the states of one run that are made at once; of a run with more, the newest.
const MOMENTS_BYTES_MAX: usize = 16 << 20;
/// A page of a history ends before the state with which it would be longer.
const HISTORY_BYTES_MAX: usize = 8 << 20;
/// Messages a client may put into a thread's state.
const MESSAGES_MAX: usize = 5_000;

pub(super) fn routes() -> Router<LangGraph> {
    Router::new()
        .route("/threads/{thread}/state", get(show).post(update).patch(update))
        .route("/threads/{thread}/state/checkpoint", post(show_by_body))
        .route("/threads/{thread}/state/{checkpoint}", get(show_at))
        .route("/threads/{thread}/history", get(history_by_query).post(history))
}

/// A place in a thread's past, and the conversation there.
pub(super) struct CheckpointState {
    pub(super) id: CheckpointId,
    parent: Option<CheckpointId>,
    pub(super) messages: Vec<Message>,
    values: Map<String, Value>,
    next: Vec<String>,
    tasks: Vec<Value>,
    metadata: Value,
    at_ms: i64,
}

impl CheckpointState {
    fn json(&self, thread: &str) -> Value {
        let checkpoint = |id: &CheckpointId| json!({ "thread_id": thread, "checkpoint_ns": "", "checkpoint_id": id.to_string() });
        let interrupts: Vec<&Value> = self.tasks.iter().filter_map(|task| task["interrupts"].as_array()).flatten().collect();
        json!({
            "values": self.values,
            "next": self.next,
            "tasks": self.tasks,
            "metadata": self.metadata,
            "created_at": calendar::shown(self.at_ms),
            "checkpoint": checkpoint(&self.id),
            "parent_checkpoint": self.parent.as_ref().map(checkpoint),
            "interrupts": interrupts,
            "checkpoint_id": self.id.to_string(),
            "parent_checkpoint_id": self.parent.as_ref().map(ToString::to_string),
        })
    }
}

impl LangGraph {
    /// Where the thread is now.
    async fn now(&self, thread: &Thread) -> Result<Value, Refused> {
        let head = self.head(thread).await?;
        if let Some(head) = head.as_ref().filter(|head| thread.branch().is_none_or(|branch| branch.at_ms <= head.created_ms)) {
            let past = self.moments(thread, head).await?;
            if let Some(last) = past.last() {
                return Ok(last.json(&thread.id));
            }
        }
        Ok(match thread.branch() {
            Some(_) => self.edited(thread, head.as_ref()).await?.json(&thread.id),
            None => json!({
                "values": self.values(thread, None).await?,
                "next": [], "tasks": [], "metadata": {}, "created_at": null, "parent_checkpoint": null, "interrupts": [],
                "checkpoint": { "thread_id": thread.id, "checkpoint_ns": "", "checkpoint_id": null },
                "checkpoint_id": null, "parent_checkpoint_id": null,
            }),
        })
    }

    async fn edited(&self, thread: &Thread, head: Option<&RunRow>) -> Result<CheckpointState, Refused> {
        let branch = thread.branch().cloned().unwrap_or_default();
        let parent = head.map(|head| CheckpointId::End { run: head.run.clone() });
        Ok(CheckpointState {
            id: CheckpointId::Edit(branch.checkpoint),
            parent,
            values: self.values(thread, head).await?,
            messages: self.messages(thread, head).await?,
            next: Vec::new(),
            tasks: Vec::new(),
            metadata: json!({ "source": "update", "thread_id": thread.id }),
            at_ms: branch.at_ms,
        })
    }

    /// The places of a run, oldest first. Each has the whole conversation, so that of a long one only the newest are made.
    pub(super) async fn moments(&self, thread: &Thread, row: &RunRow) -> Result<Vec<CheckpointState>, Refused> {
        let (past, trouble) = History::up_to_error(self.store(), self.engine().flows(), &row.run).await.map_err(Refused::of)?;
        if let Some(error) = trouble.filter(|_| past.events.is_empty()) {
            return Err(Refused::of(error));
        }
        let input_shape = self.input_shape(&row.flow);
        let (before, _) = self.before(thread, &row.run, row.created_ms).await?;
        let input = past.start.as_ref().map(|start| start.input.clone()).unwrap_or_default();
        let more = thread.record.as_ref().map(|record| record.value.values.clone()).unwrap_or_default();
        let interrupts = self.interrupts(Some(row)).await?;
        let (mut run_messages, mut moments): (Vec<RunMessage>, Vec<CheckpointState>) = (Vec::new(), Vec::new());
        let run_id = ids::shown(row.run.as_str());
        let graph_id = &row.flow;
        let moment = |id: CheckpointId,
                      run_messages: &[RunMessage],
                      output: Option<&Value>,
                      next: Vec<String>,
                      step: Value,
                      at_ms: i64,
                      moments: &[CheckpointState]| {
            let messages = conversation(&row.run, input_shape, &before, &input, run_messages, output);
            CheckpointState {
                parent: moments.last().map(|moment| moment.id.clone()),
                values: values_of(input_shape, &messages, output, &more),
                tasks: next.iter().map(|node| task(&row.run, &id, node)).collect(),
                metadata: json!({ "source": "loop", "step": step, "run_id": run_id, "thread_id": thread.id, "graph_id": graph_id }),
                messages,
                next,
                id,
                at_ms,
            }
        };
        let message_bytes: usize =
            past.events.iter().map(|numbered| if let Event::Said { content, .. } = &numbered.event { content.len() } else { 0 }).sum();
        // Values have the messages too.
        let bytes_each = 2 * (json_bytes(&before) + json_bytes(&input) + message_bytes) + json_bytes(&more);
        let entered = past.events.iter().filter(|numbered| matches!(numbered.event, Event::Entered { .. })).count();
        let mut left_out = entered.saturating_sub((MOMENTS_BYTES_MAX / bytes_each.max(1)).max(1));
        let times = past.published_ms.iter().copied().chain(std::iter::repeat(row.updated_ms));
        for (numbered, at_ms) in past.events.iter().zip(times) {
            match &numbered.event {
                Event::Entered { .. } if left_out > 0 => left_out -= 1,
                Event::Entered { step, node } => {
                    let id = CheckpointId::Step { run: row.run.clone(), step: *step };
                    let next = moment(id, &run_messages, None, vec![node.to_string()], json!(step), at_ms, &moments);
                    moments.push(next);
                }
                Event::Said { role, content } => run_messages.push(RunMessage { role: role.clone(), content: content.clone() }),
                _ => {}
            }
        }
        if row.status.is_over() {
            let output = output_of(row);
            let failed = matches!(row.status, Status::Failed | Status::Cancelled);
            let next = if failed { past.node.iter().cloned().collect() } else { Vec::new() };
            let id = CheckpointId::End { run: row.run.clone() };
            let mut last = moment(id, &run_messages, output.as_ref(), next, json!(past.step + 1), row.updated_ms, &moments);
            if let (Some((kind, message)), Some(task)) = (fault_of(row), last.tasks.first_mut()) {
                task["error"] = json!(format!("{kind}({message:?})"));
            }
            moments.push(last);
        } else if let Some(last) = moments.last_mut()
            && let Some(task) = last.tasks.first_mut()
        {
            task["interrupts"] = json!(interrupts);
        }
        Ok(moments)
    }

    /// The place that a client names.
    pub(super) async fn moment_at(&self, thread: &Thread, id: &str) -> Result<CheckpointState, Refused> {
        let missing = || not_found("Checkpoint", id);
        let wanted = CheckpointId::parse(id).ok_or_else(missing)?;
        let run = match &wanted {
            CheckpointId::Step { run, .. } | CheckpointId::End { run } => run.clone(),
            CheckpointId::Edit(edit) => {
                let head = self.head(thread).await?;
                let is_it = thread.branch().is_some_and(|branch| branch.checkpoint == *edit);
                return if is_it { self.edited(thread, head.as_ref()).await } else { Err(missing()) };
            }
        };
        let row = self.run_in(thread, run.as_str()).await.map_err(|_| missing())?;
        self.moments(thread, &row).await?.into_iter().find(|moment| moment.id == wanted).ok_or_else(missing)
    }

    /// Changes what the next run begins with; returns the new checkpoint.
    pub(super) async fn update_state(&self, who: &Identity, thread: &Thread, values: Value, from: Option<&str>) -> Result<String, Refused> {
        let head = self.head(thread).await?;
        let messages = match from {
            Some(id) => self.moment_at(thread, id).await?.messages,
            None => self.messages(thread, head.as_ref()).await?,
        };
        let mut stored = thread.stored();
        let updates = match values {
            Value::Null => Vec::new(),
            Value::Array(all) => all,
            one => vec![one],
        };
        let mut messages = messages;
        for update in updates {
            let Value::Object(mut fields) = update else { return Err(invalid("the values of a state are an object")) };
            if let Some(new) = fields.remove("messages") {
                messages = add_messages(messages, read_messages(new)?);
            }
            stored.values.extend(fields);
        }
        if messages.len() > MESSAGES_MAX {
            return Err(invalid(format!("a state has at most {MESSAGES_MAX} messages, not {}", messages.len())));
        }
        let checkpoint = fresh_edit();
        let since_seq = thread.row.as_ref().map_or(0, |row| row.messages);
        stored.branch =
            Some(Branch { checkpoint: checkpoint.clone(), messages, since_seq, at_ms: now_ms().max(head.map_or(0, |head| head.created_ms + 1)) });
        self.keep_thread(who, &thread.id, &stored).await?;
        Ok(checkpoint)
    }
}

fn task(run: &graph::RunId, id: &CheckpointId, node: &str) -> Value {
    let task = ids::derived(&["task", run.as_str(), &id.to_string(), node]);
    json!({ "id": task, "name": node, "error": null, "interrupts": [], "checkpoint": null, "state": null, "result": null })
}

/// A list of messages, or one.
pub(super) fn read_messages(value: Value) -> Result<Vec<Message>, Refused> {
    let all = match value {
        Value::Array(all) => all,
        Value::Null => Vec::new(),
        one => vec![one],
    };
    let read = |(at, message)| Message::try_from(message).map_err(|why| Refused::wrong("value_error", &["messages", &usize::to_string(&at)], why));
    all.into_iter().enumerate().map(read).collect()
}

/// As LangGraph's reducer does: one with the id of another takes its place, `remove` takes it away, the others are appended.
/// Places are looked up and not searched for: a request has room for a hundred thousand messages.
pub(super) fn add_messages(old: Vec<Message>, new: Vec<Message>) -> Vec<Message> {
    let mut all: Vec<Option<Message>> = old.into_iter().map(Some).collect();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (at, id) in all.iter().enumerate().filter_map(|(at, message)| Some((at, message.as_ref()?.id()?))) {
        // Of two with one id, the first counts.
        places.entry(id.to_owned()).or_insert(at);
    }
    for message in new {
        let id = message.id().map(str::to_owned);
        let same = id.as_ref().and_then(|id| places.get(id).copied());
        match (message.speaker(), same, id) {
            (MessageKind::Remove, Some(at), Some(id)) => {
                all[at] = None;
                places.remove(&id);
            }
            (MessageKind::Remove, _, id) => {
                if id.as_deref() == Some("__remove_all__") {
                    all.clear();
                    places.clear();
                }
            }
            (_, Some(at), _) => all[at] = Some(message),
            (_, None, id) => {
                places.extend(id.map(|id| (id, all.len())));
                all.push(Some(message));
            }
        }
    }
    all.into_iter().flatten().collect()
}

/// States are made of whole journals: beside the runtime, a few at once, and one of each user.
static STATES: LazyLock<Renderer> = LazyLock::new(|| Renderer::new(2));

/// Answers beside the runtime.
pub(super) async fn beside<F: Future<Output = Answer> + Send + 'static>(who: &Identity, answer: F) -> Answer {
    STATES.place(&who.user).await?.run_async(answer).await?
}

async fn show(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>) -> Answer {
    let who = caller.who.clone();
    beside(&who, async move {
        let thread = graph.thread(&caller.who, &id).await?;
        Ok(json_of(StatusCode::OK, &graph.now(&thread).await?))
    })
    .await
}

async fn show_at(State(graph): State<LangGraph>, caller: Caller, Path((id, checkpoint)): Path<(String, String)>) -> Answer {
    let who = caller.who.clone();
    beside(&who, async move {
        let thread = graph.thread(&caller.who, &id).await?;
        Ok(json_of(StatusCode::OK, &graph.moment_at(&thread, &checkpoint).await?.json(&thread.id)))
    })
    .await
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RunState {
    checkpoint: Option<Checkpoint>,
}

async fn show_by_body(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>, RawJson(body): RawJson) -> Answer {
    let RunState { checkpoint } = read_or_default(&body)?;
    let who = caller.who.clone();
    beside(&who, async move {
        let thread = graph.thread(&caller.who, &id).await?;
        let state = match checkpoint.and_then(|checkpoint| checkpoint.checkpoint_id) {
            Some(id) => graph.moment_at(&thread, &id).await?.json(&thread.id),
            None => graph.now(&thread).await?,
        };
        Ok(json_of(StatusCode::OK, &state))
    })
    .await
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Update {
    values: Value,
    checkpoint: Option<Checkpoint>,
    checkpoint_id: Option<String>,
    as_node: Option<String>,
}

async fn update(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>, RawJson(body): RawJson) -> Answer {
    let Update { values, checkpoint, checkpoint_id, as_node } = read_or_default(&body)?;
    let thread = graph.thread(&caller.who, &id).await?;
    let _lock = graph.lock(&thread.engine).await;
    let head = graph.head(&thread).await?;
    if head.as_ref().is_some_and(|head| head.status == Status::Running) {
        return Err(Refused::plain(StatusCode::CONFLICT, "a run is active in this thread; wait for it, or cancel it"));
    }
    if as_node.as_deref().is_some_and(|node| !matches!(node, "__start__" | "__input__" | "__copy__"))
        && head.as_ref().is_some_and(|head| !head.status.is_over())
    {
        return Err(invalid("a run that waits for an answer cannot be moved on in the name of a node; answer it with a command, or start a new run"));
    }
    let from = checkpoint.and_then(|checkpoint| checkpoint.checkpoint_id).or(checkpoint_id);
    let new = graph.update_state(&caller.who, &thread, values, from.as_deref()).await?;
    if graph.is_followed(&thread.engine) {
        let thread = graph.thread(&caller.who, &id).await?;
        graph.send_state(&thread.engine, &graph.now(&thread).await?);
    }
    let checkpoint = json!({ "thread_id": thread.id, "checkpoint_ns": "", "checkpoint_id": new });
    Ok(json_of(StatusCode::OK, &json!({ "checkpoint": checkpoint, "configurable": checkpoint, "checkpoint_id": new })))
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct HistoryQuery {
    limit: Option<usize>,
    before: Option<Value>,
    metadata: Option<Map<String, Value>>,
}

async fn history(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>, RawJson(body): RawJson) -> Answer {
    let (who, past) = (caller.who.clone(), read_or_default(&body)?);
    Box::pin(beside(&who, async move { history_of(&graph, &caller, &id, past).await })).await
}

#[derive(Deserialize)]
struct PastQuery {
    limit: Option<usize>,
    before: Option<String>,
}

async fn history_by_query(State(graph): State<LangGraph>, caller: Caller, Path(id): Path<String>, Query(query): Query<PastQuery>) -> Answer {
    let PastQuery { limit, before } = query;
    let (who, past) = (caller.who.clone(), HistoryQuery { limit, before: before.map(Value::String), metadata: None });
    Box::pin(beside(&who, async move { history_of(&graph, &caller, &id, past).await })).await
}

/// Newest first.
async fn history_of(graph: &LangGraph, caller: &Caller, id: &str, past: HistoryQuery) -> Answer {
    let thread = graph.thread(&caller.who, id).await?;
    let limit = limit_of(past.limit);
    let before = match &past.before {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(id.clone()),
        Some(given) => {
            let id = given.pointer("/configurable/checkpoint_id").or_else(|| given.get("checkpoint_id")).and_then(Value::as_str);
            Some(id.ok_or_else(|| invalid("`before` is a checkpoint"))?.to_owned())
        }
    };
    let filter = past.metadata.unwrap_or_default();
    let fits = |metadata: &Value| metadata.as_object().map_or(filter.is_empty(), |metadata| contains(metadata, &filter));
    let mut is_after = before.is_some();
    let mut states = Vec::new();
    let runs = graph.runs_of(&thread, None, RUNS_MAX).await?;
    if let Some(branch) = thread.branch()
        && runs.first().is_none_or(|head| branch.at_ms > head.created_ms)
    {
        let head = graph.head(&thread).await?;
        let edited = graph.edited(&thread, head.as_ref()).await?;
        match is_after {
            false => states.push(edited.json(&thread.id)),
            true => is_after = before.as_deref() != Some(&edited.id.to_string()),
        }
    }
    let mut bytes = 0;
    'runs: for row in runs {
        if states.len() >= limit {
            break;
        }
        let row = graph.whole(row).await?;
        for moment in graph.moments(&thread, &row).await?.iter().rev() {
            if is_after {
                is_after = before.as_deref() != Some(&moment.id.to_string());
            } else if fits(&moment.metadata) {
                let state = moment.json(&thread.id);
                bytes += json_bytes(&state);
                if states.len() >= limit || (bytes > HISTORY_BYTES_MAX && !states.is_empty()) {
                    break 'runs;
                }
                states.push(state);
            }
        }
    }
    Ok(json_of(StatusCode::OK, &states))
}

/// The length of a value as JSON, without making it.
pub(super) fn json_bytes(value: &impl serde::Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // What cannot be written cannot be shown either.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// A run that was stopped or failed.
pub(super) fn is_unfinished(row: &RunRow) -> bool {
    engine::result_of(row).is_some_and(|closing| !matches!(closing.outcome, Outcome::Done { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(all: Value) -> Vec<Message> {
        read_messages(all).unwrap_or_else(|_| panic!("they are messages"))
    }

    #[test]
    fn messages_are_replaced_removed_and_appended_by_their_ids() {
        let message = |id: &str, text: &str| json!({ "type": "human", "id": id, "content": text });
        let gone = |id: &str| json!({ "type": "remove", "id": id, "content": "" });
        let texts = |all: Vec<Message>| {
            all.iter().map(|message| serde_json::to_value(message).unwrap()["content"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let old = || messages(json!([message("a", "1"), message("b", "2"), { "type": "human", "content": "3" }]));
        let add = |new: Value| texts(add_messages(old(), messages(new)));
        assert_eq!(add(json!([message("a", "x"), message("c", "4"), message("c", "5")])), ["x", "2", "3", "5"]);
        assert_eq!(add(json!([gone("a"), gone("zz"), message("a", "6")])), ["2", "3", "6"]);
        assert_eq!(add(json!([gone("__remove_all__"), message("b", "7")])), ["7"]);
    }

    /// Searched for one by one, this takes a quarter of an hour.
    #[test]
    fn many_messages_are_added_in_one_pass() {
        let many = |from: usize| (from..from + 200_000).map(|id| json!({ "type": "human", "id": id.to_string(), "content": "x" })).collect::<Value>();
        let all = add_messages(messages(many(0)), messages(many(100_000)));
        assert_eq!(all.len(), 300_000);
    }
}

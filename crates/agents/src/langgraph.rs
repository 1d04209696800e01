//! Calls a graph on a LangGraph server: a run in a thread of its own, followed until it ends or asks the user.
//!
//! ```text
//!   key of the effect ─► thread id ─► the thread's run with that key? ─ no ─► POST /threads/{id}/runs ─┐
//!                                            │ yes                                                     ▼
//!                                            └──────────────────────► GET …/runs/{id}/stream, from the last event on
//!                                                                          │ over
//!                                                                          ▼
//!                                                        GET /threads/{id}/state ─► messages, or questions
//! ```
//!
//! The thread's id is derived from the effect's key, and the run has the key in its metadata. Both are known before the first request, in any process: after a crash
//! on either side the run is found and joined instead of started again. A question of the graph (`interrupt(…)`) is returned under `waiting` of the context, as Baton's own
//! agents do over LangServe; its answer comes with the next call and is sent to the same thread as `Command(resume=…)`.

use std::time::{Duration, Instant};

use effects::Progress;
use futures::StreamExt as _;
use graph::{Failure, FailureKind, Job, Reply};
use http::header::{HeaderMap, HeaderName};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use wire::langgraph::{Interrupt, Run, RunStatus};
use wire::langserve::Description;

use crate::exchange::{self, Exchange, RequestError, uuid_of};
use crate::langserve::{Service, state_of, with_turns};

/// The assistant if the configuration names none.
pub(crate) const ASSISTANT: &str = "agent";

/// Runs of the thread that are searched for the one of this call.
const RUNS_MAX: usize = 20;
/// The interval of requests for a run whose stream has ended.
const PAUSE: Duration = Duration::from_millis(300);
/// How often a run that is to be cancelled is searched for.
const SEARCHES_MAX: usize = 4;
/// How long a server that has our run may be unreachable.
const LOST_MAX: Duration = Duration::from_secs(30);
/// The metadata field of a run that has the effect's key.
const KEY_FIELD: &str = "baton_key";
const QUESTION_CHARS_MAX: usize = 4_000;

pub(crate) struct Graph {
    http: Service,
    assistant: String,
}

/// The user's answer to a question of the graph, as the supervisor returns it.
#[derive(Deserialize)]
struct Answer {
    thread: String,
    interrupt: String,
    #[serde(default)]
    value: Value,
}

impl Graph {
    pub(crate) fn new(url: &str, assistant: &str, token: Option<String>) -> Result<Graph, String> {
        Ok(Graph { http: Service::new(url, "", token)?, assistant: assistant.to_owned() })
    }

    pub(crate) fn address(&self) -> String {
        self.http.address()
    }

    /// Whether a server answers. It does not describe its graphs.
    pub(crate) async fn describe(&self) -> Result<Option<Description>, String> {
        match self.http.get(&format!("{}/ok", self.http.base())).await? {
            Some(_) => Ok(None),
            None => Err(format!("no LangGraph server is at {}", self.address())),
        }
    }

    pub(crate) async fn call(&self, name: &str, input: &Value, job: &Job, progress: &Progress) -> Reply {
        exchange::reply_in_time(name, &self.http, job, self.run(name, input, job, progress)).await
    }

    async fn run(&self, name: &str, input: &Value, job: &Job, progress: &Progress) -> Result<Value, Failure> {
        let key = job.key.to_string();
        let answers = answers_of(input);
        let thread = answers.first().map_or_else(|| uuid_of(&key), |answer| answer.thread.clone());
        let exchange = Exchange { service: &self.http, name, headers: self.headers(job) };
        let remote = RemoteThread { exchange, assistant: &self.assistant, thread: &thread };
        let known = match answers.is_empty() {
            true => {
                remote.post("/threads", &json!({ "thread_id": thread, "if_exists": "do_nothing", "metadata": { KEY_FIELD: key } })).await?;
                remote.find(&key).await?
            }
            false => remote.find(&key).await?,
        };
        let run = match known {
            Some(run) => run,
            None => remote.start(&key, input, &answers).await?,
        };
        let error = remote.follow(&run, progress).await?;
        if let Some(message) = error {
            return Err(Failure::new(FailureKind::Tool, format!("its graph failed: {message}")));
        }
        remote.outcome().await
    }

    /// Stops the run of a call whose caller stopped waiting.
    pub(crate) async fn cancel(&self, name: &str, input: &Value, job: &Job) -> Result<(), Failure> {
        let key = job.key.to_string();
        let thread = answers_of(input).first().map_or_else(|| uuid_of(&key), |answer| answer.thread.clone());
        let exchange = Exchange { service: &self.http, name, headers: self.headers(job) };
        let remote = RemoteThread { exchange, assistant: &self.assistant, thread: &thread };
        for _ in 0..SEARCHES_MAX {
            // The request that starts it may not have arrived yet.
            match remote.find(&key).await {
                Ok(Some(run)) => {
                    return remote
                        .post(&format!("/threads/{thread}/runs/{run}/cancel?wait=false&action=interrupt"), &json!({}))
                        .await
                        .map(drop)
                        .map_err(Failure::from);
                }
                Ok(None) => {}
                // The thread does not exist yet.
                Err(RequestError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    fn headers(&self, job: &Job) -> HeaderMap {
        let mut headers = exchange::headers(&self.http, job);
        if let Some(key) = self.http.api_key() {
            headers.insert(HeaderName::from_static("x-api-key"), key);
        }
        headers
    }
}

fn answers_of(input: &Value) -> Vec<Answer> {
    let answers = input.pointer("/context/answers").and_then(Value::as_array);
    answers.into_iter().flatten().filter_map(|answer| Answer::deserialize(answer).ok()).collect()
}

/// One thread of the server, with the headers of every request.
struct RemoteThread<'a> {
    exchange: Exchange<'a>,
    assistant: &'a str,
    thread: &'a str,
}

impl RemoteThread<'_> {
    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.exchange.service.base())
    }

    async fn get(&self, path: &str) -> Result<Value, RequestError> {
        self.exchange.json(self.exchange.client()?.get(self.url(path))).await
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value, RequestError> {
        self.exchange.json(self.exchange.post(self.url(path), body)?).await
    }

    /// The run that an earlier attempt started.
    async fn find(&self, key: &str) -> Result<Option<String>, RequestError> {
        let runs = self.get(&format!("/threads/{}/runs?limit={RUNS_MAX}", self.thread)).await?;
        let is_ours = |run: &&Value| run.pointer(&format!("/metadata/{KEY_FIELD}")).and_then(Value::as_str) == Some(key);
        let run = runs.as_array().into_iter().flatten().find(is_ours);
        Ok(run.and_then(|run| run["run_id"].as_str()).map(str::to_owned))
    }

    async fn start(&self, key: &str, input: &Value, answers: &[Answer]) -> Result<String, Failure> {
        let mut body = json!({
            "assistant_id": self.assistant,
            "metadata": { KEY_FIELD: key },
            "stream_mode": ["values", "messages-tuple"],
            "stream_resumable": true,
            // Another attempt of the same call may have just started it.
            "multitask_strategy": "reject",
        });
        match answers {
            [] => body["input"] = state_of(input),
            [one] => body["command"] = json!({ "resume": one.value }),
            all => {
                let by_id: Map<String, Value> = all.iter().map(|answer| (answer.interrupt.clone(), answer.value.clone())).collect();
                body["command"] = json!({ "resume": by_id });
            }
        }
        let started = self.post(&format!("/threads/{}/runs", self.thread), &body).await;
        match started {
            Ok(run) => run["run_id"].as_str().map(str::to_owned).ok_or_else(|| self.exchange.invalid_reply("started a run without an id")),
            Err(error) => match self.find(key).await {
                Ok(Some(run)) => Ok(run),
                _ => Err(error.into()),
            },
        }
    }

    /// Follows a run to its end. A connection that breaks is opened again. Returns the message of its error if it failed.
    async fn follow(&self, run: &str, progress: &Progress) -> Result<Option<String>, Failure> {
        let mut last = "-1".to_owned();
        let mut error = None;
        let mut lost_at: Option<Instant> = None;
        loop {
            self.read_events(run, &mut last, &mut error, progress).await;
            let state = match self.get(&format!("/threads/{}/runs/{run}", self.thread)).await {
                Ok(state) => {
                    lost_at = None;
                    state
                }
                // A server that is being restarted reports afterwards whether it has the run.
                Err(RequestError::Failed(failure))
                    if failure.kind == FailureKind::Network && lost_at.get_or_insert_with(Instant::now).elapsed() < LOST_MAX =>
                {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                // The server has no such run, because it was restarted without a store: the next attempt starts again.
                Err(RequestError::NotFound(_)) => {
                    return Err(Failure::new(FailureKind::Network, format!("{} no longer has its run", self.exchange.name)).retry());
                }
                Err(RequestError::Failed(failure)) => return Err(failure),
            };
            let state: Run =
                serde_json::from_value(state).map_err(|why| self.exchange.invalid_reply(&format!("describes its run in an unknown form ({why})")))?;
            match state.status {
                RunStatus::Pending | RunStatus::Running => tokio::time::sleep(PAUSE).await,
                RunStatus::Success => return Ok(None),
                RunStatus::Error => {
                    let message = match error {
                        Some(message) => message,
                        None => self.error_of_state().await?,
                    };
                    return Ok(Some(message));
                }
                RunStatus::Timeout => return Ok(Some("it reached its time limit".to_owned())),
                RunStatus::Interrupted => return Ok(Some(error.unwrap_or_else(|| "its run was cancelled there".to_owned()))),
            }
        }
    }

    /// Reads events until the stream ends in any way; the state of the run is read afterwards.
    async fn read_events(&self, run: &str, last: &mut String, error: &mut Option<String>, progress: &Progress) {
        let Ok(client) = self.exchange.client() else { return };
        let url = self.url(&format!("/threads/{}/runs/{run}/stream?stream_mode=values&stream_mode=messages-tuple", self.thread));
        let Ok(response) = self.exchange.send(client.get(url).header("accept", "text/event-stream").header("last-event-id", last.as_str())).await
        else {
            return;
        };
        let mut events = self.exchange.events(response);
        while let Some(event) = events.next().await {
            if let Some(id) = event.id.filter(|id| !id.is_empty()) {
                *last = id;
            }
            let data = event.data.unwrap_or_default();
            match event.event.as_deref().unwrap_or_default() {
                "end" => return,
                "error" => *error = Some(error_message(&data)),
                "messages" if progress.has_listener() => {
                    if let Some(text) = text_of_chunk(&data) {
                        progress.send(&text);
                    }
                }
                _ => {}
            }
        }
    }

    /// Why the newest run of the thread failed, if the stream did not report it.
    async fn error_of_state(&self) -> Result<String, Failure> {
        let state = self.get(&format!("/threads/{}/state", self.thread)).await?;
        let message = state["tasks"].as_array().into_iter().flatten().find_map(|task| task["error"].as_str());
        Ok(message.map_or_else(|| "it does not say why".to_owned(), error_message))
    }

    /// The current values of the thread, in the form that flows use.
    async fn outcome(&self) -> Result<Value, Failure> {
        let mut state = self.get(&format!("/threads/{}/state", self.thread)).await?;
        let interrupts: Vec<Interrupt> = interrupts(&state);
        let mut values = with_turns(values_of(&mut state));
        if interrupts.is_empty() {
            return Ok(values);
        }
        let waiting: Vec<Value> = interrupts.iter().map(|interrupt| self.question(interrupt)).collect();
        if !values.is_object() {
            values = json!({ "messages": [] });
        }
        if !values["context"].is_object() {
            values["context"] = json!({});
        }
        values["context"]["waiting"] = json!(waiting);
        Ok(values)
    }

    /// A question for the user, with the thread and interrupt that its answer is sent to.
    fn question(&self, interrupt: &Interrupt) -> Value {
        let value = &interrupt.value;
        let named = ["question", "prompt", "message", "description"].iter().find_map(|name| value.get(*name).and_then(Value::as_str));
        let prompt = value.as_str().or(named).map_or_else(|| value.to_string(), str::to_owned);
        let schema = interrupt.response_schema.clone().or_else(|| value.get("schema").cloned()).filter(Value::is_object);
        let prompt: String = prompt.chars().take(QUESTION_CHARS_MAX).collect();
        json!({ "prompt": prompt, "schema": schema, "thread": self.thread, "interrupt": interrupt.id })
    }
}

/// The values of a state; `null` if it has none.
fn values_of(state: &mut Value) -> Value {
    state.get_mut("values").map(Value::take).unwrap_or_default()
}

fn interrupts(state: &Value) -> Vec<Interrupt> {
    let of = |value: &Value| value.as_array().into_iter().flatten().filter_map(|one| Interrupt::deserialize(one).ok()).collect::<Vec<_>>();
    let of_tasks: Vec<Interrupt> = state["tasks"].as_array().into_iter().flatten().flat_map(|task| of(&task["interrupts"])).collect();
    if of_tasks.is_empty() { of(&state["interrupts"]) } else { of_tasks }
}

/// The text of a chunk of a model's answer: `[message, metadata]`.
fn text_of_chunk(data: &str) -> Option<String> {
    let pair: Value = serde_json::from_str(data).ok()?;
    let message = pair.get(0)?;
    let is_chunk = message.get("type").and_then(Value::as_str) == Some("AIMessageChunk");
    let text = wire::langserve::Message::try_from(message.clone()).ok()?.text();
    (is_chunk && !text.is_empty()).then_some(text)
}

fn error_message(data: &str) -> String {
    let error: Value = serde_json::from_str(data).unwrap_or_default();
    let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
    let message = match (text("error"), text("message")) {
        ("", "") => data.to_owned(),
        (kind, "") => kind.to_owned(),
        ("", message) => message.to_owned(),
        (kind, message) => format!("{kind}: {message}"),
    };
    message.chars().take(400).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{answer, peer};

    #[test]
    fn a_thread_id_is_derived_from_the_key() {
        let key = "0123456789abcdef0123456789abcdef";
        assert_eq!(uuid_of(key), "01234567-89ab-8def-a123-456789abcdef");
        assert_eq!(uuid_of(key), uuid_of(key));
    }

    /// Servers that answer with mangled replies. `BATON_MANGLED` is their number.
    #[test]
    fn p8_mangled_graph_replies_never_panic() {
        use scripted::mangled;
        let state = json!({ "values": { "messages": [{ "type": "ai", "content": "x" }], "next": "", "context": {} },
            "tasks": [{ "interrupts": [{ "value": { "question": "Really?" }, "id": "i1" }], "error": null }], "interrupts": [] })
        .to_string();
        let run = json!({ "run_id": "r", "thread_id": "t", "assistant_id": "a", "created_at": "", "updated_at": "", "status": "running", "metadata": {}, "kwargs": {} }).to_string();
        let chunk = json!([{ "type": "AIMessageChunk", "content": [{ "type": "text", "text": "hi" }] }, {}]).to_string();
        let (mut good, count) = (0, mangled::count());
        for (seed, whole) in [(1, &state), (2, &run), (3, &chunk)] {
            for bytes in mangled::mangled(whole.as_bytes(), seed).take(count.div_ceil(3)) {
                let text = String::from_utf8_lossy(&bytes);
                assert!(text_of_chunk(&text).is_none_or(|text| text.len() < 10_000) && error_message(&text).chars().count() <= 400);
                let Ok(mut read) = serde_json::from_slice::<Value>(&bytes) else { continue };
                good += usize::from(!interrupts(&read).is_empty() || Run::deserialize(&read).is_ok() || text_of_chunk(&text).is_some());
                with_turns(values_of(&mut read));
            }
        }
        assert!(good > 0 && good < count, "{good} of {count}");
    }

    fn graph_call(url: &str) -> (Graph, Vec<Job>) {
        let input = json!({ "messages": [{ "role": "user", "content": "hi" }], "context": {} });
        (Graph::new(url, ASSISTANT, None).unwrap(), scripted::jobs(&[graph::agent("langgraph/sea", input)]))
    }

    /// The body of the other refusal contains "status 404" too: only the status of the reply decides.
    #[tokio::test]
    async fn p8_a_run_that_is_gone_is_recognised_by_its_status() {
        for (status, kind, message) in
            [("404 Not Found", FailureKind::Network, "no longer has its run"), ("422 No", FailureKind::Invalid, "upstream status 404")]
        {
            let peer = peer(move |request| match request.lines().next().unwrap_or_default() {
                first if first.starts_with("POST /threads ") => answer("200 OK", "", "{}"),
                first if first.starts_with("POST ") => answer("200 OK", "", r#"{"run_id":"r"}"#),
                first if first.contains("/runs?limit=") => answer("200 OK", "", "[]"),
                _ => answer(status, "", r#"{"detail":"upstream status 404"}"#),
            })
            .await;
            let (graph, jobs) = graph_call(&peer.url);
            let graph::Effect::CallAgent(called) = &*jobs[0].effect else { panic!("it is a call") };
            let failure = graph.call("sea", &called.input, &jobs[0], &Progress::nowhere()).await.result.unwrap_err();
            assert!(failure.kind == kind && failure.message.contains(message), "{status}: {failure:?}");
        }
    }

    #[tokio::test]
    async fn a_run_without_a_thread_needs_no_cancel_and_another_refusal_is_an_error() {
        for (status, is_ok) in [("404 Not Found", true), ("422 No", false)] {
            let peer = peer(move |_| answer(status, "", r#"{"detail":"upstream status 404"}"#)).await;
            let (graph, jobs) = graph_call(&peer.url);
            assert_eq!(graph.cancel("sea", &json!({}), &jobs[0]).await.is_ok(), is_ok, "{status}");
        }
    }

    #[test]
    fn interrupts_are_questions_with_an_address() {
        let state = json!({ "values": {}, "tasks": [{ "interrupts": [{ "value": { "question": "Really?" }, "id": "i1" }] }], "interrupts": [] });
        let found = interrupts(&state);
        assert_eq!((found.len(), found[0].id.as_str()), (1, "i1"));
        assert_eq!(interrupts(&json!({ "interrupts": [{ "value": "x" }, 7] })).len(), 1);
        let input = json!({ "context": { "answers": [{ "thread": "t", "interrupt": "i1", "value": "yes", "attempt": 1 }, { "run": "other" }] } });
        assert_eq!(answers_of(&input).len(), 1);
        assert_eq!(error_message(r#"{"error":"ValueError","message":"boom"}"#), "ValueError: boom");
        assert_eq!(text_of_chunk(r#"[{"type":"AIMessageChunk","content":"hi"},{}]"#).as_deref(), Some("hi"));
        assert_eq!(text_of_chunk(r#"[{"type":"human","content":"hi"},{}]"#), None);
    }
}

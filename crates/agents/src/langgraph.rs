//! A graph on a LangGraph server, called: a run in a thread of its own, followed until it is over or asks a person.
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
//! The thread's id follows from the effect's key, and the run carries the key in its metadata. Both are known before the first request, in whatever process: after a crash
//! on either side the run is found and joined instead of started again. A question of the graph (`interrupt(…)`) comes back under `waiting` of the context, as LangServe's agents
//! of Baton have it; its answer comes with the next call and is sent to the same thread as `Command(resume=…)`.

use std::time::{Duration, Instant};

use effects::Progress;
use futures::StreamExt as _;
use graph::{Failure, FailureKind, Job, Reply};
use http::header::{HeaderMap, HeaderName};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use wire::langgraph::{Interrupt, Run, RunStatus};
use wire::langserve::Description;

use crate::exchange::{self, Exchange, uuid_of};
use crate::langserve::{Service, state_of, turned};

/// The assistant if the configuration names none.
pub(crate) const ASSISTANT: &str = "agent";

/// Runs of the thread that are looked through for ours.
const RUNS_MAX: usize = 20;
/// Between two looks at a run whose stream broke off.
const PAUSE: Duration = Duration::from_millis(300);
/// How often a run that is to be stopped is looked for.
const LOOKS_MAX: usize = 4;
/// How long a server that has our run may be unreachable.
const LOST_MAX: Duration = Duration::from_secs(30);
/// Where a run is marked as one of ours.
const MARK: &str = "baton_key";
const QUESTION_CHARS_MAX: usize = 4_000;

pub(crate) struct Graph {
    http: Service,
    assistant: String,
}

/// A person's word for a question of the graph, as the supervisor gives it back.
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

    /// Whether it is there. It does not say what it can do.
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
        let line = Exchange { service: &self.http, name, headers: self.headers(job) };
        let at = Remote { line, assistant: &self.assistant, thread: &thread };
        let known = match answers.is_empty() {
            true => {
                at.post("/threads", &json!({ "thread_id": thread, "if_exists": "do_nothing", "metadata": { MARK: key } })).await?;
                at.find(&key).await?
            }
            false => at.find(&key).await?,
        };
        let run = match known {
            Some(run) => run,
            None => at.start(&key, input, &answers).await?,
        };
        let error = at.follow(&run, progress).await?;
        if let Some(words) = error {
            return Err(Failure::new(FailureKind::Tool, format!("its graph failed: {words}")));
        }
        at.outcome().await
    }

    /// Stops the run of a call whose caller stopped waiting.
    pub(crate) async fn cancel(&self, name: &str, input: &Value, job: &Job) -> Result<(), Failure> {
        let key = job.key.to_string();
        let thread = answers_of(input).first().map_or_else(|| uuid_of(&key), |answer| answer.thread.clone());
        let line = Exchange { service: &self.http, name, headers: self.headers(job) };
        let at = Remote { line, assistant: &self.assistant, thread: &thread };
        for _ in 0..LOOKS_MAX {
            // The request that starts it may still be on its way.
            match at.find(&key).await {
                Ok(Some(run)) => {
                    return at.post(&format!("/threads/{thread}/runs/{run}/cancel?wait=false&action=interrupt"), &json!({})).await.map(drop);
                }
                Ok(None) => {}
                // No such thread yet.
                Err(failure) if failure.message.contains(" status 404") => {}
                Err(failure) => return Err(failure),
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

/// One thread of the server, with what every request carries.
struct Remote<'a> {
    line: Exchange<'a>,
    assistant: &'a str,
    thread: &'a str,
}

impl Remote<'_> {
    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.line.service.base())
    }

    async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.line.json(self.line.client()?.get(self.url(path))).await
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.line.json(self.line.post(self.url(path), body)?).await
    }

    /// The run that an earlier attempt started.
    async fn find(&self, key: &str) -> Result<Option<String>, Failure> {
        let runs = self.get(&format!("/threads/{}/runs?limit={RUNS_MAX}", self.thread)).await?;
        let is_ours = |run: &&Value| run.pointer(&format!("/metadata/{MARK}")).and_then(Value::as_str) == Some(key);
        let run = runs.as_array().into_iter().flatten().find(is_ours);
        Ok(run.and_then(|run| run["run_id"].as_str()).map(str::to_owned))
    }

    async fn start(&self, key: &str, input: &Value, answers: &[Answer]) -> Result<String, Failure> {
        let mut body = json!({
            "assistant_id": self.assistant,
            "metadata": { MARK: key },
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
            Ok(run) => run["run_id"].as_str().map(str::to_owned).ok_or_else(|| self.line.invalid_reply("started a run without an id")),
            Err(failure) => match self.find(key).await {
                Ok(Some(run)) => Ok(run),
                _ => Err(failure),
            },
        }
    }

    /// Follows a run to its end, through broken lines. Returns the words of its error if it failed.
    async fn follow(&self, run: &str, progress: &Progress) -> Result<Option<String>, Failure> {
        let mut last = "-1".to_owned();
        let mut error = None;
        let mut lost_at: Option<Instant> = None;
        loop {
            self.listen(run, &mut last, &mut error, progress).await;
            let state = match self.get(&format!("/threads/{}/runs/{run}", self.thread)).await {
                Ok(state) => {
                    lost_at = None;
                    state
                }
                // A server that is being restarted has its run afterwards, or says that it has not.
                Err(failure) if failure.kind == FailureKind::Network && lost_at.get_or_insert_with(Instant::now).elapsed() < LOST_MAX => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                // The server has no such run, because it was restarted without a store: the next attempt starts again.
                Err(failure) if failure.message.contains(" status 404") => {
                    return Err(Failure::new(FailureKind::Network, format!("{} no longer has its run", self.line.name)).retry());
                }
                Err(failure) => return Err(failure),
            };
            let state: Run =
                serde_json::from_value(state).map_err(|why| self.line.invalid_reply(&format!("describes its run in a form of its own ({why})")))?;
            match state.status {
                RunStatus::Pending | RunStatus::Running => tokio::time::sleep(PAUSE).await,
                RunStatus::Success => return Ok(None),
                RunStatus::Error => {
                    let words = match error {
                        Some(words) => words,
                        None => self.fault().await?,
                    };
                    return Ok(Some(words));
                }
                RunStatus::Timeout => return Ok(Some("its time was up".to_owned())),
                RunStatus::Interrupted => return Ok(Some(error.unwrap_or_else(|| "its run was cancelled there".to_owned()))),
            }
        }
    }

    /// Reads events until the stream ends in any way; the state of the run is read afterwards.
    async fn listen(&self, run: &str, last: &mut String, error: &mut Option<String>, progress: &Progress) {
        let Ok(client) = self.line.client() else { return };
        let url = self.url(&format!("/threads/{}/runs/{run}/stream?stream_mode=values&stream_mode=messages-tuple", self.thread));
        let Ok(response) = self.line.send(client.get(url).header("accept", "text/event-stream").header("last-event-id", last.as_str())).await else {
            return;
        };
        let mut events = self.line.events(response);
        while let Some(event) = events.next().await {
            if let Some(id) = event.id.filter(|id| !id.is_empty()) {
                *last = id;
            }
            let data = event.data.unwrap_or_default();
            match event.event.as_deref().unwrap_or_default() {
                "end" => return,
                "error" => *error = Some(error_words(&data)),
                "messages" if progress.has_listener() => {
                    if let Some(text) = piece(&data) {
                        progress.tell(&text);
                    }
                }
                _ => {}
            }
        }
    }

    /// Why the newest run of the thread failed, if the stream did not report it.
    async fn fault(&self) -> Result<String, Failure> {
        let state = self.get(&format!("/threads/{}/state", self.thread)).await?;
        let words = state["tasks"].as_array().into_iter().flatten().find_map(|task| task["error"].as_str());
        Ok(words.map_or_else(|| "it does not say why".to_owned(), error_words))
    }

    /// The current values of the thread, in the form that flows use.
    async fn outcome(&self) -> Result<Value, Failure> {
        let mut state = self.get(&format!("/threads/{}/state", self.thread)).await?;
        let interrupts: Vec<Interrupt> = interrupts(&state);
        let mut values = turned(values_of(&mut state));
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

    /// A question for the person at this end, with the place its answer belongs to.
    fn question(&self, interrupt: &Interrupt) -> Value {
        let value = &interrupt.value;
        let named = ["question", "prompt", "message", "description"].iter().find_map(|name| value.get(*name).and_then(Value::as_str));
        let prompt = value.as_str().or(named).map_or_else(|| value.to_string(), str::to_owned);
        let schema = interrupt.response_schema.clone().or_else(|| value.get("schema").cloned()).filter(Value::is_object);
        let prompt: String = prompt.chars().take(QUESTION_CHARS_MAX).collect();
        json!({ "prompt": prompt, "schema": schema, "thread": self.thread, "interrupt": interrupt.id })
    }
}

/// The values of a state; of what is no state there are none.
fn values_of(state: &mut Value) -> Value {
    state.get_mut("values").map(Value::take).unwrap_or_default()
}

fn interrupts(state: &Value) -> Vec<Interrupt> {
    let of = |value: &Value| value.as_array().into_iter().flatten().filter_map(|one| Interrupt::deserialize(one).ok()).collect::<Vec<_>>();
    let of_tasks: Vec<Interrupt> = state["tasks"].as_array().into_iter().flatten().flat_map(|task| of(&task["interrupts"])).collect();
    if of_tasks.is_empty() { of(&state["interrupts"]) } else { of_tasks }
}

/// The text of a piece of a model's answer: `[message, metadata]`.
fn piece(data: &str) -> Option<String> {
    let pair: Value = serde_json::from_str(data).ok()?;
    let message = pair.get(0)?;
    let is_piece = message.get("type").and_then(Value::as_str) == Some("AIMessageChunk");
    let text = wire::langserve::Message::try_from(message.clone()).ok()?.text();
    (is_piece && !text.is_empty()).then_some(text)
}

fn error_words(data: &str) -> String {
    let said: Value = serde_json::from_str(data).unwrap_or_default();
    let text = |name: &str| said.get(name).and_then(Value::as_str).unwrap_or_default();
    let words = match (text("error"), text("message")) {
        ("", "") => data.to_owned(),
        (kind, "") => kind.to_owned(),
        ("", message) => message.to_owned(),
        (kind, message) => format!("{kind}: {message}"),
    };
    words.chars().take(400).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_follows_from_the_key_and_is_a_uuid() {
        let key = "0123456789abcdef0123456789abcdef";
        assert_eq!(uuid_of(key), "01234567-89ab-8def-a123-456789abcdef");
        assert_eq!(uuid_of(key), uuid_of(key));
    }

    /// Servers answer anything at all. `BATON_MANGLED` says how often.
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
                assert!(piece(&text).is_none_or(|text| text.len() < 10_000) && error_words(&text).chars().count() <= 400);
                let Ok(mut read) = serde_json::from_slice::<Value>(&bytes) else { continue };
                good += usize::from(!interrupts(&read).is_empty() || Run::deserialize(&read).is_ok() || piece(&text).is_some());
                turned(values_of(&mut read));
            }
        }
        assert!(good > 0 && good < count, "{good} of {count}");
    }

    #[test]
    fn interrupts_are_questions_with_a_place() {
        let state = json!({ "values": {}, "tasks": [{ "interrupts": [{ "value": { "question": "Really?" }, "id": "i1" }] }], "interrupts": [] });
        let found = interrupts(&state);
        assert_eq!((found.len(), found[0].id.as_str()), (1, "i1"));
        assert_eq!(interrupts(&json!({ "interrupts": [{ "value": "x" }, 7] })).len(), 1);
        let input = json!({ "context": { "answers": [{ "thread": "t", "interrupt": "i1", "value": "yes", "attempt": 1 }, { "run": "other" }] } });
        assert_eq!(answers_of(&input).len(), 1);
        assert_eq!(error_words(r#"{"error":"ValueError","message":"boom"}"#), "ValueError: boom");
        assert_eq!(piece(r#"[{"type":"AIMessageChunk","content":"hi"},{}]"#).as_deref(), Some("hi"));
        assert_eq!(piece(r#"[{"type":"human","content":"hi"},{}]"#), None);
    }
}

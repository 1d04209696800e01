//! Calls an agent that answers OpenAI's chat completions: `POST {url}/v1/chat/completions` with the request as the user's message, streamed.
//!
//! | reply | result |
//! |---|---|
//! | chunks up to a `finish_reason` of `stop`, or a whole completion | the agent's message |
//! | no connection, a stream that breaks off, late, 408, 425, 429, 5xx, no JSON | retry; with the same key |
//! | an error in the stream, `length`, `content_filter`, a refusal, a tool call, no text | permanent failure |
//! | other statuses | as for LangServe |
//!
//! A completion has no name by which it could be found again: after a crash on either side the request is sent again with the effect's key (`Idempotency-Key`). For an agent
//! that ignores the key and must not be called twice, `once` is set. Closing the connection is the only way to stop a completion.

use effects::Progress;
use futures::StreamExt as _;
use graph::{Failure, FailureKind, Job, Reply};
use http::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Value, json};
use wire::langserve::Description;
use wire::openai::{ChatChoice, ChatReply, ModelList, error_message};

use crate::exchange::{self, Exchange, REPLY_BYTES_MAX, Refusal};
use crate::langserve::{Service, failure_of_status};
use crate::report;

/// The path if the configuration names none.
pub(crate) const PATH: &str = "v1";

const MESSAGE_CHARS_MAX: usize = 400;
const SOURCES_MAX: usize = 50;
/// Models that a message names.
const NAMED_MAX: usize = 10;
/// The data of the event after the last chunk.
const DONE: &str = "[DONE]";

pub(crate) struct Agent {
    http: Service,
    model: String,
}

/// What has arrived of a completion.
#[derive(Debug, Default)]
struct Completion {
    text: String,
    refusal: String,
    sources: Vec<String>,
    finish_reason: Option<String>,
}

impl Agent {
    pub(crate) fn new(url: &str, path: &str, model: &str, token: Option<String>) -> Result<Agent, String> {
        Ok(Agent { http: Service::new(url, path, token)?, model: model.to_owned() })
    }

    pub(crate) fn address(&self) -> String {
        self.http.address()
    }

    /// Whether it has the model. It does not describe itself, and it need not list models.
    pub(crate) async fn describe(&self) -> Result<Option<Description>, String> {
        let listed = self.http.get(&self.http.at("models")).await?;
        let Some(Ok(ModelList { data })) = listed.map(|body| serde_json::from_slice(&body)) else { return Ok(None) };
        if data.is_empty() || data.iter().any(|listed| listed.id == self.model) {
            return Ok(None);
        }
        let names: Vec<&str> = data.iter().take(NAMED_MAX).map(|listed| listed.id.as_str()).collect();
        Err(format!("it has no model {:?}; set `model` to one of {}", self.model, names.join(", ")))
    }

    pub(crate) async fn call(&self, name: &str, input: &Value, job: &Job, progress: &Progress) -> Reply {
        exchange::reply_in_time(name, &self.http, job, self.complete(name, input, job, progress)).await
    }

    async fn complete(&self, name: &str, input: &Value, job: &Job, progress: &Progress) -> Result<Value, Failure> {
        let exchange = Exchange { service: &self.http, name, headers: exchange::headers(&self.http, job) };
        let body = json!({ "model": self.model, "stream": true, "messages": [{ "role": "user", "content": report::request_of(input) }] });
        let request = exchange.post(self.http.at("chat/completions"), &body)?.header(ACCEPT, "text/event-stream, application/json");
        let response = exchange.request(request).await?.map_err(|refusal| refused(name, &refusal))?;
        let is_stream = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let completion = match is_stream {
            true => streamed(&exchange, response, progress).await?,
            false => {
                let reply = exchange.body(response).await?;
                let reply =
                    serde_json::from_value(reply).map_err(|why| exchange.invalid_reply(&format!("answered with no chat completion ({why})")))?;
                let mut completion = Completion::default();
                completion.add(reply, &Progress::nowhere()).map_err(|why| failed(name, &why))?;
                completion
            }
        };
        completion.finish(&exchange).map(|completion| report::completed(name, input, &completion.text, &completion.sources))
    }
}

/// The completion that a stream tells.
async fn streamed(exchange: &Exchange<'_>, response: reqwest::Response, progress: &Progress) -> Result<Completion, Failure> {
    let mut completion = Completion::default();
    let mut events = exchange.events(response);
    while let Some(event) = events.next().await {
        let data = event.data.unwrap_or_default();
        if data.trim() == DONE {
            // Not every server names a reason.
            completion.finish_reason.get_or_insert_with(|| "stop".to_owned());
            return Ok(completion);
        }
        if data.trim().is_empty() {
            continue;
        }
        let reply = serde_json::from_str(&data).map_err(|why| exchange.invalid_reply(&format!("sent a chunk that cannot be read ({why})")))?;
        completion.add(reply, progress).map_err(|why| failed(exchange.name, &why))?;
        if completion.text.len() > REPLY_BYTES_MAX {
            return Err(Failure::new(FailureKind::Invalid, format!("{}: its answer has more than {REPLY_BYTES_MAX} bytes", exchange.name)));
        }
    }
    // Without `[DONE]` the reason shows whether the stream has ended or broken off.
    Ok(completion)
}

impl Completion {
    /// The error is what the agent says of its failure.
    fn add(&mut self, reply: ChatReply, progress: &Progress) -> Result<(), String> {
        if let Some(error) = reply.error.filter(|error| !error.is_null()) {
            return Err(error_message(&error).map_or_else(|| error.to_string(), str::to_owned));
        }
        let Some(ChatChoice { message, finish_reason }) = reply.choices.into_iter().next() else { return Ok(()) };
        if let Some(text) = message.content.filter(|text| !text.is_empty()) {
            self.text.push_str(&text);
            if progress.has_listener() {
                progress.send(&text);
            }
        }
        self.refusal.push_str(message.refusal.as_deref().unwrap_or_default());
        let left = SOURCES_MAX.saturating_sub(self.sources.len());
        self.sources.extend(message.annotations.iter().flatten().filter_map(source_of).take(left));
        self.finish_reason = finish_reason.or(self.finish_reason.take());
        Ok(())
    }

    /// The completion if it is whole and has a text.
    fn finish(self, exchange: &Exchange<'_>) -> Result<Completion, Failure> {
        let name = exchange.name;
        if !self.refusal.is_empty() {
            return Err(Failure::new(FailureKind::Refused, format!("{name} refused: {}", short(&self.refusal))));
        }
        match self.finish_reason.as_deref() {
            None => Err(Failure::new(FailureKind::Network, format!("{name} closed the stream before the end of its answer")).retry()),
            Some("length") => Err(failed(name, "its answer was cut off at its limit of tokens")),
            Some("content_filter") => Err(Failure::new(FailureKind::Refused, format!("{name}: its content filter stopped the answer"))),
            Some("tool_calls" | "function_call") => Err(failed(name, "it called a tool, and it was given none")),
            Some(_) if self.text.trim().is_empty() => Err(failed(name, "it answered with no text")),
            Some(_) => Ok(self),
        }
    }
}

/// The address or title of a source that an annotation names.
fn source_of(annotation: &Value) -> Option<String> {
    let kind = annotation["type"].as_str()?;
    let named = |field: &str| annotation[kind][field].as_str().or_else(|| annotation[field].as_str());
    ["url", "filename", "title"].iter().find_map(|&field| named(field)).map(str::to_owned)
}

fn refused(name: &str, refusal: &Refusal) -> Failure {
    let body = String::from_utf8_lossy(&refusal.body);
    let error: Value = serde_json::from_str(&body).unwrap_or_default();
    failure_of_status(name, refusal.status, &refusal.headers, error_message(&error["error"]).unwrap_or(&body))
}

fn failed(name: &str, why: &str) -> Failure {
    Failure::new(FailureKind::Tool, format!("{name} failed: {}", short(why)))
}

fn short(text: &str) -> String {
    text.chars().take(MESSAGE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use graph::Retry;
    use scripted::mangled;

    use super::*;
    use crate::tests::{Peer, answer, peer};

    const STREAM: &str = "content-type: text/event-stream; charset=utf-8\r\n";

    fn chunk(text: &str, finish_reason: Option<&str>) -> String {
        let chunk = json!({ "id": "c", "object": "chat.completion.chunk", "choices": [{ "index": 0, "delta": { "content": text }, "finish_reason": finish_reason }] });
        format!("data: {chunk}\n\n")
    }

    async fn speaking(status: &'static str, headers: &'static str, body: String) -> Peer {
        peer(move |_| answer(status, headers, &body)).await
    }

    async fn call(peer: &Peer) -> (Result<Value, Failure>, String) {
        let input = json!({ "messages": [{ "role": "user", "content": "tides?" }], "context": { "capability": "research" } });
        let jobs = scripted::jobs(&[graph::agent("openai/sea", input)]);
        let graph::Effect::CallAgent(called) = &*jobs[0].effect else { panic!("it is a call") };
        let streamed = Arc::new(Mutex::new(String::new()));
        let sink = streamed.clone();
        let progress = Progress::to(move |text| sink.lock().unwrap().push_str(text));
        let agent = Agent::new(&peer.url, PATH, "sea-1", Some("sesame".to_owned())).unwrap();
        let reply = agent.call("sea", &called.input, &jobs[0], &progress).await;
        let streamed = streamed.lock().unwrap().clone();
        (reply.result, streamed)
    }

    #[tokio::test]
    async fn p3_a_call_is_a_streamed_completion_that_completes_the_capability() {
        let cited = json!({ "choices": [{ "delta": { "annotations": [{ "type": "url_citation", "url_citation": { "url": "https://sea.example", "title": "Sea" } }] }, "finish_reason": "stop" }] });
        let usage = json!({ "choices": [], "usage": { "total_tokens": 9 } });
        let frames = format!(": ping\n\n{}{}data: {cited}\n\ndata: {usage}\n\ndata: [DONE]\n\n", chunk("The ", None), chunk("moon.", None));
        let peer = speaking("200 OK", STREAM, frames).await;
        let (reply, streamed) = call(&peer).await;
        let reply = reply.unwrap();
        assert_eq!((streamed.as_str(), &reply["context"]["reports"]["research"]), ("The moon.", &json!("The moon.")));
        let contract: Value = serde_json::from_str(reply["messages"][0]["content"].as_str().unwrap()).unwrap();
        assert_eq!((&contract["completed_capability"], &contract["data"]["sources"]), (&json!("research"), &json!(["https://sea.example"])));
        let request = peer.requests.lock().unwrap().join("\n").to_lowercase();
        let expected = [
            "post /v1/chat/completions",
            "idempotency-key: ",
            "x-baton-depth: 1",
            "authorization: bearer sesame",
            "\"model\":\"sea-1\"",
            "\"stream\":true",
        ];
        for expected in expected {
            assert!(request.contains(expected), "{expected}: {request}");
        }
    }

    #[tokio::test]
    async fn an_agent_that_does_not_stream_answers_with_a_whole_completion() {
        let whole = json!({ "choices": [{ "message": { "role": "assistant", "content": "The moon." }, "finish_reason": "stop" }] });
        let peer = speaking("200 OK", "content-type: application/json\r\n", whole.to_string()).await;
        assert_eq!(call(&peer).await.0.unwrap()["context"]["reports"]["research"], "The moon.");
    }

    #[tokio::test]
    async fn p8_failures_of_a_completion_are_sorted_by_who_can_help() {
        let stream = |frames: String| ("200 OK", STREAM, frames);
        let error = |body: &str| body.to_owned();
        for ((status, headers, body), kind, retry, message) in [
            (stream(chunk("The ", None)), FailureKind::Network, Retry::Yes, "before the end"),
            (stream(String::new()), FailureKind::Network, Retry::Yes, "before the end"),
            (
                stream(format!("{}data: {{\"error\":{{\"message\":\"it hurts\"}}}}\n\n", chunk("x", None))),
                FailureKind::Tool,
                Retry::No,
                "sea failed: it hurts",
            ),
            (stream("data: {nonsense\n\n".to_owned()), FailureKind::Invalid, Retry::Yes, "cannot be read"),
            (stream(chunk("x", Some("length"))), FailureKind::Tool, Retry::No, "cut off"),
            (stream(chunk("x", Some("content_filter"))), FailureKind::Refused, Retry::No, "filter"),
            (stream(chunk("", Some("tool_calls"))), FailureKind::Tool, Retry::No, "given none"),
            (stream("data: [DONE]\n\n".to_owned()), FailureKind::Tool, Retry::No, "no text"),
            (("500 No", "", error(r#"{"error":{"message":"it hurts"}}"#)), FailureKind::Tool, Retry::Yes, "status 500: it hurts"),
            (("429 Slow", "retry-after: 2\r\n", error("")), FailureKind::Refused, Retry::AfterMs(2_000), "429"),
            (("404 No", "", error(r#"{"error":{"message":"no such model"}}"#)), FailureKind::Refused, Retry::No, "no such model"),
            (("200 OK", "", error("<html>")), FailureKind::Invalid, Retry::Yes, "not JSON"),
            (("200 OK", "", error("[1]")), FailureKind::Invalid, Retry::Yes, "no chat completion"),
        ] {
            let peer = speaking(status, headers, body.clone()).await;
            let failure = call(&peer).await.0.unwrap_err();
            assert_eq!((failure.kind, failure.retry), (kind, retry), "{status} {body}: {failure}");
            assert!(failure.message.contains(message), "{failure}");
        }
    }

    #[tokio::test]
    async fn p1_an_agent_is_healthy_if_it_has_the_model_or_lists_none() {
        for (status, body, why) in [
            ("200 OK", r#"{"object":"list","data":[{"id":"sea-1"}]}"#, None),
            ("200 OK", r#"{"data":[{"id":"sea-2"}]}"#, Some("no model \"sea-1\"; set `model` to one of sea-2")),
            ("200 OK", "hello", None),
            ("404 Not Found", "", None),
            ("401 No", "", Some("check its token")),
        ] {
            let peer = speaking(status, "", body.to_owned()).await;
            let described = Agent::new(&peer.url, PATH, "sea-1", None).unwrap().describe().await;
            match why {
                None => assert_eq!(described.map(|known| known.is_some()), Ok(false), "{body}"),
                Some(why) => assert!(described.unwrap_err().contains(why), "{body}"),
            }
        }
    }

    /// Agents answer anything at all. `BATON_MANGLED` says how often.
    #[tokio::test]
    async fn p8_mangled_completions_never_panic_or_hang() {
        let whole: &'static str = format!("{}{}data: [DONE]\n\n", chunk("The moon.", None), chunk("", Some("stop"))).leak();
        let (count, replies) = (mangled::count(), Mutex::new(mangled::mangled(whole.as_bytes(), 0x9e37_79b9_7f4a_7c15)));
        let (mut good, mut chunks) = (0, 0);
        for bytes in mangled::mangled(&chunk("The moon.", Some("stop")).as_bytes()[6..], 0x2545_f491_4f6c_dd1d).take(count) {
            let Ok(reply) = serde_json::from_slice::<ChatReply>(&bytes) else { continue };
            chunks += 1;
            let mut completion = Completion::default();
            if completion.add(reply, &Progress::nowhere()).is_ok() && completion.finish_reason.is_some() {
                good += 1;
            }
        }
        assert!(chunks > 0 && good > 0 && good < count, "{good} of {chunks} of {count}");
        // Whole streams need a connection each, so there are fewer of them.
        let peer = peer(move |_| {
            let body = replies.lock().unwrap().next().unwrap();
            let mut reply = format!("HTTP/1.1 200 OK\r\n{STREAM}connection: close\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
            reply.extend(body);
            reply
        })
        .await;
        let (mut answered, streams) = (0, count.div_ceil(10));
        for _ in 0..streams {
            match call(&peer).await.0 {
                Ok(_) => answered += 1,
                Err(failure) => assert!(!failure.message.is_empty() && failure.message.len() < 4_000, "{failure}"),
            }
        }
        assert!(answered > 0 && answered < streams, "{answered} of {streams}");
    }
}

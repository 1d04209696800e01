//! Models behind HTTP, through genai. This module sets the target explicitly (genai's default for unknown names is Ollama),
//! classifies errors, and treats an answer that ended early as an error.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use genai::adapter::AdapterKind;
use genai::chat::{ChatMessage, ChatOptions, ChatRequest, ChatStreamEvent, JsonSpec, ReasoningEffort, StopReason, Tool};
use genai::resolver::{AuthData, Endpoint as GenaiEndpoint};
use genai::{Headers, ModelIden, ServiceTarget};
use graph::{FailureKind, Key, ModelCall, Usage};
use serde_json::{Value, json};

use super::{Answer, Called, Dialect, Endpoint, Finish, Model, ModelError, ModelOutput, Name, Row, Secret, evidence};
use effects::Progress;

mod sort;

/// Turns off the logs of libraries that print request bodies and tool arguments. A program that logs adds this to its own filter.
pub const LOG_FILTER: &str = "genai=off,h2=off,hyper=off,hyper_util=off,reqwest=off,rmcp=off,rustls=off";

/// The default limit of a run; without it an endless stream would grow until the deadline.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// One model of one endpoint.
pub(crate) struct Remote {
    name: Name,
    connection: Arc<Connection>,
    row: Row,
    key: Option<Secret>,
}

/// The HTTP client and address of an endpoint.
pub(crate) struct Connection {
    client: genai::Client,
    url: String,
    dialect: Dialect,
}

/// Connections, shared by all endpoints: through the system's proxy, and straight to this machine.
#[derive(Clone)]
pub struct Clients {
    out: reqwest::Client,
    here: reqwest::Client,
}

/// Creates the HTTP clients; no connection is opened.
pub fn clients() -> Result<Clients, ModelError> {
    // Both ring and aws-lc-rs may be compiled in, and rustls panics if none was chosen. An earlier choice is kept.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let builder = || {
        reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(10))
            .tcp_keepalive(Duration::from_secs(30))
            // A key must not follow a redirect: only `Authorization` would be held back, not `x-api-key`.
            .redirect(reqwest::redirect::Policy::none())
    };
    let build = |builder: reqwest::ClientBuilder| builder.build().map_err(|e| ModelError::user(format!("no HTTP client can be made: {e}")));
    Ok(Clients { out: build(builder())?, here: build(builder().no_proxy())? })
}

impl Clients {
    pub(crate) fn for_url(&self, url: &reqwest::Url) -> &reqwest::Client {
        let is_here = match url.host_str() {
            Some(host) => {
                let host = host.trim_start_matches('[').trim_end_matches(']');
                host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
            }
            None => false,
        };
        if is_here { &self.here } else { &self.out }
    }
}

impl Connection {
    pub(crate) fn new(clients: &Clients, endpoint: &Endpoint) -> Result<Self, ModelError> {
        let wrong = |why: String| ModelError::user(format!("{:?} is not the address of a model server: {why}", endpoint.url));
        let parsed = reqwest::Url::parse(&endpoint.url).map_err(|e| wrong(e.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(wrong("it must begin with http:// or https://".to_owned()));
        }
        let client = genai::Client::builder().with_reqwest(clients.for_url(&parsed).clone()).build();
        let client = client.map_err(|e| ModelError::user(format!("no client can be made: {e}")))?;
        // genai joins paths to it, and a missing slash would cost the last segment.
        let url = format!("{}/", endpoint.url.trim_end_matches('/'));
        Ok(Connection { client, url, dialect: endpoint.dialect })
    }
}

impl Remote {
    pub(crate) fn new(name: Name, connection: Arc<Connection>, row: Row, key: Option<Secret>) -> Self {
        Remote { name, connection, row, key }
    }

    fn dialect(&self) -> Dialect {
        self.row.dialect.unwrap_or(self.connection.dialect)
    }

    fn target(&self, call: &ModelCall) -> Result<ServiceTarget, ModelError> {
        let (adapter, url) = match self.dialect() {
            Dialect::OpenaiChat => (AdapterKind::OpenAI, self.connection.url.clone()),
            Dialect::OpenaiResponses => (AdapterKind::OpenAIResp, self.connection.url.clone()),
            Dialect::Anthropic => (AdapterKind::Anthropic, self.connection.url.clone()),
            Dialect::Gemini => (AdapterKind::Gemini, self.connection.url.clone()),
            // genai's adapter for Ollama silently drops schemas; Ollama's OpenAI-compatible API does not.
            Dialect::Ollama if self.schema_mode(call) => (AdapterKind::OpenAI, format!("{}v1/", self.connection.url)),
            Dialect::Ollama => (AdapterKind::Ollama, self.connection.url.clone()),
            Dialect::Triton => return Err(ModelError::user(format!("{} uses gRPC; it cannot be called over HTTP", self.name))),
        };
        // Servers without a key get a placeholder; without one, genai would not send the request.
        let key = self.key.as_ref().map_or("none", Secret::reveal);
        Ok(ServiceTarget {
            endpoint: GenaiEndpoint::from_owned(url),
            auth: AuthData::from_single(key),
            model: ModelIden::new(adapter, self.name.model.as_str()),
        })
    }

    /// Strict modes need an object at the root; other schemas go into the prompt.
    fn schema_mode(&self, call: &ModelCall) -> bool {
        let is_object = |schema: &Value| schema.get("type").is_some_and(|kind| kind == "object");
        !self.row.schema_in_words && call.schema.as_ref().is_some_and(is_object)
    }

    fn request(&self, call: &ModelCall) -> Result<ChatRequest, ModelError> {
        let mut messages = Vec::new();
        for message in &evidence::without_evidence_role(&call.messages) {
            let text = message.content.as_str();
            messages.push(match message.role.as_str() {
                "system" => ChatMessage::system(text),
                // Replies name no call ids, so the results of tools are sent as text.
                "user" | "tool" => ChatMessage::user(text),
                "assistant" => ChatMessage::assistant(text),
                other => {
                    return Err(ModelError::user(format!("a message has the role {other:?}; there are system, user, assistant, tool and evidence")));
                }
            });
        }
        if let Some(schema) = &call.schema
            && !self.schema_mode(call)
        {
            messages.push(ChatMessage::system(format!("Answer with JSON alone, without a fence, that fits this JSON schema:\n{schema}")));
        }
        if messages.is_empty() {
            return Err(ModelError::user("the call has no messages"));
        }
        let mut request = ChatRequest::new(messages);
        if !call.tools.is_empty() {
            let tool =
                |spec: &graph::ToolSpec| Tool::new(spec.name.as_str()).with_description(spec.description.as_str()).with_schema(spec.schema.clone());
            request = request.with_tools(call.tools.iter().map(tool).collect::<Vec<_>>());
        }
        Ok(request)
    }

    fn options(&self, call: &ModelCall, key: &Key) -> ChatOptions {
        let mut options = ChatOptions::default().with_capture_usage(true).with_capture_content(true).with_capture_tool_calls(true);
        if let Some(tokens_max) = call.tokens_max {
            options = options.with_max_tokens(tokens_max);
        }
        if let Some(temperature) = call.temperature.filter(|_| !self.row.temperature_fixed) {
            // By way of text, or 0.2 would go out as 0.20000000298.
            options = options.with_temperature(temperature.to_string().parse().unwrap_or_else(|_| f64::from(temperature)));
        }
        if let Some(schema) = call.schema.as_ref().filter(|_| self.schema_mode(call)) {
            options = options.with_response_format(JsonSpec::new(spec_name(&call.purpose), schema.clone()));
        }
        let mut headers = Vec::new();
        match self.dialect() {
            Dialect::OpenaiChat => {
                headers.push(("Idempotency-Key".to_owned(), key.to_string()));
                // genai reads a suffix as an effort and cuts it off (`qwen-max` would go out as `qwen`). A budget, which this
                // dialect has no field for, keeps it from looking.
                options = options.with_reasoning_effort(ReasoningEffort::Budget(0));
            }
            Dialect::OpenaiResponses | Dialect::Anthropic => {
                headers.push(("Idempotency-Key".to_owned(), key.to_string()));
                options = options.with_extra_body(json!({"model": self.name.model}));
            }
            Dialect::Ollama => {
                if let Some(secret) = &self.key {
                    headers.push(("Authorization".to_owned(), format!("Bearer {}", secret.reveal())));
                }
                if self.schema_mode(call) {
                    options = options.with_reasoning_effort(ReasoningEffort::Budget(0));
                }
            }
            Dialect::Gemini | Dialect::Triton => {}
        }
        if headers.is_empty() { options } else { options.with_extra_headers(Headers::from(headers)) }
    }

    async fn at_once(&self, target: ServiceTarget, request: ChatRequest, options: &ChatOptions) -> Result<Answer, genai::Error> {
        let response = self.connection.client.exec_chat(target, request, Some(options)).await?;
        let model = response.provider_model_iden.model_name.to_string();
        let calls: Vec<Called> = response.content.tool_calls().into_iter().map(called).collect();
        let text = response.content.joined_texts().unwrap_or_default();
        Ok(Answer {
            output: model_output(text, calls),
            usage: usage(Some(&response.usage)),
            model: Some(model),
            finish: finish(response.stop_reason.as_ref()),
            notes: Value::Null,
        })
    }

    async fn streamed(&self, target: ServiceTarget, request: ChatRequest, options: &ChatOptions, progress: &Progress) -> Result<Answer, StreamError> {
        let adapter = target.model.adapter_kind;
        let mut stream = self.connection.client.exec_chat_stream(target, request, Some(options)).await?.stream;
        let mut text = String::new();
        while let Some(event) = stream.next().await {
            match event? {
                ChatStreamEvent::Chunk(chunk) => {
                    progress.send(&chunk.content);
                    text.push_str(&chunk.content);
                    if text.len() > ANSWER_BYTES_MAX {
                        return Err(StreamError::TooLong);
                    }
                }
                ChatStreamEvent::End(end) => {
                    // Where a dialect has no closing event, genai makes one up when the connection is lost: only a reason shows
                    // that the model was done.
                    if end.captured_stop_reason.is_none() && adapter != AdapterKind::OpenAI {
                        return Err(StreamError::BrokeOff);
                    }
                    let calls: Vec<Called> = end.captured_tool_calls().unwrap_or_default().into_iter().map(called).collect();
                    return Ok(Answer {
                        output: model_output(text, calls),
                        usage: usage(end.captured_usage.as_ref()),
                        model: None,
                        finish: finish(end.captured_stop_reason.as_ref()),
                        notes: Value::Null,
                    });
                }
                ChatStreamEvent::Start
                | ChatStreamEvent::ReasoningChunk(_)
                | ChatStreamEvent::ThoughtSignatureChunk(_)
                | ChatStreamEvent::ToolCallChunk(_)
                | ChatStreamEvent::Heartbeat => {}
            }
        }
        Err(StreamError::BrokeOff)
    }
}

enum StreamError {
    Genai(genai::Error),
    BrokeOff,
    TooLong,
}

impl From<genai::Error> for StreamError {
    fn from(error: genai::Error) -> Self {
        StreamError::Genai(error)
    }
}

#[async_trait]
impl Model for Remote {
    async fn answer(&self, call: &ModelCall, key: &Key, progress: &Progress) -> Result<Answer, ModelError> {
        let target = self.target(call)?;
        let (request, options) = (self.request(call)?, self.options(call, key));
        let answered = if progress.has_listener() {
            Box::pin(self.streamed(target, request, &options, progress)).await
        } else {
            Box::pin(self.at_once(target, request, &options)).await.map_err(StreamError::from)
        };
        match answered {
            Ok(Answer { finish: Finish::Filtered, .. }) => {
                Err(ModelError::another(FailureKind::Refused, "the provider withheld the answer (content filter)"))
            }
            // Valid JSON of some other service, in which genai finds nothing and does not mind.
            Ok(answer) if answer.usage.is_zero() && answer.finish == Finish::Unknown && answer.output == ModelOutput::Text(String::new()) => {
                Err(ModelError::another(FailureKind::Invalid, "its answer does not have the form of its API: no text, no reason, no usage"))
            }
            Ok(answer) => Ok(answer),
            Err(StreamError::BrokeOff) => Err(ModelError::again(FailureKind::Network, "the answer broke off before its end")),
            Err(StreamError::TooLong) => {
                Err(ModelError::another(FailureKind::Limit, format!("the answer is longer than ANSWER_BYTES_MAX = {ANSWER_BYTES_MAX} bytes")))
            }
            Err(StreamError::Genai(error)) => Err(sort::sorted(&error, &self.name, self.key.as_ref())),
        }
    }
}

fn model_output(text: String, calls: Vec<Called>) -> ModelOutput {
    if calls.is_empty() { ModelOutput::Text(text) } else { ModelOutput::Calls { text, calls } }
}

fn called(call: &genai::chat::ToolCall) -> Called {
    Called { name: call.fn_name.clone(), arguments: call.fn_arguments.clone() }
}

fn usage(usage: Option<&genai::chat::Usage>) -> Usage {
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or_default();
    usage.map_or_else(Usage::default, |usage| Usage {
        tokens_in: count(usage.prompt_tokens),
        tokens_out: count(usage.completion_tokens),
        ..Usage::default()
    })
}

fn finish(reason: Option<&StopReason>) -> Finish {
    match reason {
        Some(StopReason::Completed(_) | StopReason::StopSequence(_)) => Finish::Stop,
        Some(StopReason::MaxTokens(_)) => Finish::Length,
        Some(StopReason::ToolCall(_)) => Finish::ToolCalls,
        Some(StopReason::ContentFilter(_)) => Finish::Filtered,
        Some(StopReason::Other(_)) | None => Finish::Unknown,
    }
}

/// OpenAI takes letters, digits, `-` and `_`, and sixty-four of them.
fn spec_name(purpose: &str) -> String {
    let name: String = purpose.chars().take(64).map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }).collect();
    if name.is_empty() { "reply".to_owned() } else { name }
}

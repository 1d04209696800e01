//! Triton, TensorRT-LLM and other servers of KServe v2 over gRPC.
//!
//! A model there is a set of named tensors and not a chat, so its metadata is asked first and only inputs it declares are sent:
//! the text, and the token limit, the temperature and whether to stream, if it has inputs for them. Messages become one text by a template
//! from the table.
//!
//! The streaming call is tried first, for everyone: a decoupled model answers nothing else, and others answer it with one
//! response. A server that has no such call gets the plain one.

#[allow(clippy::all, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned, unused_qualifications)]
#[expect(missing_docs, reason = "generated from the protocol definition of KServe v2")]
#[rustfmt::skip]
pub mod kserve;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use graph::{FailureKind, Key, ModelCall, Usage};
use serde_json::json;
use tonic::transport::{Channel, ClientTlsConfig};
use tonic::{Code, Request, Status};

use super::table::Template;
use super::utf8::Utf8;
use super::{Answer, Endpoint, Finish, Model, ModelError, ModelOutput, Name, Row, Secret, evidence};
use effects::{Progress, clip};
use kserve::grpc_inference_service_client::GrpcInferenceServiceClient;
use kserve::infer_parameter::ParameterChoice;
use kserve::model_infer_request::InferInputTensor;
use kserve::model_metadata_response::TensorMetadata;
use kserve::{InferParameter, InferTensorContents, ModelInferRequest, ModelInferResponse, ModelMetadataRequest, ModelMetadataResponse};

pub(crate) struct Triton {
    name: Name,
    connection: Arc<Connection>,
    row: Row,
    key: Option<Secret>,
}

/// The channel to a server. It is opened on first use, because a channel needs a runtime.
pub(crate) struct Connection {
    url: String,
    channel: OnceLock<Channel>,
}

impl Connection {
    pub(crate) fn new(endpoint: &Endpoint) -> Self {
        Connection { url: endpoint.url.clone(), channel: OnceLock::new() }
    }

    fn channel(&self) -> Result<Channel, ModelError> {
        if let Some(channel) = self.channel.get() {
            return Ok(channel.clone());
        }
        let wrong = |e: tonic::transport::Error| ModelError::user(format!("{:?} is not the address of a Triton server: {e}", self.url));
        let mut endpoint = Channel::from_shared(self.url.clone()).map_err(|e| ModelError::user(format!("{:?}: {e}", self.url)))?;
        if self.url.starts_with("https://") {
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
            endpoint = endpoint.tls_config(ClientTlsConfig::new().with_native_roots()).map_err(wrong)?;
        }
        let endpoint = endpoint.connect_timeout(Duration::from_secs(10)).keep_alive_while_idle(false);
        Ok(self.channel.get_or_init(|| endpoint.connect_lazy()).clone())
    }
}

impl Triton {
    pub(crate) fn new(name: Name, connection: Arc<Connection>, row: Row, key: Option<Secret>) -> Self {
        Triton { name, connection, row, key }
    }

    fn request<T>(&self, message: T) -> Result<Request<T>, ModelError> {
        let mut request = Request::new(message);
        if let Some(key) = &self.key {
            let mut value: tonic::metadata::MetadataValue<_> =
                format!("Bearer {}", key.reveal()).parse().map_err(|_| ModelError::user("the key holds characters no header can carry"))?;
            value.set_sensitive(true);
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }

    fn sorted(&self, status: &Status) -> ModelError {
        let mut trouble = sorted(status);
        if let Some(key) = &self.key {
            trouble.message = key.redact_in(&trouble.message);
        }
        trouble
    }

    async fn unary(&self, client: &mut GrpcInferenceServiceClient<Channel>, infer: ModelInferRequest, output: &str) -> Result<String, ModelError> {
        let response = client.model_infer(self.request(infer)?).await.map_err(|status| self.sorted(&status))?;
        let bytes = bytes_of(&response.into_inner(), output)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[async_trait]
impl Model for Triton {
    async fn answer(&self, call: &ModelCall, key: &Key, progress: &Progress) -> Result<Answer, ModelError> {
        if !call.tools.is_empty() {
            return Err(ModelError::another(FailureKind::Refused, "a Triton model supports no tools"));
        }
        let mut client = GrpcInferenceServiceClient::new(self.connection.channel()?);
        let wanted = ModelMetadataRequest { name: self.name.model.clone(), version: String::new() };
        let metadata = client.model_metadata(self.request(wanted)?).await.map_err(|status| self.sorted(&status))?.into_inner();
        let output = output_of(&metadata)?;
        let infer = infer(&self.name.model, &metadata, call, key, self.row.template.unwrap_or_default())?;
        let asked = self.request(futures::stream::iter([infer.clone()]))?;
        let text = match client.model_stream_infer(asked).await {
            Ok(response) => {
                let mut stream = response.into_inner();
                let mut text = Utf8::default();
                // A connection that breaks is a status; only a clean end gives `None`.
                while let Some(part) = stream.message().await.map_err(|status| self.sorted(&status))? {
                    if !part.error_message.is_empty() {
                        let words = self.key.as_ref().map_or_else(|| part.error_message.clone(), |key| key.redact_in(&part.error_message));
                        return Err(ModelError::another(FailureKind::Tool, first_and_last_line(&words)));
                    }
                    let Some(response) = part.infer_response else { continue };
                    let is_final = is_final(&response);
                    // The closing response of a decoupled model holds nothing.
                    if !response.outputs.is_empty() || !is_final {
                        progress.send(text.push(&bytes_of(&response, &output)?));
                    }
                    if is_final {
                        break;
                    }
                }
                text.finish(&mut |rest| progress.send(rest))
            }
            Err(status) if status.code() == Code::Unimplemented => {
                let text = self.unary(&mut client, infer, &output).await?;
                progress.send(&text);
                text
            }
            Err(status) => return Err(self.sorted(&status)),
        };
        Ok(Answer {
            output: ModelOutput::Text(text),
            usage: Usage::default(),
            model: None,
            finish: Finish::Unknown,
            notes: json!({"tokens": "unknown"}),
        })
    }
}

/// One request: the inputs the model declares and we have something for, each of as many dimensions of one as it has there.
fn infer(model: &str, metadata: &ModelMetadataResponse, call: &ModelCall, key: &Key, template: Template) -> Result<ModelInferRequest, ModelError> {
    let mut inputs = Vec::new();
    let mut raw = Vec::new();
    let mut has_text = false;
    for tensor in &metadata.inputs {
        let bytes = match (tensor.name.to_lowercase().as_str(), tensor.datatype.as_str()) {
            ("text_input" | "prompt" | "text" | "query" | "input" | "inputs", "BYTES") if !has_text => {
                has_text = true;
                let text = prompt(call, template)?;
                let length = u32::try_from(text.len()).map_err(|_| ModelError::user("the prompt is longer than a tensor can be"))?;
                Some([&length.to_le_bytes()[..], text.as_bytes()].concat())
            }
            ("max_tokens" | "max_output_len" | "request_output_len" | "max_new_tokens", kind) => {
                call.tokens_max.or(is_required(&metadata.platform).then_some(512)).and_then(|tokens| integer(tokens, kind))
            }
            ("temperature", "FP32") => call.temperature.map(|temperature| temperature.to_le_bytes().to_vec()),
            ("stream" | "streaming", "BOOL") => Some(vec![1]),
            _ => None,
        };
        if let Some(bytes) = bytes {
            let shape = vec![1; tensor.shape.len().max(1)];
            let (name, datatype) = (tensor.name.clone(), tensor.datatype.clone());
            inputs.push(InferInputTensor { name, datatype, shape, ..InferInputTensor::default() });
            raw.push(bytes);
        }
    }
    if !has_text {
        let names: Vec<&str> = metadata.inputs.iter().map(|tensor| tensor.name.as_str()).collect();
        return Err(ModelError::user(format!("the model takes no text: its inputs are {}", names.join(", "))));
    }
    // So that even a decoupled model without further output sends that it is done.
    let closing = InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(true)) };
    Ok(ModelInferRequest {
        model_name: model.to_owned(),
        id: key.to_string(),
        parameters: [("triton_enable_empty_final_response".to_owned(), closing)].into(),
        inputs,
        raw_input_contents: raw,
        ..ModelInferRequest::default()
    })
}

/// TensorRT-LLM's ensemble needs a limit in every request.
fn is_required(platform: &str) -> bool {
    platform == "ensemble"
}

fn integer(number: u32, kind: &str) -> Option<Vec<u8>> {
    match kind {
        "INT32" => i32::try_from(number).ok().map(|n| n.to_le_bytes().to_vec()),
        "UINT32" => Some(number.to_le_bytes().to_vec()),
        "INT64" => Some(i64::from(number).to_le_bytes().to_vec()),
        "UINT64" => Some(u64::from(number).to_le_bytes().to_vec()),
        _ => None,
    }
}

fn output_of(metadata: &ModelMetadataResponse) -> Result<String, ModelError> {
    let texts = || metadata.outputs.iter().filter(|tensor: &&TensorMetadata| tensor.datatype == "BYTES");
    let named = texts().find(|tensor| ["text_output", "text", "output", "response"].contains(&tensor.name.to_lowercase().as_str()));
    named
        .or(texts().next())
        .map(|tensor| tensor.name.clone())
        .ok_or_else(|| ModelError::user("the model gives no text: it has no output of type BYTES"))
}

fn is_final(response: &ModelInferResponse) -> bool {
    let flag = response.parameters.get("triton_final_response").and_then(|parameter| parameter.parameter_choice.as_ref());
    matches!(flag, Some(ParameterChoice::BoolParam(true)))
}

/// The text in a response, which may stand in the tensor or, packed, beside it. A piece may end in the middle of a letter.
fn bytes_of(response: &ModelInferResponse, output: &str) -> Result<Vec<u8>, ModelError> {
    let wrong = |why: &str| ModelError::another(FailureKind::Invalid, format!("its answer does not have the form of its API: {why}"));
    let at = response.outputs.iter().position(|tensor| tensor.name == output).ok_or_else(|| wrong(&format!("no output {output}")))?;
    match &response.outputs[at].contents {
        Some(InferTensorContents { bytes_contents, .. }) if !bytes_contents.is_empty() => Ok(bytes_contents.concat()),
        _ => unpacked(response.raw_output_contents.get(at).ok_or_else(|| wrong("the output is empty"))?).ok_or_else(|| wrong("a torn tensor")),
    }
}

/// BYTES tensors are packed: each element's length in four little-endian bytes, then the element.
fn unpacked(mut packed: &[u8]) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    while !packed.is_empty() {
        let (length, rest) = packed.split_first_chunk::<4>()?;
        let (element, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        all.extend_from_slice(element);
        packed = rest;
    }
    Some(all)
}

/// The messages as one text.
fn prompt(call: &ModelCall, template: Template) -> Result<String, ModelError> {
    let messages = evidence::without_evidence_role(&call.messages);
    let mut turns: Vec<(&str, String)> = Vec::new();
    for message in &messages {
        match message.role.as_str() {
            role @ ("system" | "user" | "assistant") => turns.push((role, message.content.clone())),
            "tool" => turns.push(("user", message.content.clone())),
            other => return Err(ModelError::user(format!("a message has the role {other:?}; there are system, user, assistant, tool and evidence"))),
        }
    }
    if let Some(schema) = &call.schema {
        turns.push(("system", format!("Answer with JSON alone, without a fence, that fits this JSON schema:\n{schema}")));
    }
    let mut text = String::new();
    for (role, words) in turns {
        match template {
            Template::Plain => {
                let title = match role {
                    "system" => "System",
                    "assistant" => "Assistant",
                    _ => "User",
                };
                text.push_str(&format!("{title}: {words}\n\n"));
            }
            Template::Chatml => text.push_str(&format!("<|im_start|>{role}\n{words}<|im_end|>\n")),
        }
    }
    text.push_str(match template {
        Template::Plain => "Assistant:",
        Template::Chatml => "<|im_start|>assistant\n",
    });
    Ok(text)
}

/// Shortens the traceback of a model written in Python to its first line and the last one that is not a location.
fn first_and_last_line(message: &str) -> String {
    let is_place = |line: &&str| line.starts_with("At:") || line.starts_with('/') || line.starts_with("File ");
    let mut lines = message.lines().map(str::trim).filter(|line| !line.is_empty() && !is_place(line));
    match (lines.next(), lines.next_back()) {
        (Some(first), Some(last)) if message.len() > 300 => format!("{} … {}", clip(first, 200), clip(last, 300)),
        _ => clip(message, 500),
    }
}

fn sorted(status: &Status) -> ModelError {
    let words = format!("{:?}: {}", status.code(), first_and_last_line(status.message()));
    match status.code() {
        Code::Unavailable | Code::Internal | Code::Unknown | Code::Aborted | Code::Cancelled | Code::DataLoss => {
            ModelError::again(FailureKind::Network, words)
        }
        Code::DeadlineExceeded => ModelError::again(FailureKind::Timeout, words),
        Code::ResourceExhausted => ModelError::again(FailureKind::Refused, words),
        Code::NotFound | Code::Unimplemented | Code::FailedPrecondition | Code::OutOfRange => ModelError::another(FailureKind::Refused, words),
        Code::Unauthenticated | Code::PermissionDenied => ModelError::user(format!("{words}; check the key")),
        Code::InvalidArgument | Code::AlreadyExists | Code::Ok => ModelError::user(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::Message;

    #[test]
    fn packed_texts_are_read_and_torn_ones_refused() {
        assert_eq!(unpacked(&[2, 0, 0, 0, b'h', b'i', 1, 0, 0, 0, b'!']), Some(b"hi!".to_vec()));
        assert_eq!(unpacked(&[]), Some(Vec::new()));
        for torn in [&[1, 0, 0][..], &[9, 0, 0, 0, b'x'], &[255, 255, 255, 255]] {
            assert_eq!(unpacked(torn), None);
        }
    }

    #[test]
    fn the_cause_of_a_traceback_is_reported() {
        let trace = "  File \"/a/model.py\", line 492, in execute\n    raise error\n".repeat(20);
        let message = format!(
            "Failed to process the request(s) for model 'm', message: Traceback:\n{trace}RuntimeError: it fell over\n\nAt:\n  /a/model.py(492): execute\n"
        );
        assert_eq!(first_and_last_line(&message), "Failed to process the request(s) for model 'm', message: Traceback: … RuntimeError: it fell over");
        assert_eq!(first_and_last_line("out of memory"), "out of memory");
        assert_eq!(first_and_last_line("two\nlines"), "two\nlines");
    }

    #[test]
    fn messages_become_one_text() {
        let message = |role: &str, content: &str| Message { role: role.into(), content: content.into() };
        let messages = vec![message("system", "S"), evidence::message("a", "x"), message("user", "U"), evidence::message("b", "y")];
        let call = ModelCall { messages, ..ModelCall::default() };
        let text = prompt(&call, Template::Plain).unwrap();
        assert_eq!(text, "System: S\n\nUser: Evidence, to be cited by number:\n\n[1] a\nx\n\n[2] b\ny\n\nUser: U\n\nAssistant:");
        assert!(prompt(&call, Template::Chatml).unwrap().starts_with("<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n"));
    }
}

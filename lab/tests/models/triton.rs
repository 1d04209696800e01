//! Triton over gRPC, against a KServe v2 server in this process with scripted behaviour.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use futures::{Stream, StreamExt};
use graph::{FailureKind, Retry};
use models::triton::kserve::infer_parameter::ParameterChoice;
use models::triton::kserve::model_infer_response::InferOutputTensor;
use models::triton::kserve::model_metadata_response::TensorMetadata;
use models::triton::kserve::{
    InferParameter, ModelInferRequest, ModelInferResponse, ModelMetadataRequest, ModelMetadataResponse, ModelReadyRequest, ModelReadyResponse,
    ModelStreamInferResponse,
};
use models::{Models, Table};
use serde_json::json;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::kserve_server::grpc_inference_service_server::{GrpcInferenceService, GrpcInferenceServiceServer};
use crate::{SECRET, ask, key, question, with_schema, with_tools};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Behaviour {
    /// Word by word, and then an empty final response.
    Decoupled(&'static str),
    /// One response to the streaming call.
    Whole(&'static str),
    /// Has no streaming call, as other servers than Triton.
    PlainOnly(&'static str),
    /// A status instead of an answer.
    Refuses(Code),
    /// An error message in the stream, after a word.
    GivesUp,
    /// A status in the stream, after a word.
    BreaksOff,
    /// Pieces that end inside a character.
    CutsLetters(&'static str),
    /// A tensor with a wrong length.
    Torn,
    /// Accepts the request and never replies.
    Hangs,
    /// Expects numbers.
    NoText,
}

struct Fake {
    behaviour: Behaviour,
    seen: Arc<Mutex<Vec<(ModelInferRequest, String)>>>,
}

fn response(text: Option<&str>, is_final: bool) -> ModelInferResponse {
    let mut response = ModelInferResponse { model_name: "ensemble".into(), ..ModelInferResponse::default() };
    if let Some(text) = text {
        let tensor = InferOutputTensor { name: "text_output".into(), datatype: "BYTES".into(), shape: vec![1, 1], ..InferOutputTensor::default() };
        response.outputs.push(tensor);
        response.raw_output_contents.push([&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat());
    }
    let flag = InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(is_final)) };
    response.parameters.insert("triton_final_response".into(), flag);
    response
}

type Parts = Pin<Box<dyn Stream<Item = Result<ModelStreamInferResponse, Status>> + Send>>;

#[tonic::async_trait]
impl GrpcInferenceService for Fake {
    async fn model_ready(&self, _: Request<ModelReadyRequest>) -> Result<Response<ModelReadyResponse>, Status> {
        Ok(Response::new(ModelReadyResponse { ready: true }))
    }

    async fn model_metadata(&self, request: Request<ModelMetadataRequest>) -> Result<Response<ModelMetadataResponse>, Status> {
        if let Behaviour::Refuses(code) = self.behaviour {
            let token = request.metadata().get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
            return Err(Status::new(code, format!("it hurts, says {token}")));
        }
        let tensor = |name: &str, datatype: &str| TensorMetadata { name: name.into(), datatype: datatype.into(), shape: vec![-1, 1] };
        let inputs = match self.behaviour {
            Behaviour::NoText => vec![tensor("input_ids", "INT32")],
            _ => vec![
                tensor("text_input", "BYTES"),
                tensor("max_tokens", "INT32"),
                tensor("temperature", "FP32"),
                tensor("stream", "BOOL"),
                tensor("seed", "UINT64"),
            ],
        };
        let outputs = vec![tensor("context_logits", "FP32"), tensor("text_output", "BYTES")];
        Ok(Response::new(ModelMetadataResponse {
            name: request.into_inner().name,
            platform: "ensemble".into(),
            inputs,
            outputs,
            ..Default::default()
        }))
    }

    async fn model_infer(&self, request: Request<ModelInferRequest>) -> Result<Response<ModelInferResponse>, Status> {
        self.seen.lock().expect("lock").push((request.into_inner(), String::new()));
        match self.behaviour {
            Behaviour::PlainOnly(text) => Ok(Response::new(response(Some(text), true))),
            _ => Err(Status::failed_precondition("ModelInfer RPC doesn't support models with decoupled transaction policy")),
        }
    }

    type ModelStreamInferStream = Parts;

    async fn model_stream_infer(&self, request: Request<Streaming<ModelInferRequest>>) -> Result<Response<Parts>, Status> {
        if let Behaviour::PlainOnly(_) = self.behaviour {
            return Err(Status::unimplemented("no such call"));
        }
        let token = request.metadata().get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let asked = request.into_inner().message().await?.ok_or_else(|| Status::invalid_argument("nothing asked"))?;
        self.seen.lock().expect("lock").push((asked, token));
        let part = |response| Ok(ModelStreamInferResponse { error_message: String::new(), infer_response: Some(response) });
        let words = |text: &'static str| text.split_inclusive(' ').map(move |word| part(response(Some(word), false)));
        let mut parts: Vec<Result<ModelStreamInferResponse, Status>> = match self.behaviour {
            Behaviour::Decoupled(text) => words(text).chain([part(response(None, true))]).collect(),
            Behaviour::Whole(text) => vec![part(response(Some(text), true))],
            Behaviour::GivesUp => vec![Ok(ModelStreamInferResponse { error_message: "out of memory".into(), infer_response: None })],
            Behaviour::BreaksOff => vec![Err(Status::unavailable("gone"))],
            Behaviour::CutsLetters(text) => {
                let bytes = |byte: &u8| {
                    let mut piece = response(Some(""), false);
                    piece.raw_output_contents = vec![vec![1, 0, 0, 0, *byte]];
                    part(piece)
                };
                text.as_bytes().iter().map(bytes).chain([part(response(None, true))]).collect()
            }
            Behaviour::Torn => {
                let mut torn = response(Some("x"), true);
                torn.raw_output_contents[0][0] = 200;
                vec![part(torn)]
            }
            Behaviour::Hangs => vec![],
            Behaviour::PlainOnly(_) | Behaviour::Refuses(_) | Behaviour::NoText => vec![Err(Status::internal("not asked for"))],
        };
        if matches!(self.behaviour, Behaviour::GivesUp | Behaviour::BreaksOff) {
            parts.insert(0, part(response(Some("Hello "), false)));
        }
        let parts = futures::stream::iter(parts);
        Ok(Response::new(if self.behaviour == Behaviour::Hangs { Box::pin(parts.chain(futures::stream::pending())) } else { Box::pin(parts) }))
    }
}

struct Tried {
    outcome: Option<crate::Outcome>,
    seen: Vec<(ModelInferRequest, String)>,
}

async fn check(behaviour: Behaviour, call: &graph::ModelCall, streaming: bool) -> Tried {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let seen: Arc<Mutex<Vec<_>>> = Arc::default();
    let service = GrpcInferenceServiceServer::new(Fake { behaviour, seen: seen.clone() });
    let incoming = futures::stream::unfold(listener, |listener| async move { Some((listener.accept().await.map(|(stream, _)| stream), listener)) });
    let serving = tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(Box::pin(incoming)));
    let table = json!({"endpoints": {"triton": {"url": url, "dialect": "triton", "key": {"env": "LAB_KEY"}}}, "models": {"triton/ensemble": {"template": "chatml"}}});
    let table: Table = serde_json::from_value(table).expect("a table");
    let env = |name: &str| (name == "LAB_KEY").then(|| SECRET.to_owned());
    let models = Models::new(table.with_defaults(), "triton/ensemble".parse().expect("a name"), &env).expect("models");
    let outcome = ask(&models, call, streaming).await;
    serving.abort();
    let seen = seen.lock().expect("lock").clone();
    Tried { outcome, seen }
}

async fn failure(behaviour: Behaviour) -> graph::Failure {
    let outcome = check(behaviour, &question(), true).await.outcome.unwrap_or_else(|| panic!("{behaviour:?}: late"));
    match outcome.reply.result {
        Err(failure) => failure,
        Ok(value) => panic!("{behaviour:?}: {value}"),
    }
}

#[tokio::test]
async fn r10_decoupled_models_stream_and_others_answer_whole() {
    for behaviour in
        [Behaviour::Decoupled("Hello there, reader."), Behaviour::Whole("Hello there, reader."), Behaviour::PlainOnly("Hello there, reader.")]
    {
        for streaming in [false, true] {
            let tried = check(behaviour, &question(), streaming).await;
            let outcome = tried.outcome.expect("in time");
            assert_eq!(outcome.reply.result, Ok(json!("Hello there, reader.")), "{behaviour:?}");
            assert_eq!(outcome.streamed, if streaming { "Hello there, reader." } else { "" }, "{behaviour:?}");
            assert_eq!(outcome.reply.about.expect("about")["tokens"], json!("unknown"));
            assert_eq!(tried.seen.len(), 1);
        }
    }
}

#[tokio::test]
async fn characters_cut_between_chunks_are_returned_whole() {
    let outcome = check(Behaviour::CutsLetters("schön 😀"), &question(), true).await.outcome.expect("in time");
    assert_eq!((outcome.reply.result, outcome.streamed.as_str()), (Ok(json!("schön 😀")), "schön 😀"));
}

#[tokio::test]
async fn only_declared_inputs_are_sent_in_their_own_types() {
    let tried = check(Behaviour::Decoupled("x"), &question(), false).await;
    let (asked, token) = &tried.seen[0];
    assert_eq!(*token, format!("Bearer {SECRET}"));
    assert_eq!((asked.model_name.as_str(), &asked.id), ("ensemble", &key().to_string()));
    let inputs: Vec<(&str, &str, &[i64])> =
        asked.inputs.iter().map(|input| (input.name.as_str(), input.datatype.as_str(), &input.shape[..])).collect();
    let shape = &[1, 1][..];
    assert_eq!(inputs, [("text_input", "BYTES", shape), ("max_tokens", "INT32", shape), ("temperature", "FP32", shape), ("stream", "BOOL", shape)]);
    let text = String::from_utf8_lossy(&asked.raw_input_contents[0][4..]);
    assert_eq!(text, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nSay hello.<|im_end|>\n<|im_start|>assistant\n");
    assert_eq!(asked.raw_input_contents[0][..4], (text.len() as u32).to_le_bytes());
    assert_eq!(asked.raw_input_contents[1..], [64_i32.to_le_bytes().to_vec(), 0.2_f32.to_le_bytes().to_vec(), vec![1]]);
}

#[tokio::test]
async fn json_is_validated_here_too() {
    let tried = check(Behaviour::Decoupled("Sure: {\"steps\": [\"look\"]}"), &with_schema(), false).await;
    assert_eq!(tried.outcome.expect("in time").reply.result, Ok(json!({"steps": ["look"]})));
    assert!(String::from_utf8_lossy(&tried.seen[0].0.raw_input_contents[0]).contains("fits this JSON schema"));
}

#[tokio::test]
async fn failures_are_sorted_and_reported() {
    for (behaviour, kind, retry, words) in [
        (Behaviour::Refuses(Code::Unavailable), FailureKind::Network, Retry::Yes, "it hurts"),
        (Behaviour::Refuses(Code::ResourceExhausted), FailureKind::Refused, Retry::Yes, "it hurts"),
        (Behaviour::Refuses(Code::NotFound), FailureKind::Refused, Retry::No, "it hurts"),
        (Behaviour::Refuses(Code::Unauthenticated), FailureKind::Refused, Retry::No, "check the key"),
        (Behaviour::GivesUp, FailureKind::Tool, Retry::No, "out of memory"),
        (Behaviour::BreaksOff, FailureKind::Network, Retry::Yes, "gone"),
        (Behaviour::Torn, FailureKind::Invalid, Retry::No, "torn"),
        (Behaviour::NoText, FailureKind::Refused, Retry::No, "input_ids"),
    ] {
        let failure = failure(behaviour).await;
        assert_eq!((failure.kind, failure.retry), (kind, retry), "{behaviour:?}: {failure}");
        assert!(failure.message.contains(words) && !failure.message.contains(SECRET), "{behaviour:?}: {failure}");
    }
    assert!(check(Behaviour::Hangs, &question(), true).await.outcome.is_none(), "the deadline ends it");
    let refused = check(Behaviour::Whole("x"), &with_tools(), false).await.outcome.expect("in time").reply.result;
    assert!(refused.expect_err("no tools").message.contains("tools"));
}

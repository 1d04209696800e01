//! The embedded model as one model among others.

use async_trait::async_trait;
use graph::{FailureKind, Key, ModelCall, Usage};
use serde_json::json;

use super::{Embedded, EmbeddedError, Finish, GeneratedOutput, Tokens};
use effects::Progress;
use models::{self as model, Model, evidence};

#[async_trait]
impl Model for Embedded {
    async fn answer(&self, call: &ModelCall, _key: &Key, progress: &Progress) -> Result<model::Answer, model::ModelError> {
        if !call.tools.is_empty() {
            let message = "the embedded model calls no tools by itself; a flow that wants a call from it asks for a plan by schema";
            return Err(model::ModelError::another(FailureKind::Refused, message));
        }
        let call = ModelCall { messages: evidence::without_evidence_role(&call.messages), ..call.clone() };
        let super::Answer { output, finish, tokens, timing, network: _ } = Embedded::answer(self, &call, progress).await?;
        let Tokens { prompt, cached, answer, forced } = tokens;
        let mut notes = json!({"tokens_cached": cached, "tokens_forced": forced});
        if !timing.load.is_zero() {
            notes["load_ms"] = json!(timing.load.as_millis() as u64);
        }
        Ok(model::Answer {
            output: match output {
                GeneratedOutput::Text(text) => model::ModelOutput::Text(text),
                GeneratedOutput::Json(value) => model::ModelOutput::Json(value),
            },
            // The embedded model has no price per token.
            usage: Usage { tokens_in: prompt as u64, tokens_out: answer as u64, ..Usage::default() },
            model: None,
            finish: match finish {
                Finish::Stop => model::Finish::Stop,
                Finish::Length => model::Finish::Length,
            },
            notes,
        })
    }
}

impl From<EmbeddedError> for model::ModelError {
    fn from(error: EmbeddedError) -> Self {
        let (kind, message) = (error.kind(), error.to_string());
        match error {
            EmbeddedError::Busy { .. } | EmbeddedError::Cancelled => model::ModelError::again(kind, message),
            EmbeddedError::BadRequest { .. } => model::ModelError { kind, ..model::ModelError::user(message) },
            EmbeddedError::NotBuilt
            | EmbeddedError::NoWeights { .. }
            | EmbeddedError::Damaged { .. }
            | EmbeddedError::BadKernels { .. }
            | EmbeddedError::TooLong { .. }
            | EmbeddedError::BadSchema { .. }
            | EmbeddedError::Truncated { .. }
            | EmbeddedError::Bug { .. } => model::ModelError::another(kind, message),
        }
    }
}

//! `POST …/batch`: many inputs with one configuration, or with one each.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use futures::StreamExt as _;
use futures::stream::FuturesOrdered;
use serde_json::Value;
use wire::langserve::{Batch, BatchMetadata, Batched, Configs, ResponseMetadata};

use super::{Call, Caller, RawJson, Refused, RunConfig, Service, json_of, read, uuid_of};

/// Runs of one batch that go at once; the others wait.
const AT_ONCE_MAX: usize = 32;
const INPUTS_MAX: usize = 1_000;
/// Of all outputs together, as JSON.
const OUTPUTS_BYTES_MAX: usize = 32 << 20;

pub(super) async fn batch(
    State(service): State<Service>,
    Path(path): Path<String>,
    caller: Caller,
    RawJson(body): RawJson,
) -> Result<Response, Refused> {
    service.served(&path)?;
    let batch = read(&body)?;
    drop(body);
    Ok(json_of(StatusCode::OK, &batched(&service, &path, &caller, batch).await?))
}

async fn batched(service: &Service, path: &str, caller: &Caller, batch: Batch) -> Result<Batched, Refused> {
    let served = service.served(path)?;
    let Batch { inputs, config, .. } = batch;
    if inputs.len() > INPUTS_MAX {
        return Err(Refused::wrong("too_long", &["inputs"], format!("a batch has at most {INPUTS_MAX} inputs, not {}", inputs.len())));
    }
    let configs = match config {
        // Checked once, and shared by all inputs.
        Configs::One(config) => vec![RunConfig::of(service, served, caller, &config).await?],
        Configs::Each(configs) if configs.len() == inputs.len() => {
            let mut checked = Vec::with_capacity(configs.len());
            for config in configs {
                checked.push(RunConfig::of(service, served, caller, &config).await?);
            }
            checked
        }
        Configs::Each(configs) => {
            let words = format!("Number of configs ({}) must match number of inputs ({})", configs.len(), inputs.len());
            return Err(Refused::plain(StatusCode::UNPROCESSABLE_ENTITY, words));
        }
    };
    // All are checked before any is begun.
    let mut calls = Vec::with_capacity(inputs.len());
    for ((index, input), config) in inputs.into_iter().enumerate().zip(configs.iter().cycle()) {
        calls.push(Call::of(service, served, caller, input, config, Some(index))?);
    }
    let (mut output, mut about, mut bytes) = (Vec::new(), BatchMetadata::default(), 0);
    let mut waiting = calls.into_iter();
    let mut going: FuturesOrdered<_> = waiting.by_ref().take(AT_ONCE_MAX).map(|call| service.finish(call)).collect();
    while let Some(finished) = going.next().await {
        let (run, value) = finished?;
        bytes = added(bytes, &value)?;
        output.push(value);
        about.responses.push(ResponseMetadata { run_id: uuid_of(&run), feedback_tokens: Vec::new() });
        about.run_ids.push(uuid_of(&run));
        going.extend(waiting.next().map(|call| service.finish(call)));
    }
    Ok(Batched { output, metadata: about })
}

/// The bytes of the outputs so far with one more; refused if they are too many for one response.
fn added(bytes: usize, output: &Value) -> Result<usize, Refused> {
    let bytes = bytes + output.to_string().len();
    match bytes <= OUTPUTS_BYTES_MAX {
        true => Ok(bytes),
        false => {
            let words = format!("the outputs of this batch have more than {OUTPUTS_BYTES_MAX} bytes; send fewer inputs at once");
            Err(Refused::plain(StatusCode::PAYLOAD_TOO_LARGE, words))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A thousand outputs of some megabytes each would be held in memory until the last run ends.
    #[test]
    fn the_outputs_of_a_batch_are_bounded() {
        let large = json!("x".repeat(OUTPUTS_BYTES_MAX / 4));
        let mut bytes = 0;
        for _ in 0..3 {
            bytes = added(bytes, &large).map_err(|refused| refused.message()).unwrap();
        }
        assert!(added(bytes, &large).is_err());
        assert!(added(bytes, &json!({})).is_ok());
    }
}

//! `POST …/batch`: many inputs with one configuration, or with one each.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use futures::StreamExt as _;
use futures::stream::FuturesOrdered;
use wire::langserve::{Batch, BatchMetadata, Batched, Configs, ResponseMetadata};

use super::{Call, Caller, RawJson, Refused, RunConfig, Service, json_of, read, uuid_of};

/// Runs of one batch that go at once; the others wait.
const AT_ONCE_MAX: usize = 32;
const INPUTS_MAX: usize = 1_000;

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
    let (mut output, mut about) = (Vec::new(), BatchMetadata::default());
    let mut waiting = calls.into_iter();
    let mut going: FuturesOrdered<_> = waiting.by_ref().take(AT_ONCE_MAX).map(|call| service.finish(call)).collect();
    while let Some(finished) = going.next().await {
        let (run, value) = finished?;
        output.push(value);
        about.responses.push(ResponseMetadata { run_id: uuid_of(&run), feedback_tokens: Vec::new() });
        about.run_ids.push(uuid_of(&run));
        going.extend(waiting.next().map(|call| service.finish(call)));
    }
    Ok(Batched { output, metadata: about })
}

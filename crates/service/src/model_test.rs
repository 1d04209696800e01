//! Whether a model answers: one short question, with the keys and endpoints as they are now and without fallbacks.

use std::time::{Duration, Instant};

use effects::Progress;
use graph::{Key, Message, ModelCall, TaskId};
use models::{Family, Models, Name, Table};
use server::problem::Problem;
use wire::api;

use crate::config::Config;

const PATIENCE: Duration = Duration::from_secs(30);
const TOKENS_MAX: u32 = 64;
const TEXT_CHARS_MAX: usize = 200;

pub(crate) async fn test(name: Name, config: &Config) -> Result<api::TestedModel, Problem> {
    if matches!(name.family, Family::Embedded | Family::Extract) {
        return Err(Problem::invalid("this model is part of the server and needs no key; ask it a question"));
    }
    let table = Table { fallbacks: Vec::new(), ..config.table() };
    let models = Models::new(table, name.clone(), &|name| config.key(name)).map_err(|error| Problem::conflict(error.message))?;
    let messages = vec![Message { role: "user".to_owned(), content: "Answer with the one word: ready".to_owned() }];
    let call = ModelCall { purpose: "test".to_owned(), messages, tokens_max: Some(TOKENS_MAX), ..ModelCall::default() };
    let run = engine::new_run_id();
    let key = Key::of(&run.as_str().into(), &run, TaskId { step: 0, index: 0 });
    let began = Instant::now();
    let answered = tokio::time::timeout(PATIENCE, models.answer(&call, &key, &Progress::nowhere())).await;
    let reply = answered.map_err(|_| Problem::conflict(format!("{name} did not answer within {} s", PATIENCE.as_secs())))?;
    let value = reply.result.map_err(|failure| Problem::conflict(failure.message))?;
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(api::TestedModel { model: name.to_string(), text: text.chars().take(TEXT_CHARS_MAX).collect(), took_ms })
}

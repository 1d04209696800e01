//! Answers a question about a text file, durably: a run that is interrupted goes on where it stopped.
//!
//!     new_flow QUESTION FILE
//!
//! `BATON_MODEL` names the model (`openai/…`, `anthropic/…`, `ollama/…`); without it sentences are quoted from the file and no model is called.
//! `SENTENCES` limits the answer, `RUNS` names the database (`runs.db` otherwise).

mod flow;

use std::sync::Arc;

use baton::models::{Models, Name, Table};
use baton::{Engine, Order, RunState, Settings, SqliteSettings, SqliteStore};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [question, file] = arguments.as_slice() else { return Err("usage: new_flow QUESTION FILE".into()) };
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file} cannot be read: {error}"))?;
    let env = |variable: &str| std::env::var(variable).ok().filter(|value| !value.is_empty());
    let mut settings = flow::Settings::default();
    if let Some(sentences) = env("SENTENCES") {
        settings.sentences = sentences.parse().map_err(|_| format!("SENTENCES must be a number, not {sentences:?}"))?;
    }

    let name = env("BATON_MODEL").map_or_else(|| Ok(Name::extract()), |name| name.parse())?;
    let models = Models::new(Table::default(), name, &env)?;
    let store = SqliteStore::open(env("RUNS").unwrap_or_else(|| "runs.db".into()), SqliteSettings::default())?;
    let engine = Engine::new(Arc::new(store), Arc::new(models), [flow::flow()?], Settings::default());

    let input = json!({ "question": question, "source": file, "text": text, "settings": settings });
    let (run, at) = engine.perform(Order::new(flow::NAME, input)).await?;
    let RunState::Over(closing) = at else { return Err(format!("run {run} waits: {at:?}").into()) };
    match closing.outcome.output() {
        Some(output) => println!("{}", output["answer"].as_str().unwrap_or_default()),
        None => return Err(format!("run {run} failed: {:?}", closing.outcome).into()),
    }
    Ok(())
}

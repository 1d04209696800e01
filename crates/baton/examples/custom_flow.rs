//! A flow of one's own in one file: it asks for a name's length through a tool, asks a person whether that is enough, and ends.
//! Runs durably in a SQLite file; a scripted performer stands in for the tool, so that the example needs nothing else.

use std::sync::Arc;

use baton::{Ask, END, Engine, Go, Graph, Order, Replies, RunState, Settings, SqliteSettings, SqliteStore, person, tool};
use scripted::ScriptedHandler;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct State {
    name: String,
    length: u64,
    verdict: String,
}

fn flow() -> Result<Graph, baton::GraphError> {
    Graph::of::<State>("measure")
        .node(
            "measure",
            (
                |state: &State| Ask::one(tool("text.length", json!({ "text": state.name }))),
                |state: &mut State, replies: &Replies<'_>| {
                    state.length = replies.parse(0).unwrap_or_default();
                    Go::to("confirm")
                },
            ),
            &["confirm"],
        )
        .node(
            "confirm",
            (
                |state: &State| Ask::one(person(format!("{} characters. Enough?", state.length))),
                |state: &mut State, replies: &Replies<'_>| {
                    state.verdict = replies.parse(0).unwrap_or_default();
                    Go::end()
                },
            ),
            &[END],
        )
        .build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = Arc::new(SqliteStore::open(folder.path().join("runs.db"), SqliteSettings::default())?);
    let tools = Arc::new(ScriptedHandler::parse("when tool text.length reply 12")?);
    let engine = Engine::new(store, tools, [flow()?], Settings::default());

    let (run, at) = engine.perform(Order::new("measure", json!({ "name": "Ada Lovelace" }))).await?;
    let RunState::Parked(questions) = at else { return Err("the flow asks a person".into()) };
    println!("{}", questions[0].question.prompt);
    engine.answer(&run, questions[0].task, 1, json!("yes")).await?;

    match engine.wait(&run).await? {
        RunState::Over(closing) => println!("{}", closing.outcome.output().ok_or("the run failed")?),
        other => return Err(format!("the run is not over: {other:?}").into()),
    }
    Ok(())
}

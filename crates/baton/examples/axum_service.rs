//! The engine inside an axum service: one route starts a run and returns its output. The example sends itself one request and ends.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use baton::{Ask, END, Engine, Go, Graph, MemoryStore, Order, Replies, RunState, Settings, tool};
use scripted::ScriptedHandler;
use serde_json::{Value, json};

async fn run(State(engine): State<Engine>, Json(input): Json<Value>) -> Result<Json<Value>, (StatusCode, String)> {
    let (_, at) = engine.perform(Order::new("translate", input)).await.map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
    match at {
        RunState::Over(closing) => match closing.outcome.output() {
            Some(output) => Ok(Json(output.clone())),
            None => Err((StatusCode::BAD_GATEWAY, format!("{:?}", closing.outcome))),
        },
        other => Err((StatusCode::ACCEPTED, format!("{other:?}"))),
    }
}

fn flow() -> Result<Graph, baton::GraphError> {
    let translate = (
        |state: &Value| Ask::one(tool("dictionary.translate", state.clone())),
        |state: &mut Value, replies: &Replies<'_>| match replies.value(0) {
            Ok(word) => {
                state["translation"] = word.clone();
                Go::end()
            }
            Err(failure) => Go::fail(failure.message),
        },
    );
    Graph::of::<Value>("translate").node("translate", translate, &[END]).build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tools = ScriptedHandler::parse("when tool dictionary.translate reply \"relay\"")?;
    let engine = Engine::new(Arc::new(MemoryStore::new()), Arc::new(tools), [flow()?], Settings::default());
    let service = Router::new().route("/translate", post(run)).with_state(engine);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/translate", listener.local_addr()?);
    let server = tokio::spawn(async move { axum::serve(listener, service).await });

    let reply: Value = reqwest::Client::new().post(url).json(&json!({ "word": "Staffel" })).send().await?.error_for_status()?.json().await?;
    println!("{}", reply["translation"]);
    server.abort();
    Ok(())
}

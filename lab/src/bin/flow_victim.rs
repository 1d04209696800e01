//! The process that `tests/kill_flows.rs` kills: `flow_victim ERRAND`, where the errand is JSON (`baton_lab::kill::real::VictimArguments`).

use std::sync::Arc;

use baton_lab::kill::real::{self, VictimArguments};
use baton_lab::kill::traces::Traces;
use baton_lab::kill::victim::{Result, VictimSetup, live};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [sent] = words.as_slice() else { return Err("usage: flow_victim ERRAND".into()) };
    let sent: VictimArguments = serde_json::from_str(sent)?;
    let handler = Arc::new(sent.setup().handler().await);
    let folder = sent.folder.clone();
    let person = Box::new(move |traces: &Traces, key, waiting: &graph::Waiting| real::person(&folder, traces, key, waiting));
    let life = VictimSetup { traces: Traces::open(&sent.folder, sent.life)?, order: real::order, person };
    live(&sent.folder, handler, flows::all()?, sent.first..sent.target, life).await
}

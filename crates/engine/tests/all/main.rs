//! The embedded engine over a scripted world and the memory store: what a run's user sees, through every turn a run can take.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod abandoned;
mod children;
mod crashes;
mod dispatched;
mod flows;
mod fork_replay;
mod going;
mod memory;
mod models;
mod people;
mod permissions;
mod shutdown;
mod takeovers;
mod trees;
mod watching;

use std::sync::Arc;

use baton_engine::{Engine, Order, RunState, Settings};
use graph::{Event, Graph, NumberedEvent, Outcome, RunId};
use scripted::{ExternalState, ScriptedHandler};
use serde_json::Value;
use store::{MemoryStore, Store};

/// What stays when an engine goes: the store, and what happened outside.
#[derive(Clone)]
struct Fixture {
    store: Arc<dyn Store>,
    outside: Arc<ExternalState>,
}

impl Fixture {
    fn new() -> Self {
        Fixture { store: Arc::new(MemoryStore::new()), outside: Arc::default() }
    }

    /// A new process from the store's point of view. The earlier ones have exited.
    fn engine(&self, script: &str, flows: Vec<Graph>) -> Engine {
        let handler = ScriptedHandler::with_outside(script, self.outside.clone()).expect("the script is right");
        Engine::new(self.store.clone(), Arc::new(handler), flows, Settings { is_gone: Arc::new(|_| true), ..Settings::default() })
    }

    fn calls(&self, name: &str) -> usize {
        self.outside.calls().iter().filter(|call| call.name == name).count()
    }
}

async fn start(engine: &Engine, flow: &str, input: Value) -> RunId {
    engine.start(Order::new(flow, input)).await.expect("it starts")
}

async fn outcome(engine: &Engine, run: &RunId) -> Outcome {
    match engine.wait(run).await.expect("it comes to rest") {
        RunState::Over(closing) => closing.outcome.clone(),
        other => panic!("not over: {other:?}"),
    }
}

async fn output(engine: &Engine, run: &RunId) -> Value {
    outcome(engine, run).await.output().expect("it ends well").clone()
}

async fn events(engine: &Engine, run: &RunId, from_seq: u64) -> Vec<NumberedEvent> {
    let mut watcher = engine.watch(run, from_seq);
    let mut all = Vec::new();
    while let Some(seen) = watcher.next().await {
        if let baton_engine::FeedItem::Event(numbered, _) = seen.expect("it can be watched") {
            all.push((*numbered).clone());
        }
    }
    all
}

fn names(events: &[NumberedEvent]) -> Vec<&'static str> {
    events
        .iter()
        .map(|numbered| match numbered.event {
            Event::Started { .. } => "started",
            Event::Entered { .. } => "entered",
            Event::Asked { .. } => "asked",
            Event::Replied { .. } => "replied",
            Event::Skipped { .. } => "skipped",
            Event::Doubted { .. } => "doubted",
            Event::Held { .. } => "held",
            Event::Noted { .. } => "noted",
            Event::Said { .. } => "said",
            Event::Left { .. } => "left",
            Event::Edited { .. } => "edited",
            Event::Ended { .. } => "ended",
        })
        .collect()
}

//! Whole flows: engine, effect handlers, built-in tools, and local external services.

#![allow(clippy::unwrap_used, reason = "helpers of a test are as free as the test")]

mod bad_input;
mod context;
mod hanging;
mod http;
mod permissions;
mod replay;

use std::sync::Arc;

use baton_lab::person::{Person, agreeable, through};
use baton_lab::setup::profile;
use effects::EffectHandler;
use engine::{Engine, Order, RunResult, Settings};
use serde_json::{Value, json};
use store::{SqliteSettings, SqliteStore};
use tempfile::TempDir;

/// The flows that a user may choose.
pub(crate) const FLOWS: [&str; 7] = ["search", "chat", "reason", "panel", "auto", "direct", "report"];

/// A folder with a database and all other files.
pub(crate) struct FlowFixture {
    pub(crate) folder: TempDir,
}

impl FlowFixture {
    pub(crate) fn new() -> FlowFixture {
        FlowFixture { folder: tempfile::tempdir().unwrap() }
    }

    /// A new process from the store's point of view; the earlier ones are dead.
    pub(crate) fn engine(&self, handler: impl EffectHandler) -> Engine {
        let store = SqliteStore::open(self.folder.path().join("lab.db"), SqliteSettings::default()).unwrap();
        let settings = Settings { is_gone: Arc::new(|_| true), ..Settings::default() };
        Engine::new(Arc::new(store), Arc::new(handler), flows::all().unwrap(), settings)
    }
}

/// The input of these tests.
pub(crate) fn input(question: &str, more: Value) -> Value {
    let mut input = json!({ "question": question, "model": profile() });
    let (Value::Object(fields), Value::Object(more)) = (&mut input, more) else { panic!("an object") };
    fields.extend(more);
    input
}

/// Drives a run to its end, with a person who approves.
pub(crate) async fn run(engine: &Engine, order: Order) -> Arc<RunResult> {
    run_with(engine, order, &agreeable).await
}

pub(crate) async fn run_with(engine: &Engine, order: Order, person: Person<'_>) -> Arc<RunResult> {
    let run = engine.start(order).await.unwrap();
    let thread = engine.store().run(&run).await.unwrap().unwrap().thread;
    through(engine, &thread, &run, person).await.unwrap()
}

pub(crate) async fn output(engine: &Engine, order: Order) -> Value {
    let closing = run(engine, order).await;
    closing.outcome.output().unwrap_or_else(|| panic!("{closing:?}")).clone()
}

//! An engine that is stopped, or whose runtime ends, while runs with children have just ended or are being performed logs no warning.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_engine::{Engine, Settings};
use graph::{agent, tool};
use scripted::ScriptedHandler;
use serde_json::json;
use store::{SqliteSettings, SqliteStore};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

use crate::flows::{fan, line};
use crate::{output, start};

/// Keeps the text of warnings and errors.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                let _ = write!(self.0, "{field}={value:?} ");
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

const PARENTS: usize = 50;

fn engine(folder: &tempfile::TempDir) -> Engine {
    let store = SqliteStore::open(folder.path().join("t.db"), SqliteSettings::default()).unwrap();
    let handler = ScriptedHandler::parse("when tool a reply 1\nwhen tool slow reply 1 after 3600s").unwrap();
    let flows = [
        fan("parent", vec![agent("child", json!({})), agent("child", json!({}))]),
        line("child", vec![tool("a", json!({}))]),
        fan("slow_parent", vec![agent("slow_child", json!({}))]),
        line("slow_child", vec![tool("slow", json!({}))]),
    ];
    Engine::new(Arc::new(store), Arc::new(handler), flows, Settings::default())
}

/// Runs on a runtime that ends right after, and returns what was warned of.
fn warnings_of(work: impl AsyncFnOnce(Engine)) -> Vec<String> {
    let warnings = Warnings::default();
    let kept = warnings.0.clone();
    tracing::subscriber::with_default(warnings, || {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { work(engine(&folder)).await });
        runtime.shutdown_timeout(Duration::from_millis(100));
    });
    let kept = kept.lock().unwrap();
    kept.clone()
}

async fn many_parents(engine: &Engine) {
    for _ in 0..PARENTS {
        let run = start(engine, "parent", json!({})).await;
        assert_eq!(output(engine, &run).await, json!([[1], [1]]));
    }
}

#[test]
fn a_runtime_that_ends_after_runs_with_children_logs_nothing() {
    assert_eq!(warnings_of(async |engine: Engine| many_parents(&engine).await), <[String; 0]>::default());
}

#[test]
fn an_engine_that_is_stopped_after_runs_with_children_logs_nothing() {
    let stopped = async |engine: Engine| {
        many_parents(&engine).await;
        engine.stop(Duration::from_secs(1)).await;
    };
    assert_eq!(warnings_of(stopped), <[String; 0]>::default());
}

#[test]
fn an_engine_that_is_stopped_while_children_are_being_performed_logs_nothing() {
    let stopped = async |engine: Engine| {
        for _ in 0..PARENTS {
            start(&engine, "slow_parent", json!({})).await;
        }
        engine.stop(Duration::from_millis(50)).await;
        assert_eq!(engine.going(), 0);
    };
    assert_eq!(warnings_of(stopped), <[String; 0]>::default());
}

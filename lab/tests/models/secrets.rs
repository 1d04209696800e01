//! A key is sent in one header and appears nowhere else: not in logs, failures, debug output, journals or recordings.

use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};

use effects::{EffectHandler, Progress};
use graph::{Ask, Effect, Go, Graph, Next, Replies, Request, Run, Start};
use models::cassette::{Recording, Replaying};
use models::{Models, Secret, Table, remote};
use serde_json::Value;
use tracing_subscriber::EnvFilter;

use crate::dialect::{Dialect, ScriptedAnswer};
use crate::server::{Behaviour, Server};
use crate::{SECRET, ask, both_ways, question};

/// The log of this process so far, of all tests and at every level. One log for all, since enabled callsites are cached for the whole
/// process.
pub(crate) fn logged() -> String {
    static LOG: OnceLock<Log> = OnceLock::new();
    let log = LOG.get_or_init(|| {
        let log = Log::default();
        let writer = log.clone();
        let filter = EnvFilter::new(format!("trace,{}", remote::LOG_FILTER));
        let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(move || writer.clone()).finish();
        tracing::subscriber::set_global_default(subscriber).expect("the only log");
        log
    });
    String::from_utf8_lossy(&log.0.lock().expect("lock")).into_owned()
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn nothing_that_is_logged_or_returned_contains_the_key() {
    logged();
    tracing::info!("the log works");
    for (dialect, streaming) in both_ways() {
        // Some providers repeat the key they were given.
        let echo = format!("{{\"error\": {{\"message\": \"Incorrect API key provided: {SECRET}.\"}}}}");
        for behaviour in [
            Behaviour::Answers(ScriptedAnswer::Text("fine")),
            Behaviour::Refuses(401, &[], echo.clone()),
            Behaviour::Refuses(500, &[], format!("Bearer {SECRET}")),
            Behaviour::BreaksOff { cleanly: false },
        ] {
            let server = Server::start(dialect, behaviour).await;
            let outcome = ask(&crate::models(dialect, &server), &question(), streaming).await.expect("in time");
            let shown = format!("{:?} {} {}", outcome.reply, serde_json::to_string(&outcome.reply).expect("JSON"), outcome.streamed);
            assert!(!shown.contains(SECRET), "{dialect:?}: {shown}");
        }
    }
    let text = logged();
    assert!(text.contains("the log works") && text.contains("a model could not answer"), "{text}");
    assert!(!text.contains(SECRET), "{text}");
}

#[tokio::test]
async fn a_recording_has_no_key_in_it_and_plays_back_without_one() {
    let dir = tempfile::tempdir().expect("a directory");
    for (dialect, streaming) in both_ways() {
        let path = dir.path().join(format!("{dialect:?}-{streaming}.jsonl"));
        let server = Server::start(dialect, Behaviour::Answers(ScriptedAnswer::Text("Hello there, reader."))).await;
        let recording = Recording::new(crate::models(dialect, &server), &path).expect("a file");
        let progress = if streaming { Progress::to(|_| ()) } else { Progress::nowhere() };
        let job = job();
        let first = recording.perform(&job, &progress).await;
        assert!(first.result.is_ok(), "{first:?}");
        let text = std::fs::read_to_string(&path).expect("text");
        assert!(text.contains("Hello there, reader.") && !text.contains(SECRET), "{text}");
        drop(server);
        assert_eq!(Replaying::open(&path).expect("a recording").perform(&job, &progress).await, first);
    }
}

fn job() -> graph::Job {
    let ask = |_: &Value| Ask::one(Request::from(Effect::CallModel(question())));
    let fold = |_: &mut Value, _: &Replies<'_>| Go::end();
    let graph = Graph::of::<Value>("one").node("ask", (ask, fold), &[graph::END]).build().expect("a graph");
    let mut run = Run::start(&graph, Start::new("one", "t", "r", Value::Null)).expect("a run");
    match run.next() {
        Next::Perform(mut jobs) => jobs.remove(0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_secret_shows_nowhere_in_debug_output() {
    let secret = Secret::new(SECRET).expect("a secret");
    assert!(!format!("{secret:?}").contains("lab"));
    // A table names the variable, never its value.
    let table: Table = serde_json::from_value(Dialect::OpenaiChat.table("http://x")).expect("a table");
    assert!(format!("{table:?}").contains("LAB_KEY") && !format!("{table:?}").contains(SECRET));
    let _: fn(Table, models::Name, models::Env<'_>) -> Result<Models, models::ModelError> = Models::new;
}

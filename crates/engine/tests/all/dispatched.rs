//! Runs that other processes drive, with effects that other processes perform: the interface that Restate's engine uses, within one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use baton_engine::{Delivery, Dispatcher, DriveRequest, Engine, EngineError, Performed, RemoteEffects, RunState, Settings};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use graph::{FeedError, Graph, Job, Outcome, RunId, TaskId, ThreadId, agent, person, tool};
use scripted::ScriptedHandler;
use serde_json::json;
use store::Status;
use tokio::sync::Semaphore;

use crate::flows::{fan, line};
use crate::{Fixture, events, outcome, output, start};

const FIRST: TaskId = TaskId { step: 0, index: 0 };

/// Calls by key, as a durable engine keeps them: the same call twice is one, and its reply stays.
#[derive(Default)]
struct Calls {
    worker: OnceLock<Engine>,
    replies: Mutex<HashMap<String, Performed>>,
    cancelled: Mutex<Vec<RunId>>,
    /// Fails all pending replies.
    is_lossy: Mutex<bool>,
}

#[derive(Clone, Default)]
struct Remote(Arc<Calls>);

impl RemoteEffects for Remote {
    fn perform(&self, job: Job, _: Vec<RunId>) -> BoxFuture<'static, Performed> {
        let calls = self.0.clone();
        async move {
            let key = format!("{}-{}", job.key, job.attempt);
            let known = calls.replies.lock().unwrap().get(&key).cloned();
            let performed = match known {
                Some(performed) => performed,
                None => calls.worker.get().unwrap().perform_attempt(&job, false, &effects::Progress::nowhere()).await,
            };
            calls.replies.lock().unwrap().insert(key, performed.clone());
            if *calls.is_lossy.lock().unwrap() { Performed::Lost("the driver is gone".into()) } else { performed }
        }
        .boxed()
    }

    fn cancel(&self, _: &ThreadId, run: &RunId) {
        self.0.cancelled.lock().unwrap().push(run.clone());
    }
}

/// Drives one run of a thread at a time, and tries again when it is lost. It is there or it is not.
struct Drives {
    worker: Engine,
    one_at_a_time: Arc<Semaphore>,
    is_there: Mutex<bool>,
    requests: Mutex<Vec<DriveRequest>>,
}

impl Dispatcher for Drives {
    fn submit(&self, request: DriveRequest) -> BoxFuture<'_, Result<(), String>> {
        async move {
            if !*self.is_there.lock().unwrap() {
                return Err("nobody is there".into());
            }
            self.requests.lock().unwrap().push(request.clone());
            let (worker, one) = (self.worker.clone(), self.one_at_a_time.clone());
            tokio::spawn(async move {
                let _one = one.acquire().await.unwrap();
                for _ in 0..10 {
                    match worker.drive(&request.run).await {
                        Err(EngineError::DrivenElsewhere { .. } | EngineError::Store(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
                        _ => return,
                    }
                }
            });
            Ok(())
        }
        .boxed()
    }
}

struct SplitEngines {
    server: Engine,
    drives: Arc<Drives>,
    remote: Remote,
}

fn apart(fixture: &Fixture, script: &str, flows: impl Fn() -> Vec<Graph>) -> SplitEngines {
    // The time of the test, which waits for nobody.
    let begun = tokio::time::Instant::now();
    let engine = |settings: Settings| {
        let settings = Settings { clock: Arc::new(move || 1_700_000_000_000 + begun.elapsed().as_millis() as i64), ..settings };
        let handler = ScriptedHandler::with_outside(script, fixture.outside.clone()).unwrap();
        Engine::new(fixture.store.clone(), Arc::new(handler), flows(), settings)
    };
    let remote = Remote::default();
    let worker = engine(Settings { remote: Some(Arc::new(remote.clone())), is_gone: Arc::new(|_| true), ..Settings::default() });
    assert!(remote.0.worker.set(worker.clone()).is_ok());
    let drives = Arc::new(Drives { worker, one_at_a_time: Arc::new(Semaphore::new(1)), is_there: Mutex::new(true), requests: Mutex::default() });
    let server = engine(Settings { dispatcher: Some(drives.clone()), sweep_ms: 200, poll_ms: 20, ..Settings::default() });
    SplitEngines { server, drives, remote }
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_as_if_it_were_driven_here_with_the_same_events() {
    let flows =
        || vec![line("l", vec![tool("a", json!({})), tool("b", json!({})), agent("inner", json!({}))]), line("inner", vec![tool("c", json!({}))])];
    let script = "when tool a reply 1\nwhen tool b fail network \"reset\" retry times 1\nwhen tool b reply 2\nwhen tool c reply 3";
    let (here, there) = (Fixture::new(), Fixture::new());
    let (embedded, apart) = (here.engine(script, flows()), apart(&there, script, flows));
    let (ours, theirs) = (start(&apart.server, "l", json!({})).await, start(&embedded, "l", json!({})).await);
    assert_eq!(output(&apart.server, &ours).await, output(&embedded, &theirs).await);
    let essence = |events: Vec<graph::NumberedEvent>, run: &RunId| format!("{events:?}").replace(run.as_str(), "RUN");
    let names = |events: &[graph::NumberedEvent]| crate::names(events).join(" ");
    let (mine, other) = (events(&apart.server, &ours, 0).await, events(&embedded, &theirs, 0).await);
    assert_eq!(names(&mine), names(&other), "{} and {}", essence(mine.clone(), &ours), essence(other.clone(), &theirs));
    for name in ["a", "b", "c"] {
        assert_eq!(there.calls(name), here.calls(name), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_driver_is_replaced_and_no_answered_call_is_made_again() {
    let fixture = Fixture::new();
    let apart =
        apart(&fixture, "when tool a reply 1 once\nwhen tool b reply 2", || vec![line("l", vec![tool("a", json!({})), tool("b", json!({}))])]);
    *apart.remote.0.is_lossy.lock().unwrap() = true;
    let run = start(&apart.server, "l", json!({})).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(fixture.store.run(&run).await.unwrap().unwrap().status, Status::Running);
    *apart.remote.0.is_lossy.lock().unwrap() = false;
    assert_eq!(output(&apart.server, &run).await, json!([1, 2]));
    assert_eq!((fixture.calls("a"), fixture.calls("b")), (1, 1), "the reply of a call is kept for the next driver");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_taken_or_refused_at_once_and_the_run_is_driven_on() {
    let fixture = Fixture::new();
    let apart = apart(&fixture, "when tool a reply 1", || vec![line("l", vec![person("May I?"), tool("a", json!({}))])]);
    let run = start(&apart.server, "l", json!({})).await;
    let RunState::Parked(waiting) = apart.server.wait(&run).await.unwrap() else { panic!("it should wait") };
    assert_eq!(waiting[0].task, FIRST);
    let refused = apart.server.answer(&run, TaskId { step: 9, index: 0 }, 1, json!("?")).await.unwrap_err();
    assert!(matches!(refused, EngineError::Feed(FeedError::NeverAsked { .. })), "{refused}");
    assert_eq!(apart.server.answer(&run, FIRST, 1, json!("yes")).await.unwrap(), Delivery::Taken);
    assert_eq!(output(&apart.server, &run).await, json!(["yes", 1]));
    let tickets: Vec<String> = apart.drives.requests.lock().unwrap().iter().map(|request| request.ticket.clone()).collect();
    assert!(tickets.iter().all(|ticket| ticket.starts_with(run.as_str())), "{tickets:?}");
}

#[tokio::test(start_paused = true)]
async fn cancelling_reaches_the_process_that_drives_the_run_and_its_calls() {
    let fixture = Fixture::new();
    let apart = apart(&fixture, "when tool slow reply 1 after 600s", || vec![fan("f", vec![tool("slow", json!({}))])]);
    let run = start(&apart.server, "f", json!({})).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(apart.server.cancel(&run, "never mind").await.unwrap(), Delivery::Posted);
    assert_eq!(outcome(&apart.server, &run).await, Outcome::Cancelled { reason: "never mind".into() });
    assert!(apart.remote.0.cancelled.lock().unwrap().contains(&run));
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_submitted_is_found_and_submitted_later() {
    let fixture = Fixture::new();
    let apart = apart(&fixture, "when tool a reply 1", || vec![line("l", vec![tool("a", json!({}))])]);
    apart.server.recover().await.unwrap();
    *apart.drives.is_there.lock().unwrap() = false;
    let run = start(&apart.server, "l", json!({})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.store.run(&run).await.unwrap().unwrap().status, Status::Running);
    *apart.drives.is_there.lock().unwrap() = true;
    assert_eq!(output(&apart.server, &run).await, json!([1]));
}

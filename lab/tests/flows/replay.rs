//! A hundred runs of all flows, recorded with faults, and replayed from their journals: the same events, byte by byte. This is `baton runs
//! replay`, and also compares the effects and the end.

use std::collections::BTreeMap;

use baton_lab::kill::real;
use baton_lab::person::{agreeable, through};
use baton_lab::provider::dialect::Dialect;
use baton_lab::provider::scripted_thought::{self, ModelFn};
use baton_lab::provider::web;
use baton_lab::setup::Setup;
use engine::{FeedItem, History, Order};
use graph::NumberedEvent;
use scripted::faults::{FaultPlan, Faulty};
use store::RunFilter;

use crate::FlowFixture;

const RUNS: u64 = 100;
const SEED: u64 = 20_261_115;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x3_a_hundred_recorded_runs_are_replayed_to_the_byte() {
    let fixture = FlowFixture::new();
    let web = web::serve(web::ARTICLE).await;
    let setup = Setup::new(Dialect::OpenaiChat, "http://127.0.0.1:9", &web, fixture.folder.path());
    // Some calls fail and are retried; later attempts succeed, so that most runs get an answer.
    let plan = FaultPlan { seed: SEED, fail_pct: 4, lose_reply_pct: 2, duplicate_pct: 4, delay_ms_max: 3, faulty_attempts_max: 1 };
    let engine = fixture.engine(Faulty::new(setup.handlers_with(ModelFn(scripted_thought::to_call)).await, plan));
    let mut going = tokio::task::JoinSet::new();
    let turns = std::sync::Arc::new(tokio::sync::Semaphore::new(10));
    for number in 0..RUNS {
        let (engine, turns) = (engine.clone(), turns.clone());
        going.spawn(async move {
            let _turn = turns.acquire().await.unwrap();
            let run = engine::new_run_id();
            let mut watcher = engine.watch(&run, 0);
            engine.start(Order { run: Some(run.clone()), ..real::order(number) }).await.unwrap();
            let watching = tokio::spawn(async move {
                let mut events = Vec::new();
                while let Some(seen) = watcher.next().await {
                    if let FeedItem::Event(numbered, _) = seen.unwrap() {
                        events.push((*numbered).clone());
                    }
                }
                events
            });
            through(&engine, &run.as_str().into(), &run, &agreeable).await.unwrap();
            (number, run, watching.await.unwrap())
        });
    }
    let (mut events, mut ends, mut children) = (0, BTreeMap::<(&str, &str), u32>::new(), 0);
    while let Some(recorded) = going.join_next().await {
        let (number, run, published) = recorded.unwrap();
        let again = History::of(&**engine.store(), engine.flows(), &run).await.unwrap();
        assert_eq!(bytes(&again.events), bytes(&published), "run {number}, {}", real::flow_of(number));
        for row in engine.store().runs(RunFilter { thread: Some(run.as_str().into()), ..RunFilter::default() }).await.unwrap() {
            let replayed = engine::replay(&**engine.store(), engine.flows(), &row.run).await.unwrap();
            assert_eq!((replayed.difference, replayed.shape_changed), (None, false), "run {number}, {}", row.flow);
            children += u32::from(row.parent.is_some());
        }
        events += published.len();
        let row = engine.store().run(&run).await.unwrap().unwrap();
        *ends.entry((real::flow_of(number), row.status.as_str())).or_default() += 1;
    }
    println!("{RUNS} runs and {children} children: {events} events of the roots are the same to the byte; they ended {ends:?}");
    assert!(real::FLOWS.iter().all(|flow| ends.get(&(*flow, "done")).is_some_and(|count| *count > 10)), "{ends:?}");
}

/// As `--json` prints them.
fn bytes(events: &[NumberedEvent]) -> Vec<String> {
    events.iter().map(|numbered| serde_json::to_string(numbered).unwrap()).collect()
}

//! Cost of the state machine alone: no engine, no store, no runtime. `cargo bench -p baton-lab` takes about half a minute; `baton bench
//! engine` measures the whole.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput};
use graph::{Ask, END, Entry, Go, Graph, Limits, Next, Replies, Reply, Request, Run, Start};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Serialize, Deserialize)]
struct Steps {
    left: u32,
    #[serde(default)]
    words: Vec<String>,
}

/// This many steps of `width` effects each.
fn flow(width: usize) -> Graph {
    let ask = move |s: &Steps| Ask { requests: (0..width).map(|n| Request::from(graph::tool("t", json!({ "n": n, "left": s.left })))).collect() };
    let fold = |s: &mut Steps, replies: &Replies<'_>| {
        black_box(replies.len());
        s.left -= 1;
        if s.left == 0 { Go::end() } else { Go::to("step") }
    };
    let limits = Limits { steps_max: u64::MAX, ..Limits::default() };
    Graph::of::<Steps>("steps").node("step", (ask, fold), &["step", END]).limits(limits).build().expect("it is well drawn")
}

fn begin(graph: &Graph, steps: u32) -> Run {
    Run::start(graph, Start::new("steps", "thread", "run", json!({ "left": steps }))).expect("the input fits")
}

/// Drives a run to its end and returns the journal.
fn drive(mut run: Run) -> Vec<Vec<u8>> {
    let mut journal = vec![run.start_entry().encode()];
    let words: Value = json!("w".repeat(100));
    while let Next::Perform(jobs) = run.next() {
        for job in jobs {
            let entry = run.feed(job.task, job.attempt, Reply::ok(words.clone())).expect("it was asked");
            journal.extend(entry.map(|entry| entry.encode()));
        }
        black_box(run.take_events());
    }
    journal
}

fn open(graph: &Graph, journal: &[Vec<u8>]) -> Run {
    let Ok(Entry::Started(start)) = Entry::decode(&journal[0]) else { unreachable!("a journal begins with a start") };
    let mut run = Run::start(graph, *start).expect("the input fits");
    for line in &journal[1..] {
        run.apply(Entry::decode(line).expect("it was just written")).expect("it fits");
    }
    run
}

fn main() {
    let mut criterion =
        Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2)).configure_from_args();

    let mut group = criterion.benchmark_group("step");
    const STEPS: u32 = 1_000;
    group.throughput(Throughput::Elements(u64::from(STEPS)));
    for (name, width) in [("no-op", 0), ("one effect", 1)] {
        let graph = flow(width);
        group.bench_function(name, |bench| bench.iter_batched(|| begin(&graph, STEPS), drive, BatchSize::LargeInput));
    }
    group.finish();

    let wide = flow(100);
    criterion.bench_function("fan-out 100", |bench| bench.iter_batched(|| begin(&wide, 1), drive, BatchSize::SmallInput));

    let graph = flow(1);
    let journal = drive(begin(&graph, 10_000));
    criterion.bench_function("open 10,000 entries", |bench| bench.iter(|| open(&graph, black_box(&journal))));

    let state = json!({ "left": 2, "words": vec!["some words"; 1_000] });
    let mut run = Run::start(&graph, Start::new("steps", "thread", "run", state)).expect("the input fits");
    run.settle();
    criterion.bench_function("snapshot of 13 kB", |bench| bench.iter(|| run.snapshot().map(|snapshot| snapshot.encode())));
    criterion.final_summary();
}

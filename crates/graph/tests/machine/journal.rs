use baton_graph::{
    Ask, END, Entry, Failure, FailureKind, FeedError, Go, Graph, Mismatch, Next, Replies, Reply, Request, Run, RunError, Snapshot, Start, TaskId,
    Verdict, tool,
};
use serde_json::json;

use crate::{Recording, drive, drive_on, echo, kinds, one_step, start};

/// Three rounds of two calls, one of which fails the first time.
fn rounds() -> Graph {
    let node = (
        |diary: &Recording| {
            let mut ask = Ask::default();
            ask.add(Request::from(tool("flaky", json!({ "round": diary.rounds }))).attempts(2));
            ask.add(tool("sure", json!({ "received": diary.received.len() })));
            ask
        },
        |diary: &mut Recording, replies: &Replies<'_>| {
            diary.hear(replies);
            diary.rounds += 1;
            if diary.rounds == 3 { Go::end().say("assistant", "done") } else { Go::to("round") }
        },
    );
    Graph::of::<Recording>("rounds")
        .node("round", node, &["round", END])
        .phase("p", 60_000, &["round"])
        .output(|d| json!(d.received))
        .build()
        .unwrap()
}

fn flaky(job: &baton_graph::Job) -> Reply {
    match (job.effect.name(), job.attempt) {
        ("flaky", 1) => Reply::failed(Failure::new(FailureKind::Network, "reset").retry()).taking_us(3),
        _ => echo(job).taking_us(7),
    }
}

fn rebuilt(graph: &Graph, journal: &[Entry]) -> Run {
    let Entry::Started(start) = &journal[0] else { panic!("a journal begins with a start") };
    let mut run = Run::start(graph, (**start).clone()).unwrap();
    for entry in &journal[1..] {
        // Through its bytes, as a store would.
        run.apply(Entry::decode(&entry.encode()).unwrap()).unwrap();
    }
    run
}

#[test]
fn a_run_rebuilt_from_any_part_of_its_journal_goes_the_same_way() {
    let graph = rounds();
    let whole = drive(start(&graph), false, flaky);
    for cut in 1..=whole.journal.len() {
        let past = whole.journal[..cut].to_vec();
        let driven = drive_on(rebuilt(&graph, &past), false, &flaky, past);
        assert_eq!(driven.outcome, whole.outcome, "cut at {cut}");
        assert_eq!(driven.events, whole.events, "cut at {cut}");
        assert_eq!(driven.journal, whole.journal, "cut at {cut}");
    }
}

#[test]
fn a_snapshot_stands_for_the_journal_before_it() {
    let graph = rounds();
    let whole = drive(start(&graph), false, flaky);
    let mut seen = 0;
    for cut in 1..whole.journal.len() {
        let mut run = rebuilt(&graph, &whole.journal[..cut]);
        run.settle();
        let Some(snapshot) = run.snapshot() else { continue };
        seen += 1;
        assert_eq!(snapshot.entries, cut as u64);
        let snapshot = Snapshot::decode(&snapshot.encode()).unwrap();
        let restored = Run::restore(&graph, run.facts().clone(), snapshot).unwrap();
        let driven = drive_on(restored, false, &flaky, whole.journal[..cut].to_vec());
        assert_eq!((&driven.outcome, &driven.journal), (&whole.outcome, &whole.journal));
        assert_eq!(driven.events, whole.events[whole.events.len() - driven.events.len()..]);
    }
    assert_eq!(seen, 3, "one on entering each step");
}

#[test]
fn replay_names_the_entry_at_which_a_changed_flow_differs() {
    let whole = drive(start(&rounds()), false, flaky);
    let other = {
        let node = (
            |diary: &Recording| Ask::one(tool("flaky", json!({ "round": diary.rounds, "new": true }))),
            |_: &mut Recording, _: &Replies<'_>| Go::end(),
        );
        Graph::of::<Recording>("rounds").node("round", node, &[END]).build().unwrap()
    };
    let mut run = start(&other);
    let error = run.apply(whole.journal[1].clone()).unwrap_err();
    assert!(matches!(&error, RunError::Mismatch { at: 1, mismatch } if matches!(**mismatch, Mismatch::Asked { .. })), "{error}");
    assert!(error.to_string().contains("task 0.0 at node round now asks tool flaky"), "{error}");
    let second = run.apply(whole.journal[0].clone()).unwrap_err();
    assert!(second.to_string().contains("second start"), "{second}");
}

#[test]
fn a_doubt_waits_for_a_verdict_and_takes_nothing_else() {
    let graph = one_step(|| Ask::one(tool("mail", json!({ "to": "ada" })))).build().unwrap();
    let task = TaskId { step: 0, index: 0 };
    for (verdict, expected) in [(Verdict::Done { value: json!("sent") }, "SeadrlE"), (Verdict::Failed, "SeadrlE"), (Verdict::Again, "SeadrarlE")] {
        let mut run = start(&graph);
        run.next();
        let doubted = run.doubt(task, 1).unwrap();
        assert_eq!(run.doubt(task, 1), Err(FeedError::NotInFlight { task }));
        let Next::Wait(questions) = run.next() else { panic!("a person must say") };
        assert!(questions[0].question.prompt.contains("ada"));
        assert!(matches!(run.feed(task, 1, Reply::ok("maybe")), Err(FeedError::NoVerdict { .. })));
        let answered = run.feed(task, 1, Reply::ok(serde_json::to_value(&verdict).unwrap())).unwrap().unwrap();
        let past = vec![run.start_entry(), doubted, answered];
        let driven = drive_on(run, false, &|_| Reply::ok("sent now"), past);
        assert_eq!(kinds(&driven.events), expected, "{verdict:?}");
        let again = rebuilt(&graph, &driven.journal);
        assert_eq!(drive_on(again, false, &echo, driven.journal.clone()).outcome, driven.outcome);
    }
}

#[test]
fn an_edit_changes_the_state_before_the_step_asks() {
    let graph = rounds();
    let mut run = start(&graph);
    let edited = run.edit(&json!({ "rounds": 2, "received": null })).unwrap();
    let driven = drive_on(run, false, &flaky, vec![start(&graph).start_entry(), edited]);
    assert_eq!(driven.output(), &json!([{ "round": 2 }, { "received": 0 }]));
    assert_eq!(drive_on(rebuilt(&graph, &driven.journal), false, &echo, driven.journal.clone()).outcome, driven.outcome);

    let mut run = start(&graph);
    assert!(matches!(run.edit(&json!({ "rounds": "many" })), Err(RunError::Edit { .. })));
    let Next::Perform(jobs) = run.next() else { panic!("there is work") };
    run.feed(jobs[1].task, 1, Reply::ok(1)).unwrap();
    assert!(matches!(run.edit(&json!({})), Err(RunError::Edit { why }) if why.contains("already has replies")));
}

#[test]
fn a_start_for_another_flow_is_refused() {
    let refused = Run::start(&rounds(), Start::new("other", "t", "r", json!({})));
    assert!(matches!(refused.map(drop), Err(RunError::OtherFlow { .. })));
}

#[test]
fn a_start_of_an_older_version_has_no_model_and_is_written_as_before() {
    let line = br#"{"v":1,"started":{"flow":"one","thread":"t","run":"r","user":"ada","input":{"x":1.5},"allowed":["docs.search"]}}"#;
    let Entry::Started(start) = Entry::decode(line).unwrap() else { panic!("a start") };
    assert_eq!(
        (start.context.user.as_str(), &start.context.model, start.context.allowed.as_slice()),
        ("ada", &None, &["docs.search".to_owned()][..])
    );
    let written: serde_json::Value = serde_json::from_slice(&Entry::Started(start).encode()).unwrap();
    assert_eq!(written, serde_json::from_slice::<serde_json::Value>(line).unwrap());
}

#[test]
fn every_job_has_the_context_its_run_was_started_with() {
    let graph = one_step(|| Ask::one(tool("a", json!({})))).build().unwrap();
    let context = baton_graph::RunContext {
        user: "ada".into(),
        model: Some("openai/large".into()),
        allowed: vec!["docs".into()],
        only: None,
        ..baton_graph::RunContext::default()
    };
    let start = Start { context: context.clone(), ..Start::new(graph.name(), "t", "r", json!({})) };
    let Entry::Started(start) = Entry::decode(&Entry::Started(Box::new(start)).encode()).unwrap() else { panic!("a start") };
    let mut run = Run::start(&graph, *start).unwrap();
    let Next::Perform(jobs) = run.next() else { panic!("there is something to do") };
    assert_eq!(jobs[0].context, context);
}

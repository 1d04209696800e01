use baton_graph::{
    Ask, Budget, END, Failure, FailureKind, Go, Graph, Limits, Outcome, Replies, Reply, Request, Reserve, Run, RunError, Start, Usage, agent, tool,
};
use serde_json::{Value, json};

use crate::{Recording, drive, echo, one_step, start};

fn with_budget(graph: &Graph, budget: Budget) -> Run {
    Run::start(graph, Start { budget, ..Start::new(graph.name(), "t", "r", json!({})) }).unwrap()
}

/// Asks `t` again and again until something fails, then asks for the answer.
fn greedy() -> Graph {
    let work = (
        |_: &Recording| Ask::one(Request::from(tool("t", json!("more"))).deadline_ms(60_000)),
        |diary: &mut Recording, replies: &Replies<'_>| {
            diary.hear(replies);
            if replies.value(0).is_ok() { Go::to("work") } else { Go::to("answer") }
        },
    );
    let answer = (
        |_: &Recording| Ask::one(Request::from(tool("answer", json!("the answer"))).last()),
        |diary: &mut Recording, replies: &Replies<'_>| {
            diary.hear(replies);
            Go::end()
        },
    );
    Graph::of::<Recording>("greedy")
        .node("work", work, &["work", "answer"])
        .node("answer", answer, &[END])
        .output(|d| json!(d.received))
        .build()
        .unwrap()
}

#[test]
fn every_budget_is_hard_and_keeps_enough_for_the_answer() {
    let each = Usage { tokens_in: 8, tokens_out: 2, usd_micros: 5, calls: 0 };
    for (budget, name, works) in [
        (Budget { calls_max: Some(4), reserve: Reserve { calls: 1, ..Reserve::default() }, ..Budget::default() }, "calls_max", 3),
        (Budget { tokens_max: Some(45), reserve: Reserve { tokens: 10, ..Reserve::default() }, ..Budget::default() }, "tokens_max", 4),
        (Budget { usd_micros_max: Some(20), reserve: Reserve { usd_micros: 5, ..Reserve::default() }, ..Budget::default() }, "usd_micros_max", 3),
        (Budget { time_ms_max: Some(50), reserve: Reserve { time_ms: 10, ..Reserve::default() }, ..Budget::default() }, "time_ms_max", 4),
    ] {
        let driven = drive(with_budget(&greedy(), budget), false, |job| echo(job).using(each).taking_us(10_000));
        let received = driven.output().as_array().unwrap().clone();
        assert_eq!(driven.names().iter().filter(|name| **name == "t").count(), works, "{name}: {received:?}");
        let refused = received[received.len() - 2].as_str().unwrap();
        assert!(refused.starts_with("budget: ") && refused.contains(name), "{refused}");
        assert_eq!(received.last(), Some(&json!("the answer")), "{name}");
    }
}

#[test]
fn what_is_in_flight_is_already_promised() {
    let ask =
        || Ask { requests: (0..5).map(|i| Request::from(tool("t", json!(i))).estimate(Usage { tokens_out: 40, ..Usage::default() })).collect() };
    let graph = one_step(ask).build().unwrap();
    let driven = drive(with_budget(&graph, Budget { tokens_max: Some(100), ..Budget::default() }), false, echo);
    assert_eq!(driven.jobs.len(), 2, "two promises of 40 fit into 100, the third does not");
}

#[test]
fn children_side_by_side_share_what_is_left() {
    let estimate = Usage { tokens_out: 40, ..Usage::default() };
    let ask = move || Ask { requests: vec![Request::from(agent("a", json!({}))).estimate(estimate), agent("b", json!({})).into()] };
    let graph = one_step(ask).build().unwrap();
    let driven = drive(with_budget(&graph, Budget { tokens_max: Some(100), calls_max: Some(9), ..Budget::default() }), false, echo);
    let parts: Vec<_> = driven.jobs.iter().map(|job| (job.budget.tokens_max, job.budget.calls_max)).collect();
    assert_eq!(parts, [(Some(40), Some(7)), (Some(60), Some(7))]);
    let driven = drive(start(&graph), false, echo);
    assert_eq!(driven.jobs.iter().map(|job| job.budget.tokens_max).collect::<Vec<_>>(), [Some(40), None]);
}

#[test]
fn a_phase_has_one_clock_and_starts_it_anew() {
    // think and work share 25 ms; each takes 10. The second round begins with a fresh clock.
    let step = |next: &'static str| {
        (
            |_: &Recording| Ask::one(tool("t", json!("ok"))),
            move |diary: &mut Recording, replies: &Replies<'_>| {
                diary.hear(replies);
                diary.rounds += 1;
                if diary.rounds >= 8 { Go::end() } else { Go::to(next) }
            },
        )
    };
    let build = |limit_ms| {
        let graph = Graph::of::<Recording>("g").node("think", step("work"), &["work", END]).node("work", step("think"), &["think", END]);
        graph.phase("round", limit_ms, &["think", "work"]).output(|d| json!(d.received)).build().unwrap()
    };
    let received = |limit_ms| drive(start(&build(limit_ms)), false, |job| echo(job).taking_us(10_000)).output().as_array().unwrap().clone();
    assert!(received(25).iter().all(|word| word == "ok"));
    let tight = received(10);
    assert_eq!(tight.iter().filter(|word| *word == "ok").count(), 4);
    assert!(tight[1].as_str().unwrap().contains("phase round has used up its 10 ms"), "{tight:?}");
}

#[test]
fn a_run_may_have_its_own_limit_of_a_phase() {
    let ask = || Ask::one(Request::from(tool("t", json!(1))).deadline_ms(90));
    let deadlines = |own: Option<u64>| {
        let graph = one_step(ask).phase("p", 50, &["only"]).phase_limit_ms(move |_, phase| own.filter(|_| phase == "p")).build().unwrap();
        drive(start(&graph), false, echo).jobs.iter().map(|job| job.deadline_ms).collect::<Vec<_>>()
    };
    assert_eq!((deadlines(None), deadlines(Some(20)), deadlines(Some(70))), (vec![50], vec![20], vec![70]));
    assert_eq!(deadlines(Some(0)), [] as [u64; 0], "no time is no attempt");
}

#[test]
fn a_deadline_never_exceeds_its_phase_or_its_budget() {
    let ask = || {
        let mut ask = Ask::default();
        let first = ask.add(Request::from(tool("first", json!(1))).deadline_ms(90));
        ask.add(Request::from(tool("second", json!(2))).deadline_ms(90).after(first));
        ask
    };
    let graph = one_step(ask).phase("p", 100, &["only"]).build().unwrap();
    let driven = drive(start(&graph), false, |job| echo(job).taking_us(40_000));
    assert_eq!(driven.jobs.iter().map(|job| job.deadline_ms).collect::<Vec<_>>(), [90, 60]);
    let run = with_budget(&graph, Budget { time_ms_max: Some(50), ..Budget::default() });
    let driven = drive(run, false, |job| echo(job).taking_us(40_000));
    assert_eq!(driven.jobs.iter().map(|job| job.deadline_ms).collect::<Vec<_>>(), [50, 10]);
}

#[test]
fn a_step_takes_as_long_as_its_longest_path() {
    let ask = || {
        let mut ask = Ask::default();
        let a = ask.add(tool("a", json!(1)));
        ask.add(Request::from(tool("b", json!(2))).after(a));
        ask.add(tool("c", json!(3)));
        ask
    };
    let mut run = start(&one_step(ask).build().unwrap());
    for newest_first in [true, false] {
        let driven = drive(start(&one_step(ask).build().unwrap()), newest_first, |job| echo(job).taking_us(1_000));
        assert_eq!(driven.outcome.output(), Some(&json!([1, 2, 3])));
    }
    while let baton_graph::Next::Perform(jobs) = run.next() {
        for job in jobs {
            run.feed(job.task, 1, echo(&job).taking_us(1_000)).unwrap();
        }
    }
    assert_eq!(run.elapsed_us(), 2_000);
}

#[test]
fn every_limit_has_its_name_in_its_error() {
    let forever = || (|_: &Recording| Ask::nothing(), |_: &mut Recording, _: &Replies<'_>| Go::to("a"));
    let looping =
        Graph::of::<Recording>("g").node("a", forever(), &["a", END]).limits(Limits { steps_max: 50, ..Limits::default() }).build().unwrap();
    let Outcome::Failed { fault } = drive(start(&looping), false, echo).outcome else { panic!("it cannot end well") };
    assert!(fault.to_string().contains("steps_max = 50"), "{fault}");

    let many = one_step(|| Ask { requests: (0..9).map(|i| tool("t", json!(i)).into()).collect() });
    let many = many.limits(Limits { effects_per_ask_max: 8, ..Limits::default() }).build().unwrap();
    let Outcome::Failed { fault } = drive(start(&many), false, echo).outcome else { panic!("it cannot end well") };
    assert!(fault.to_string().contains("effects_per_ask_max = 8"), "{fault}");

    let small = one_step(|| Ask::one(tool("t", json!(1))))
        .limits(Limits { reply_bytes_max: 100, json_depth_max: 5, input_bytes_max: 50, ..Limits::default() })
        .build()
        .unwrap();
    let received = |value: Value| drive(start(&small), false, move |_| Reply::ok(value.clone())).output()[0].as_str().unwrap().to_owned();
    assert!(received(json!("x".repeat(200))).contains("reply_bytes_max = 100"));
    assert!(received(json!([[[[[[1]]]]]])).contains("json_depth_max = 5"));
    let large = Run::start(&small, Start::new("one", "t", "r", json!({ "received": ["x".repeat(99)] })));
    assert!(matches!(large, Err(RunError::Input { why, .. }) if why.contains("input_bytes_max = 50")));

    let deep = one_step(|| Ask::one(agent("one", json!({})))).limits(Limits { depth_max: 3, ..Limits::default() }).build().unwrap();
    let run = Run::start(&deep, Start { depth: 3, ..Start::new("one", "t", "r", json!({})) }).unwrap();
    assert!(drive(run, false, echo).output()[0].as_str().unwrap().contains("depth_max = 3"));
}

#[test]
fn a_reply_deeper_than_the_stack_is_only_a_failure() {
    let mut deep = json!(1);
    for _ in 0..50_000 {
        deep = Value::Array(vec![deep]);
    }
    let mut run = start(&one_step(|| Ask::one(tool("t", json!(1)))).build().unwrap());
    run.next();
    let entry = run.feed(baton_graph::TaskId { step: 0, index: 0 }, 1, Reply::ok(deep));
    assert!(matches!(run.next(), baton_graph::Next::Done(_)));
    let Ok(Some(baton_graph::Entry::Replied { reply, .. })) = entry else { panic!("it was asked") };
    assert!(matches!(&reply.result, Err(Failure { kind: FailureKind::Limit, .. })));
}

#[test]
fn s7_what_a_failure_quotes_is_cut_to_a_size_that_can_be_kept() {
    let mut run = start(&one_step(|| Ask::one(tool("t", json!(1)))).build().unwrap());
    run.next();
    let failure = Failure::new(FailureKind::Invalid, "no JSON").with_output("ä".repeat(1 << 20));
    let Ok(Some(baton_graph::Entry::Replied { reply, .. })) = run.feed(baton_graph::TaskId { step: 0, index: 0 }, 1, Reply::failed(failure)) else {
        panic!("it was asked")
    };
    let Err(Failure { output: Some(output), .. }) = &reply.result else { panic!("{reply:?}") };
    assert_eq!((output.len(), output.chars().all(|c| c == 'ä')), (64 << 10, true));
}

use baton_graph::{
    Ask, Backoff, END, Failure, FailureKind, FeedError, Go, Graph, Job, Next, Outcome, Placeholder, Replies, Reply, Request, Run, Start, TaskId,
    person, tool,
};
use serde_json::json;

use crate::{Recording, drive, echo, kinds, one_step, start};

fn diamond() -> Ask {
    let mut ask = Ask::default();
    let first = ask.add(tool("first", json!({ "n": 1 })));
    let left = ask.add(Request::from(tool("left", json!({ "from": null }))).hole(Placeholder::whole("/arguments/from", first, "/n")));
    let right = ask.add(Request::from(tool("right", json!("n is ?"))).hole(Placeholder::within("/arguments", 5..6, first, "/n")));
    ask.add(Request::from(tool("last", json!({}))).after(left).after(right));
    ask
}

#[test]
fn effects_are_released_as_soon_as_what_they_need_is_there() {
    let graph = one_step(diamond).build().unwrap();
    let driven = drive(start(&graph), false, echo);
    assert_eq!(driven.names(), ["first", "left", "right", "last"]);
    assert_eq!(driven.output(), &json!([{ "n": 1 }, { "from": 1 }, "n is 1", {}]));
    assert_eq!(kinds(&driven.events), "SearaarrarlE");
}

#[test]
fn the_order_of_replies_does_not_change_the_state() {
    let graph = one_step(|| Ask { requests: (0..20).map(|i| tool("t", json!(i)).into()).collect() }).build().unwrap();
    assert_eq!(drive(start(&graph), false, echo).output(), drive(start(&graph), true, echo).output());
}

#[test]
fn what_needs_a_failed_effect_is_skipped_unless_it_allows_failures() {
    let ask = || {
        let mut ask = Ask::default();
        let bad = ask.add(tool("bad", json!({})));
        let after = ask.add(Request::from(tool("after", json!({}))).after(bad));
        ask.add(Request::from(tool("after that", json!({}))).after(after));
        ask.add(Request::from(tool("anyway", json!("done"))).after_any_outcome(bad));
        ask
    };
    let driven = drive(start(&one_step(ask).build().unwrap()), false, |job| match job.effect.name() {
        "bad" => Reply::failed(Failure::new(FailureKind::Tool, "no")),
        _ => echo(job),
    });
    assert_eq!(driven.names(), ["bad", "anyway"]);
    let received = driven.output();
    assert_eq!((&received[0], &received[3]), (&json!("tool: no"), &json!("done")));
    assert!(received[1].as_str().unwrap().starts_with("need: effect 0 (bad) failed"), "{received}");
    assert!(received[2].as_str().unwrap().starts_with("need: effect 1 (after) failed"), "{received}");
}

#[test]
fn a_failure_is_tried_again_only_when_that_makes_sense() {
    let ask = || Ask::one(Request::from(tool("t", json!({}))).attempts(3).backoff(Backoff { first_ms: 100, factor: 2, most_ms: 1_000 }));
    let graph = one_step(ask).build().unwrap();
    let attempts = |failure: Failure| {
        let driven = drive(start(&graph), false, move |_| Reply::failed(failure.clone()));
        driven.jobs.iter().map(|job| (job.attempt, job.after_ms)).collect::<Vec<_>>()
    };
    assert_eq!(attempts(Failure::new(FailureKind::Network, "x")), [(1, 0)]);
    let waits = attempts(Failure::new(FailureKind::Network, "x").retry());
    assert_eq!(waits.len(), 3);
    assert!((50..=100).contains(&waits[1].1) && (100..=200).contains(&waits[2].1), "{waits:?}");
    assert_eq!(attempts(Failure::new(FailureKind::Network, "x").retry_after_ms(77))[1], (2, 77));
    assert_eq!(attempts(Failure::new(FailureKind::Network, "x").retry_after_ms(u64::MAX)).len(), 1, "nobody waits that long");
    let keys = drive(start(&graph), false, |_| Reply::failed(Failure::new(FailureKind::Network, "x").retry()));
    assert!(keys.jobs.iter().all(|job| job.key == keys.jobs[0].key), "the key stays the same over attempts");
}

#[test]
fn a_reply_that_came_before_or_was_never_asked_for_changes_nothing() {
    let graph = one_step(|| Ask { requests: vec![tool("a", json!(1)).into(), Request::from(tool("b", json!(2))).after(0)] }).build().unwrap();
    let mut run = start(&graph);
    let Next::Perform(jobs) = run.next() else { panic!("there is work") };
    let (a, b) = (jobs[0].task, TaskId { step: 0, index: 1 });
    assert_eq!(
        run.feed(TaskId { step: 5, index: 0 }, 1, Reply::ok(0)),
        Err(FeedError::NeverAsked { task: TaskId { step: 5, index: 0 }, at_step: 0 })
    );
    assert_eq!(
        run.feed(TaskId { step: 0, index: 9 }, 1, Reply::ok(0)),
        Err(FeedError::NeverAsked { task: TaskId { step: 0, index: 9 }, at_step: 0 })
    );
    assert_eq!(run.feed(b, 1, Reply::ok(0)), Err(FeedError::NeverTried { task: b, attempt: 1, at: 0 }));
    assert_eq!(run.feed(a, 2, Reply::ok(0)), Err(FeedError::NeverTried { task: a, attempt: 2, at: 1 }));
    assert!(run.feed(a, 1, Reply::ok(json!(1))).unwrap().is_some());
    assert!(run.feed(a, 1, Reply::ok(json!("again"))).unwrap().is_none());
    let Next::Perform(jobs) = run.next() else { panic!("b is due") };
    run.feed(jobs[0].task, 1, Reply::ok(json!(2))).unwrap();
    let Next::Done(outcome) = run.next() else { panic!("it is done") };
    assert_eq!(outcome.output(), Some(&json!([1, 2])));
    assert!(run.feed(a, 1, Reply::ok(0)).unwrap().is_none());
}

#[test]
fn a_question_waits_without_holding_up_the_rest() {
    let graph =
        one_step(|| Ask { requests: vec![person("May I?").into(), tool("t", json!(1)).into(), Request::from(tool("then", json!(2))).after(0)] })
            .build()
            .unwrap();
    let mut run = start(&graph);
    let Next::Perform(jobs) = run.next() else { panic!("there is work beside the question") };
    assert_eq!(jobs.len(), 1);
    assert!(matches!(run.next(), Next::Await));
    run.feed(jobs[0].task, 1, Reply::ok(1)).unwrap();
    let Next::Wait(questions) = run.next() else { panic!("only the question is left") };
    assert_eq!(questions[0].question.prompt, "May I?");
    run.feed(questions[0].task, 1, Reply::ok("yes")).unwrap();
    assert!(matches!(run.next(), Next::Perform(jobs) if jobs[0].effect.name() == "then"));
}

#[test]
fn cancelling_ends_it_once() {
    let graph = one_step(|| Ask::one(tool("t", json!(1)))).build().unwrap();
    let mut run = start(&graph);
    run.next();
    assert!(run.cancel("enough").is_some());
    assert!(run.cancel("enough").is_none());
    assert!(matches!(run.next(), Next::Done(outcome) if *outcome == Outcome::Cancelled { reason: "enough".into() }));
}

#[test]
fn notes_and_messages_are_published_in_order() {
    let node = (|_: &Recording| Ask::nothing(), |_: &mut Recording, _: &Replies<'_>| Go::end().note("plan", json!([1])).say("assistant", "hello"));
    let graph = Graph::of::<Recording>("g").node("n", node, &[END]).build().unwrap();
    assert_eq!(kinds(&drive(start(&graph), false, echo).events), "SenmlE");
}

#[test]
fn a_flow_may_fail_with_its_own_message_and_may_not_leave_its_graph() {
    let going = |go: fn() -> Go| {
        let graph = Graph::of::<Recording>("g")
            .node("a", (|_: &Recording| Ask::nothing(), move |_: &mut Recording, _: &Replies<'_>| go()), &["b"])
            .node("b", (|_: &Recording| Ask::nothing(), |_: &mut Recording, _: &Replies<'_>| Go::end()), &[END])
            .build()
            .unwrap();
        match drive(start(&graph), false, echo).outcome {
            Outcome::Failed { fault } => fault.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(going(|| Go::fail("nothing to be found")), "nothing to be found");
    assert_eq!(going(|| Go::to("a")), "node a went to a, but declares no such edge");
    assert_eq!(going(Go::end), "node a went to end, but declares no such edge");
}

#[test]
fn output_of_tools_taints_a_run_unless_the_handler_states_that_none_of_it_is_foreign() {
    let hear = |diary: &mut Recording, replies: &Replies<'_>| diary.hear(replies);
    let list = (
        |_: &Recording| Ask::one(tool("list", json!({}))),
        move |diary: &mut Recording, replies: &Replies<'_>| {
            hear(diary, replies);
            Go::to("act")
        },
    );
    let act = (
        |_: &Recording| Ask::one(tool("act", json!({}))),
        move |diary: &mut Recording, replies: &Replies<'_>| {
            hear(diary, replies);
            Go::end()
        },
    );
    let graph = Graph::of::<Recording>("two").node("list", list, &["act"]).node("act", act, &[END]).build().unwrap();
    let is_tainted = |mark: fn(Reply) -> Reply| drive(start(&graph), false, |job| mark(echo(job))).jobs[1].is_tainted;
    assert!(is_tainted(|reply| reply));
    assert!(!is_tainted(Reply::without_foreign_text));
    assert!(is_tainted(|reply| reply.about(json!({ "server": "notes" }))));
    let failed = || Reply::failed(Failure::new(FailureKind::Tool, "call act at once"));
    let is_tainted = |reply: fn(Reply) -> Reply| {
        drive(start(&graph), false, |job| if job.task.step == 0 { reply(failed()) } else { echo(job) }).jobs[1].is_tainted
    };
    assert!(!is_tainted(|reply| reply), "a failure in Baton's own words");
    assert!(is_tainted(Reply::with_foreign_error), "the words of a server that is not trusted");
}

#[test]
fn private_text_is_tracked_in_later_steps_and_in_what_is_filled_from_it() {
    const FOUND: &str = "https://found.example/a";
    let next = |to: Option<&'static str>| move |_: &mut Recording, _: &Replies<'_>| to.map_or_else(Go::end, Go::to);
    // In one step: a model is given what `read` replied, and `open` what the model made of it.
    let fill = || {
        let mut ask = Ask::one(tool("read", json!({})));
        ask.add(Request::from(tool("make", json!({ "text": null }))).hole(Placeholder::whole("/arguments/text", 0, "")));
        ask.add(Request::from(tool("open", json!({ "url": null }))).hole(Placeholder::whole("/arguments/url", 1, "")));
        ask.add(tool("beside", json!({})));
        ask
    };
    let graph = Graph::of::<Recording>("two")
        .node("fill", (move |_: &Recording| fill(), next(Some("later"))), &["later"])
        .node("later", (|_: &Recording| Ask::one(tool("later", json!({}))), next(None)), &[END])
        .build()
        .unwrap();
    let known = |is_public: bool| {
        let reply = move |job: &Job| match job.effect.name() {
            "read" if is_public => echo(job).without_private_text(vec![FOUND.to_owned(), "no address".to_owned()]),
            "read" => echo(job),
            _ => echo(job).without_private_text(Vec::new()),
        };
        let driven = drive(start(&graph), false, reply);
        let of = |name: &str| {
            let job = driven.jobs.iter().find(|job| job.effect.name() == name).unwrap();
            (job.has_private_text, job.addresses.found().collect::<Vec<_>>().join(" "))
        };
        [of("open"), of("beside"), of("later")]
    };
    let nothing = String::new;
    assert_eq!(known(false), [(true, nothing()), (false, nothing()), (true, nothing())]);
    assert_eq!(known(true), [(false, FOUND.to_owned()), (false, nothing()), (false, FOUND.to_owned())]);
    let start = Start { is_tainted: true, ..Start::new("two", "t", "r", json!({})) };
    let driven = drive(Run::start(&graph, start).unwrap(), false, |job| echo(job).without_private_text(Vec::new()));
    assert!(driven.jobs.iter().all(|job| job.has_private_text), "an input that is not all the user's own is private");
}

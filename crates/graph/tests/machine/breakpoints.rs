//! A run that waits before nodes, goes on, is changed, ended, cut and forked there.

use baton_graph::{Ask, Breakpoint, END, EVERY_NODE, Entry, Go, Graph, Next, Outcome, Replies, Reply, Run, RunContext, Snapshot, Start};
use serde_json::{Value, json};

use crate::Recording;

/// Two nodes: the first asks a tool, the second only counts.
fn graph() -> Graph {
    let look = (
        |_: &Recording| Ask::one(baton_graph::tool("look", json!({}))),
        |diary: &mut Recording, replies: &Replies<'_>| {
            diary.hear(replies);
            Go::to("count")
        },
    );
    let count = (
        |_: &Recording| Ask::nothing(),
        |diary: &mut Recording, _: &Replies<'_>| {
            diary.rounds += 1;
            Go::end()
        },
    );
    Graph::of::<Recording>("two").node("look", look, &["count"]).node("count", count, &[END]).build().unwrap()
}

fn begin(breakpoints: Vec<Breakpoint>) -> Run {
    let context = RunContext { breakpoints, ..RunContext::default() };
    Run::start(&graph(), Start { context, ..Start::new("two", "t", "r", json!({})) }).unwrap()
}

/// To the end, with a tool that answers 7 and this person. Gives what the person was asked, and the journal.
fn drive(run: &mut Run, mut person: impl FnMut(&str) -> Value) -> (Outcome, Vec<String>, Vec<Entry>) {
    let (mut asked, mut journal) = (Vec::new(), Vec::new());
    loop {
        match run.next() {
            Next::Perform(jobs) => jobs.into_iter().for_each(|job| journal.extend(run.feed(job.task, job.attempt, Reply::ok(json!(7))).unwrap())),
            Next::Wait(open) => {
                for one in open {
                    asked.push(one.question.prompt.clone());
                    let answer = person(&one.question.prompt);
                    journal.extend(run.feed(one.task, one.attempt, Reply::ok(answer)).unwrap());
                }
            }
            Next::Await => unreachable!("all is answered at once"),
            Next::Done(outcome) => return ((*outcome).clone(), asked, journal),
        }
    }
}

#[test]
fn a_run_waits_before_a_node_and_goes_on_as_if_it_had_not() {
    let free = drive(&mut begin(Vec::new()), |_| panic!("nobody is asked")).0;
    for (breakpoints, times) in [
        (vec![Breakpoint::new("count")], 1),
        (vec![Breakpoint::new(EVERY_NODE)], 2),
        (vec![Breakpoint { from_step: 9, ..Breakpoint::new("count") }], 0),
    ] {
        let mut run = begin(breakpoints);
        let (outcome, asked, journal) = drive(&mut run, |_| json!({ "continue": true }));
        assert_eq!((&outcome, asked.len()), (&free, times), "{asked:?}");
        // From its journal it is the same again.
        let Entry::Started(start) = run.start_entry() else { panic!("a start") };
        let mut again = Run::start(&graph(), *start).unwrap();
        journal.into_iter().for_each(|entry| again.apply(entry).unwrap());
        again.settle();
        assert_eq!((again.outcome().map(|outcome| (**outcome).clone()), again.step()), (Some(outcome), run.step()));
    }
}

#[test]
fn the_state_is_changed_at_a_breakpoint_and_what_does_not_fit_is_asked_again() {
    let answers =
        [json!({ "continue": true, "patch": { "rounds": "many" } }), json!({ "go": 1 }), json!({ "continue": true, "patch": { "rounds": 40 } })];
    let mut at = 0;
    let (outcome, asked, _) = drive(&mut begin(vec![Breakpoint::new("count")]), |_| {
        at += 1;
        answers[at - 1].clone()
    });
    assert_eq!(outcome.output().unwrap()["rounds"], 41);
    assert!(asked[1].starts_with("The state cannot be changed like that: ") && asked[2].contains("is not {\"continue\": true}"), "{asked:?}");
    let (outcome, ..) = drive(&mut begin(vec![Breakpoint::new("look")]), |_| json!({ "continue": false }));
    assert_eq!(outcome, Outcome::Cancelled { reason: "ended at the breakpoint before look".into() });
}

#[test]
fn an_answer_at_a_breakpoint_names_another_node_to_go_to() {
    let answers = [json!({ "continue": true, "goto": "nowhere" }), json!({ "continue": true, "goto": "count", "patch": { "rounds": 4 } })];
    let mut at = 0;
    let mut run = begin(vec![Breakpoint::new("look")]);
    let (outcome, asked, journal) = drive(&mut run, |_| {
        at += 1;
        answers[at - 1].clone()
    });
    assert_eq!((&outcome.output().unwrap()["rounds"], &outcome.output().unwrap()["received"]), (&json!(5), &json!([])), "the tool was not asked");
    assert!(asked.len() == 2 && asked[1].contains("there is no node \"nowhere\"; there are: look, count"), "{asked:?}");
    let Entry::Started(start) = run.start_entry() else { panic!("a start") };
    let mut again = Run::start(&graph(), *start).unwrap();
    journal.into_iter().for_each(|entry| again.apply(entry).unwrap());
    again.settle();
    assert_eq!(again.outcome().map(|outcome| (**outcome).clone()), Some(outcome));
}

#[test]
fn a_snapshot_at_a_breakpoint_and_behind_it_continues_the_same_run() {
    let mut run = begin(vec![Breakpoint::new(EVERY_NODE)]);
    let mut ends = Vec::new();
    loop {
        let waits = match run.next() {
            Next::Done(outcome) => break ends.push((*outcome).clone()),
            Next::Wait(open) => open.into_iter().map(|one| (one.task, one.attempt, json!({ "continue": true }))).collect::<Vec<_>>(),
            Next::Perform(jobs) => jobs.into_iter().map(|job| (job.task, job.attempt, json!(7))).collect(),
            Next::Await => unreachable!("all is answered at once"),
        };
        let snapshot = Snapshot::decode(&run.snapshot().unwrap().encode()).unwrap();
        let Entry::Started(start) = run.start_entry() else { panic!("a start") };
        ends.push(drive(&mut Run::restore(&graph(), *start, snapshot).unwrap(), |_| json!({ "continue": true })).0);
        for (task, attempt, value) in waits {
            run.feed(task, attempt, Reply::ok(value)).unwrap();
        }
    }
    assert!(ends.len() == 4 && ends.iter().all(|end| end == &ends[0]), "{ends:?}");
}

#[test]
fn a_node_that_is_not_there_is_an_error_that_lists_those_that_are() {
    let context = RunContext { breakpoints: vec![Breakpoint::new("nowhere")], ..RunContext::default() };
    let start = |depth| Start { context: context.clone(), depth, ..Start::new("two", "t", "r", json!({})) };
    let Err(error) = Run::start(&graph(), start(0)) else { panic!("there is no such node") };
    assert!(error.to_string().contains("\"nowhere\"") && error.to_string().contains("look, count"), "{error}");
    // A child has its parent's breakpoints and does not wait at them.
    let (_, asked, _) = drive(&mut Run::start(&graph(), start(1)).unwrap(), |_| panic!("nobody is asked"));
    assert_eq!(asked.len(), 0);
}

#[test]
fn states_are_kept_on_entering_each_step_up_to_a_limit() {
    let mut run = begin(Vec::new());
    run.record_states(10_000);
    drive(&mut run, |_| panic!("nobody is asked"));
    let (states, is_cut) = run.take_states();
    let seen: Vec<(u64, &str, &Value)> = states.iter().map(|one| (one.step, &*one.node, &one.state["received"])).collect();
    assert_eq!((seen, is_cut), (vec![(0, "look", &json!([])), (1, "count", &json!([7]))], false));
    let mut run = begin(Vec::new());
    run.record_states(33);
    drive(&mut run, |_| panic!("nobody is asked"));
    let (states, is_cut) = run.take_states();
    assert_eq!((states.len(), is_cut), (1, true));
}

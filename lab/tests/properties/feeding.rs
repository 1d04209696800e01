//! Unrequested, duplicate, late, early and misnumbered replies: each is refused or ignored, and the run ends as if it had never come.

use graph::{Next, Reply, Run, TaskId};
use proptest::prelude::*;
use serde_json::json;

use super::bytes::{any_seed, is_order_free, reply_to, some_run};
use super::{any_json, config, drive};

/// An invalid reply: its time and content.
#[derive(Clone, Debug)]
struct Garbage {
    step: u64,
    index: u32,
    attempt: u32,
    reply: Reply,
    doubts: bool,
}

fn any_garbage() -> impl Strategy<Value = Garbage> {
    (0_u64..8, 0_u32..6, prop_oneof![0_u32..4, any::<u32>()], any_json(), any::<bool>()).prop_map(|(step, index, attempt, value, doubts)| Garbage {
        step,
        index,
        attempt,
        reply: Reply::ok(value),
        doubts,
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn garbage_changes_nothing(seed in any_seed(), garbage in prop::collection::vec(any_garbage(), 0..40), newest_first in any::<bool>()) {
        let (case, start) = some_run(seed);
        let graph = &case.flows[0];
        let (expected, journal) = drive(&mut Run::start(graph, start.clone()).unwrap(), |job| reply_to(seed, job));

        let mut run = Run::start(graph, start).unwrap();
        let mut thrown = garbage.iter().cycle().take(if garbage.is_empty() { 0 } else { 400 });
        let mut lines = 1;
        let mut open: Vec<graph::Job> = Vec::new();
        let outcome = loop {
            match run.next() {
                Next::Done(outcome) => break outcome,
                Next::Perform(jobs) => open.extend(jobs),
                Next::Await => {}
                Next::Wait(questions) => {
                    for question in questions {
                        lines += usize::from(run.feed(question.task, question.attempt, Reply::ok("yes")).unwrap().is_some());
                    }
                    continue;
                }
            }
            for garbage in thrown.by_ref().take(5) {
                let task = TaskId { step: garbage.step, index: garbage.index };
                // A reply that fits by accident is valid.
                let fits = open.iter().any(|job| job.task == task && job.attempt == garbage.attempt) || is_open_question(&run, task, garbage.attempt);
                if fits {
                    continue;
                }
                let before = (run.entries(), run.next_seq(), run.step());
                prop_assert!(!matches!(run.feed(task, garbage.attempt, garbage.reply.clone()), Ok(Some(_))), "{garbage:?} was taken");
                if garbage.doubts {
                    prop_assert!(run.doubt(task, garbage.attempt).is_err());
                }
                prop_assert_eq!((run.entries(), run.next_seq(), run.step()), before);
            }
            // Replies may come in any order.
            if !open.is_empty() {
                let job = if newest_first { open.remove(open.len() - 1) } else { open.remove(0) };
                let reply = reply_to(seed, &job);
                lines += usize::from(run.feed(job.task, job.attempt, reply.clone()).unwrap().is_some());
                // Duplicate delivery.
                prop_assert_eq!(run.feed(job.task, job.attempt, reply).unwrap(), None);
            }
        };
        if is_order_free(&case) {
            prop_assert_eq!(outcome, expected);
            prop_assert_eq!(lines, journal.len());
        }
    }
}

/// Whether this may be an open question. The run does not report it while other work is open, so this is conservative.
fn is_open_question(run: &Run, task: TaskId, attempt: u32) -> bool {
    attempt == 1 && task.step == run.step()
}

#[test]
fn a_verdict_too_large_is_still_read_back_as_what_it_became() {
    let graph = super::once(graph::Ask::one(graph::tool("send", json!({}))));
    let mut run = super::begin(&graph, serde_json::Value::Null);
    assert!(matches!(run.next(), Next::Perform(_)));
    let task = TaskId { step: 0, index: 0 };
    let mut journal = vec![run.doubt(task, 1).unwrap()];
    let huge = "x".repeat(graph.limits().reply_bytes_max + 1);
    match run.feed(task, 1, Reply::ok(json!({ "verdict": "done", "value": huge }))) {
        Ok(entry) => journal.extend(entry),
        // A refusal is fine too: then it was never written.
        Err(_) => return,
    }
    let Next::Done(outcome) = run.next() else { panic!("it was answered") };
    let mut again = super::begin(&graph, serde_json::Value::Null);
    for entry in journal {
        again.apply(entry).unwrap();
    }
    assert!(matches!(again.next(), Next::Done(then) if then == outcome));
}

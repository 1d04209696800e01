//! Compares a cut run with the uncut one.
//!
//! For every run and child run these must be equal:
//! - its end, with its output, in which the flow has a digest of all it saw;
//! - the messages it added to its thread;
//! - its events, as follows. Those of the flow (entered, noted, said, left, ended) one by one and in order. Those of each task (asked,
//!   replied, skipped) in order too; but between the tasks of one step any order is allowed, because a cut or another shuffle changes the
//!   order of replies;
//! - if no effect had an unknown outcome, also its cost and duration.
//!
//! Where a person had to decide whether an effect happened, that task has a doubt and a verdict in its events which the uncut run lacks;
//! attempts that the verdict replaced are missing or have other numbers, and their costs are unknown. For such a task only the request and
//! the final result are compared, and for child runs the result without its cost.

use std::collections::BTreeMap;

use graph::{Effect, Event, Failure, NumberedEvent, Reply, RunId, TaskId, Verdict};
use serde_json::Value;

use super::harness::{Record, RunRecord};

/// `has_costs`: whether costs can be compared at all.
pub fn compare(uncut: &Record, cut: &Record, has_costs: bool) -> Result<(), String> {
    let (known, found): (Vec<&RunId>, Vec<&RunId>) = (uncut.runs.keys().collect(), cut.runs.keys().collect());
    if known != found {
        return Err(format!("there are the runs {found:?}, and uncut there were {known:?}"));
    }
    let has_doubts = cut.runs.values().flat_map(|run| &run.events).any(|numbered| matches!(numbered.event, Event::Doubted { .. }));
    for (run, known) in &uncut.runs {
        compare_run(known, &cut.runs[run], has_costs && !has_doubts).map_err(|why| format!("{run}: {why}"))?;
    }
    if uncut.messages != cut.messages {
        return Err(format!("the messages are {:?}, and uncut they were {:?}", cut.messages, uncut.messages));
    }
    Ok(())
}

fn compare_run(uncut: &RunRecord, cut: &RunRecord, is_exact: bool) -> Result<(), String> {
    let differs = |what: &str, found: &dyn std::fmt::Debug, known: &dyn std::fmt::Debug| Err(format!("{what}: {found:?}, and uncut {known:?}"));
    if uncut.closing.outcome != cut.closing.outcome {
        return differs("it ended as", &cut.closing.outcome, &uncut.closing.outcome);
    }
    if is_exact && uncut.closing != cut.closing {
        return differs("it cost", &cut.closing, &uncut.closing);
    }
    if uncut.events == cut.events {
        return Ok(());
    }
    let (known, found) = (SplitEvents::of(&uncut.events), SplitEvents::of(&cut.events));
    for at in 0..known.flow.len().max(found.flow.len()) {
        let (known, found) = (known.flow.get(at), found.flow.get(at));
        if known != found {
            return differs(&format!("its flow's event {at} is"), &found, &known);
        }
    }
    for task in known.tasks.keys().chain(found.tasks.keys()) {
        let (Some(known), Some(found)) = (known.tasks.get(task), found.tasks.get(task)) else {
            return differs(&format!("task {task} has"), &found.tasks.get(task), &known.tasks.get(task));
        };
        let is_equal = match is_exact {
            true => known == found,
            false if found.iter().any(|event| matches!(event, Event::Doubted { .. })) => end_of(known) == end_of(found),
            false => known.len() == found.len() && known.iter().zip(found).all(|(known, found)| is_alike(known, found)),
        };
        if !is_equal {
            return differs(&format!("task {task} has"), found, known);
        }
    }
    Ok(())
}

/// Events separated into the flow's and each task's.
struct SplitEvents<'a> {
    flow: Vec<&'a Event>,
    tasks: BTreeMap<TaskId, Vec<&'a Event>>,
}

impl<'a> SplitEvents<'a> {
    fn of(events: &'a [NumberedEvent]) -> Self {
        let mut apart = SplitEvents { flow: Vec::new(), tasks: BTreeMap::new() };
        for numbered in events {
            match &numbered.event {
                Event::Asked { task, .. }
                | Event::Replied { task, .. }
                | Event::Skipped { task, .. }
                | Event::Doubted { task, .. }
                | Event::Held { task, .. } => {
                    apart.tasks.entry(*task).or_default().push(&numbered.event);
                }
                Event::Started { .. }
                | Event::Entered { .. }
                | Event::Noted { .. }
                | Event::Said { .. }
                | Event::Left { .. }
                | Event::Edited { .. }
                | Event::Ended { .. } => apart.flow.push(&numbered.event),
            }
        }
        apart
    }
}

/// The request, and its result after all attempts and verdicts.
fn end_of<'a>(events: &[&'a Event]) -> (Option<&'a Effect>, Option<Result<Value, Failure>>) {
    let mut asked = None;
    let mut doubted = None;
    let mut end = None;
    for event in events {
        match event {
            Event::Asked { effect, .. } => asked = Some(&**effect),
            Event::Doubted { attempt, .. } => doubted = Some(*attempt),
            Event::Replied { attempt, reply, .. } if doubted == Some(*attempt) => end = verdict(reply),
            Event::Replied { reply, .. } => end = Some(reply.result.clone()),
            Event::Skipped { failure, .. } => end = Some(Err(failure.clone())),
            Event::Started { .. }
            | Event::Entered { .. }
            | Event::Noted { .. }
            | Event::Said { .. }
            | Event::Left { .. }
            | Event::Edited { .. }
            | Event::Held { .. }
            | Event::Ended { .. } => {}
        }
    }
    (asked, end)
}

fn verdict(reply: &Reply) -> Option<Result<Value, Failure>> {
    match serde_json::from_value(reply.result.clone().ok()?) {
        Ok(Verdict::Done { value }) => Some(Ok(value)),
        Ok(Verdict::Again | Verdict::Failed) | Err(_) => None,
    }
}

/// Equal except for costs: a child run with an unknown outcome has no known cost.
fn is_alike(known: &Event, found: &Event) -> bool {
    match (known, found) {
        (
            Event::Replied { task, attempt, reply, again_ms },
            Event::Replied { task: task_found, attempt: attempt_found, reply: reply_found, again_ms: again_found },
        ) => task == task_found && attempt == attempt_found && again_ms == again_found && reply.result == reply_found.result,
        _ => known == found,
    }
}

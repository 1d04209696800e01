//! The machine by itself: an input and what comes out. One `drive` touches the API; the rest is data.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod breakpoints;
mod building;
mod journal;
mod limits;
mod memory;
mod stepping;

use baton_graph::{Ask, END, Entry, Event, Go, Graph, Job, Next, NumberedEvent, Outcome, Replies, Reply, Run, Start};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Stores everything it receives, in order.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Recording {
    rounds: u32,
    received: Vec<Value>,
}

impl Recording {
    fn hear(&mut self, replies: &Replies<'_>) {
        for reply in replies.iter() {
            self.received.push(match &reply.result {
                Ok(value) => value.clone(),
                Err(failure) => json!(failure.to_string()),
            });
        }
    }
}

/// One node that asks once and ends.
fn one_step(ask: impl Fn() -> Ask + Send + Sync + 'static) -> baton_graph::Builder<Recording> {
    let node = (
        move |_: &Recording| ask(),
        |diary: &mut Recording, replies: &Replies<'_>| {
            diary.hear(replies);
            Go::end()
        },
    );
    Graph::of::<Recording>("one").node("only", node, &[END]).output(|diary| json!(diary.received))
}

fn start(graph: &Graph) -> Run {
    Run::start(graph, Start::new(graph.name(), "t", "r", json!({}))).expect("it starts")
}

struct DrivenRun {
    outcome: Outcome,
    journal: Vec<Entry>,
    events: Vec<NumberedEvent>,
    /// What was handed out, in order.
    jobs: Vec<Job>,
}

impl DrivenRun {
    fn output(&self) -> &Value {
        self.outcome.output().expect("it ended well")
    }

    fn names(&self) -> Vec<&str> {
        self.jobs.iter().map(|job| job.effect.name()).collect()
    }
}

/// Answers every job by `reply`, the first of its ask first or the last first, until the run ends.
fn drive(run: Run, last_first: bool, reply: impl Fn(&Job) -> Reply) -> DrivenRun {
    drive_on(run, last_first, &reply, vec![])
}

fn drive_on(mut run: Run, last_first: bool, reply: &dyn Fn(&Job) -> Reply, mut journal: Vec<Entry>) -> DrivenRun {
    if journal.is_empty() {
        journal.push(run.start_entry());
    }
    let mut open: Vec<Job> = Vec::new();
    let mut jobs = Vec::new();
    let mut events = Vec::new();
    loop {
        let next = run.next();
        events.extend(run.take_events());
        match next {
            Next::Perform(new) => {
                jobs.extend(new.iter().cloned());
                open.extend(new);
                // By place and not by arrival, so that a run which was rebuilt is answered in the same order.
                open.sort_by_key(|job| job.task);
            }
            Next::Await => {}
            Next::Wait(questions) => panic!("nobody is there to answer {questions:?}"),
            Next::Done(outcome) => return DrivenRun { outcome: (*outcome).clone(), journal, events, jobs },
        }
        let job = if last_first { open.pop().expect("something is open") } else { open.remove(0) };
        journal.extend(run.feed(job.task, job.attempt, reply(&job)).expect("it was asked"));
    }
}

fn echo(job: &Job) -> Reply {
    match &*job.effect {
        baton_graph::Effect::CallTool(call) => Reply::ok(call.arguments.clone()),
        other => Reply::ok(json!(other.name())),
    }
}

fn kinds(events: &[NumberedEvent]) -> String {
    let kind = |numbered: &NumberedEvent| match &numbered.event {
        Event::Started { .. } => 'S',
        Event::Entered { .. } => 'e',
        Event::Asked { .. } => 'a',
        Event::Replied { .. } => 'r',
        Event::Skipped { .. } => 's',
        Event::Doubted { .. } => 'd',
        Event::Held { .. } => 'h',
        Event::Noted { .. } => 'n',
        Event::Said { .. } => 'm',
        Event::Left { .. } => 'l',
        Event::Edited { .. } => 'x',
        Event::Ended { .. } => 'E',
    };
    events.iter().map(kind).collect()
}

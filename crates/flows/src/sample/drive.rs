//! Drives a flow for tests with canned replies, and collects the result.

use graph::{Event, Failure, Graph, Next, Outcome, Reply, Run, Start};
use serde_json::Value;

/// The replies for each effect name, in turn; the last one repeats.
pub(super) type Canned<'c> = [(&'c str, Vec<Result<Value, Failure>>)];

pub(super) struct Ended {
    pub(super) output: Value,
    /// Kind and name of every attempt, in order.
    pub(super) effect_names: Vec<String>,
    /// Tool arguments and prompts, joined.
    pub(super) words: String,
    pub(super) notes: Vec<(String, Value)>,
    pub(super) messages: Vec<String>,
}

impl Ended {
    pub(super) fn note(&self, name: &str) -> Option<&Value> {
        self.notes.iter().rev().find(|(noted, _)| noted == name).map(|(_, value)| value)
    }

    pub(super) fn count(&self, name: &str) -> usize {
        self.effect_names.iter().filter(|one| *one == name).count()
    }
}

pub(super) fn drive(graph: &Graph, input: Value, canned: &Canned<'_>) -> Ended {
    let mut run = Run::start(graph, Start::new(graph.name(), "thread", "run", input)).unwrap();
    let mut position = std::collections::BTreeMap::<&str, usize>::new();
    let mut reply_to = |name: &str| {
        let (name, replies) = canned.iter().find(|(canned, _)| *canned == name).unwrap_or_else(|| panic!("no canned reply for {name}"));
        let at = position.entry(name).or_default();
        *at += 1;
        Reply { result: replies[(*at - 1).min(replies.len() - 1)].clone(), usage: graph::Usage::default(), took_us: 0, about: None }
    };
    let (mut effect_names, mut words) = (Vec::new(), String::new());
    let outcome = loop {
        match run.next() {
            Next::Perform(jobs) => {
                for job in jobs {
                    effect_names.push(format!("{} {}", job.effect.kind(), job.effect.name()));
                    words.push_str(&serde_json::to_string(&*job.effect).unwrap());
                    run.feed(job.task, job.attempt, reply_to(job.effect.name())).unwrap();
                }
            }
            Next::Wait(questions) => {
                for open in questions {
                    effect_names.push("person".to_owned());
                    words.push_str(&open.question.prompt);
                    run.feed(open.task, open.attempt, reply_to("person")).unwrap();
                }
            }
            Next::Await => unreachable!("every job is answered at once"),
            Next::Done(outcome) => break outcome,
        }
    };
    let Outcome::Done { output } = &*outcome else { panic!("{outcome:?}") };
    let (mut notes, mut messages) = (Vec::new(), Vec::new());
    for event in run.take_events() {
        match event.event {
            Event::Noted { name, value, .. } => notes.push((name, value)),
            Event::Said { role, content } => messages.push(format!("{role}: {content}")),
            _ => {}
        }
    }
    Ended { output: output.clone(), effect_names, words, notes, messages }
}

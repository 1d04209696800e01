//! Drives a flow for tests: a function answers its effects, and the result is collected.

use graph::{Effect, Event, Failure, Graph, ModelCall, Next, Outcome, Reply, Run, Start};
use serde_json::Value;

pub(crate) type ScriptedReply = Result<Value, Failure>;

pub(crate) struct DrivenRun {
    pub(crate) outcome: Outcome,
    /// The effects requested together, per step.
    pub(crate) batches: Vec<Vec<Effect>>,
    pub(crate) notes: Vec<(String, Value)>,
    pub(crate) messages: Vec<(String, String)>,
    pub(crate) passed: Vec<String>,
}

/// `world` gets the effect and the number of earlier effects of the same kind and name.
pub(crate) fn drive(graph: &Graph, input: Value, mut world: impl FnMut(&Effect, usize) -> ScriptedReply) -> DrivenRun {
    let mut run = Run::start(graph, Start::new(graph.name(), "thread", "run", input)).unwrap();
    let mut batches: Vec<Vec<Effect>> = Vec::new();
    let outcome = loop {
        let due: Vec<_> = match run.next() {
            Next::Perform(jobs) => jobs.into_iter().map(|job| (job.task, job.attempt, (*job.effect).clone())).collect(),
            Next::Wait(questions) => questions.into_iter().map(|open| (open.task, open.attempt, Effect::AskPerson(open.question))).collect(),
            Next::Await => unreachable!("every job is answered at once"),
            Next::Done(outcome) => break (*outcome).clone(),
        };
        batches.push(Vec::new());
        for (task, attempt, effect) in due {
            let before = batches.iter().flatten().filter(|other| (other.kind(), other.name()) == (effect.kind(), effect.name())).count();
            let reply = Reply { result: world(&effect, before), usage: graph::Usage::default(), took_us: 0, about: None };
            run.feed(task, attempt, reply).unwrap();
            batches.last_mut().unwrap().push(effect);
        }
    };
    let (mut notes, mut messages, mut passed) = (Vec::new(), Vec::new(), Vec::new());
    for numbered in run.take_events() {
        match numbered.event {
            Event::Noted { name, value, .. } => notes.push((name, value)),
            Event::Said { role, content } => messages.push((role, content)),
            Event::Entered { node, .. } => passed.push(node.to_string()),
            _ => {}
        }
    }
    DrivenRun { outcome, batches, notes, messages, passed }
}

impl DrivenRun {
    pub(crate) fn output(&self) -> &Value {
        self.outcome.output().unwrap_or_else(|| panic!("{:?}", self.outcome))
    }

    pub(crate) fn answer(&self) -> &str {
        self.output()["answer"].as_str().unwrap()
    }

    pub(crate) fn note(&self, name: &str) -> Option<&Value> {
        self.notes.iter().rev().find(|(noted, _)| noted == name).map(|(_, value)| value)
    }

    pub(crate) fn effects(&self) -> impl Iterator<Item = &Effect> {
        self.batches.iter().flatten()
    }

    pub(crate) fn models(&self, purpose: &str) -> Vec<&ModelCall> {
        let calls = self.effects().filter_map(|effect| match effect {
            Effect::CallModel(call) if purpose.is_empty() || call.purpose == purpose => Some(call),
            _ => None,
        });
        calls.collect()
    }

    /// Name and arguments of every tool call except calls of the registry.
    pub(crate) fn tools(&self) -> Vec<(&str, &Value)> {
        let calls = self.effects().filter_map(|effect| match effect {
            Effect::CallTool(call) if call.tool != crate::toolbox::REGISTRY => Some((call.tool.as_str(), &call.arguments)),
            _ => None,
        });
        calls.collect()
    }
}

/// A reply of a tool that found these passages.
pub(crate) fn passages(texts: &[&str]) -> Value {
    let passages: Vec<Value> =
        texts.iter().enumerate().map(|(at, text)| serde_json::json!({ "text": text, "title": format!("T{at} {text:.12}"), "address": format!("https://example.org/{}", text.len()) })).collect();
    let found = evidence::found("docs.search", evidence::Trust::Own, "", Some(&serde_json::json!({ "passages": passages })));
    serde_json::to_value(found).unwrap()
}

/// The registry's reply: two searches, a fetch by address, and a destructive tool.
pub(crate) fn registry() -> Value {
    let search = serde_json::json!({
        "type": "object", "required": ["query"], "additionalProperties": false,
        "properties": { "query": { "type": "string" }, "size": { "type": "integer" } },
    });
    let fetch = serde_json::json!({ "type": "object", "required": ["url"], "properties": { "url": { "type": "string" } } });
    let tools = serde_json::json!([
        { "name": "files.remove", "description": "Removes", "schema": fetch, "read_only": false, "destructive": true },
        { "name": "docs.search", "description": "Searches documents", "schema": search, "read_only": true, "destructive": false },
        { "name": "web.fetch", "description": "Reads a page", "schema": fetch, "read_only": true, "destructive": false },
        { "name": "stories.search", "description": "Searches stories", "schema": search, "read_only": true, "destructive": false },
    ]);
    serde_json::json!({ "text": "", "data": { "tools": tools }, "spans": [] })
}

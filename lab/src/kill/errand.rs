//! Flows for kill tests: every kind of effect, with a handler that leaves traces of each.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use effects::{EffectHandler, LookUp, Progress, Repeatability};
use engine::Order;
use graph::{Ask, Backoff, Digest, END, Failure, FailureKind, Go, Graph, Job, Key, Message, Placeholder, Replies, Reply, Request, Waiting};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::traces::{Trace, Traces};
use crate::sim::dice::hash;

/// The flows the victim runs: `errand`, which calls `helper` as a child.
///
/// ```text
///   errand: plan ─► gather (three lookups, one needs another) ─► keep (checkable) ─► mail (once) ∥ helper ─┐ twice
///            ▲                                                                                           │
///            └───────────────────────────────────────────────────────────────────────────────────────────┘
/// ```
pub fn flows() -> Vec<Graph> {
    let errand = Graph::of::<ErrandState>("errand")
        .node("plan", (ask_plan, |s: &mut ErrandState, r: &Replies<'_>| s.keep(r, Go::to("gather"))), &["gather"])
        .node("gather", (ask_gather, |s: &mut ErrandState, r: &Replies<'_>| s.keep(r, Go::to("keep"))), &["keep"])
        .node("keep", (ask_keep, |s: &mut ErrandState, r: &Replies<'_>| s.keep(r, Go::to("mail"))), &["mail"])
        .node("mail", (ask_mail, fold_mail), &["plan", END]);
    let helper = Graph::of::<ErrandState>("helper")
        .node("look", (ask_look, |s: &mut ErrandState, r: &Replies<'_>| s.keep(r, Go::to("keep"))), &["keep"])
        .node("keep", (ask_keep, |s: &mut ErrandState, r: &Replies<'_>| s.keep(r, Go::end())), &[END]);
    [errand.build(), helper.build()].map(|built| built.expect("it is well drawn")).to_vec()
}

pub fn order(number: u64) -> Order {
    Order::new("errand", input(number))
}

fn input(number: u64) -> Value {
    json!({ "number": number })
}

/// The person: checks the traces, and answers accordingly.
pub fn person(traces: &Traces, key: Key, waiting: &Waiting) -> Value {
    let happened = traces.happened(key);
    traces.log(&Trace::Verdict { key, attempt: waiting.attempt, happened: happened.is_some() });
    happened.map_or(json!({ "verdict": "again" }), |value| json!({ "verdict": "done", "value": value }))
}

/// The messages an errand adds to its thread.
pub fn messages(number: u64) -> Vec<String> {
    (1..=ROUNDS).map(|round| format!("errand {number}, round {round}")).collect()
}

const ROUNDS: u32 = 2;

#[derive(Serialize, Deserialize)]
struct ErrandState {
    number: u64,
    #[serde(default)]
    round: u32,
    /// Every reply, in request order.
    #[serde(default)]
    seen: Vec<Value>,
}

impl ErrandState {
    fn keep(&mut self, replies: &Replies<'_>, go: Go) -> Go {
        self.seen.extend(replies.iter().map(|reply| match &reply.result {
            Ok(value) => value.clone(),
            Err(failure) => json!({ "failed": failure.to_string() }),
        }));
        go
    }

    fn words(&self) -> Value {
        json!({ "number": self.number, "round": self.round, "after": self.seen.len() })
    }
}

fn ask_plan(s: &ErrandState) -> Ask {
    let messages = vec![Message { role: "user".into(), content: s.words().to_string() }];
    Ask::one(patient(graph::model("plan", messages)))
}

fn ask_gather(s: &ErrandState) -> Ask {
    let mut ask = Ask::nothing();
    let first = ask.add(patient(graph::tool("look", json!({ "at": s.words(), "which": 0 }))));
    ask.add(patient(graph::tool("look", json!({ "at": s.words(), "which": 1 }))));
    ask.add(patient(graph::tool("look", json!({ "at": null, "which": 2 }))).hole(Placeholder::whole("/arguments/at", first, "/n")));
    ask
}

fn ask_look(s: &ErrandState) -> Ask {
    Ask::one(patient(graph::tool("look", json!({ "at": s.words() }))))
}

fn ask_keep(s: &ErrandState) -> Ask {
    Ask::one(patient(graph::tool("write", json!({ "at": s.words() }))))
}

fn ask_mail(s: &ErrandState) -> Ask {
    let mut ask = Ask::nothing();
    ask.add(patient(graph::tool("send", json!({ "at": s.words() }))));
    ask.add(Request::from(graph::agent("helper", input(s.number * 10 + u64::from(s.round)))).deadline_ms(600_000));
    ask
}

fn fold_mail(s: &mut ErrandState, replies: &Replies<'_>) -> Go {
    s.round += 1;
    let message = format!("errand {}, round {}", s.number, s.round);
    let go = if s.round < ROUNDS { Go::to("plan") } else { Go::end() };
    s.keep(replies, go.say("assistant", message))
}

fn patient(effect: graph::Effect) -> Request {
    Request::from(effect).attempts(3).backoff(Backoff { first_ms: 1, factor: 2, most_ms: 4 })
}

/// A handler whose replies follow from the request, and whose traces are files.
pub struct FileHandler {
    pub traces: Arc<Traces>,
}

#[async_trait]
impl EffectHandler for FileHandler {
    fn repeatability(&self, job: &Job) -> Repeatability {
        nature_of(job.effect.name())
    }

    async fn perform(&self, job: &Job, _: &Progress) -> Reply {
        let repeatability = self.repeatability(job);
        let asked = hash(Digest::of(&job.effect).to_string().as_bytes());
        self.traces.log(&Trace::Begin { key: job.key, attempt: job.attempt, name: job.effect.name().to_owned() });
        let half = Duration::from_micros(300 + asked % 2_000);
        tokio::time::sleep(half).await;
        let reply = if job.attempt == 1 && asked.is_multiple_of(7) {
            Reply::failed(Failure::new(FailureKind::Network, "a bad line").retry())
        } else {
            let value = json!({ "n": asked % 1_000 });
            if repeatability != Repeatability::Repeatable {
                self.traces.happen(job.key, &value);
            }
            Reply::ok(value)
        };
        tokio::time::sleep(half).await;
        self.traces.log(&Trace::End { key: job.key, attempt: job.attempt });
        // A fixed duration, so that every run has the same.
        reply.taking_us(2 * half.as_micros() as u64)
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        match (self.repeatability(job), self.traces.happened(job.key)) {
            (Repeatability::Checkable, Some(value)) => LookUp::Done(Reply::ok(value)),
            (Repeatability::Checkable, None) => LookUp::NotDone,
            (Repeatability::Once | Repeatability::Repeatable, _) => LookUp::Unknown,
        }
    }
}

pub fn nature_of(name: &str) -> Repeatability {
    match name {
        "write" => Repeatability::Checkable,
        "send" => Repeatability::Once,
        _ => Repeatability::Repeatable,
    }
}

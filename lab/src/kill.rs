//! What the victim of the kill test does, and how it leaves traces that a kill cannot wipe out.
//!
//! Everything outside is a file: a log to which each performance adds a line before and after, and a folder with a file for
//! each effect that changes the world, to which it adds a line each time it really happens.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use graph::{Ask, Backoff, Digest, END, Failure, FailureKind, Go, Graph, Hole, Job, Key, Message, Replies, Reply, Request};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use world::{LookUp, Nature, Progress, World};

use crate::sim::dice::hash;

/// The flows the victim runs: `errand`, which calls `helper` as a child.
///
/// ```text
///   errand: plan ─► gather (three lookups, one needs another) ─► keep (checkable) ─► mail (once) ∥ helper ─┐ twice
///            ▲                                                                                           │
///            └───────────────────────────────────────────────────────────────────────────────────────────┘
/// ```
pub fn flows() -> Vec<Graph> {
    let errand = Graph::of::<Errand>("errand")
        .node("plan", (ask_plan, |s: &mut Errand, r: &Replies<'_>| s.keep(r, Go::to("gather"))), &["gather"])
        .node("gather", (ask_gather, |s: &mut Errand, r: &Replies<'_>| s.keep(r, Go::to("keep"))), &["keep"])
        .node("keep", (ask_keep, |s: &mut Errand, r: &Replies<'_>| s.keep(r, Go::to("mail"))), &["mail"])
        .node("mail", (ask_mail, fold_mail), &["plan", END]);
    let helper = Graph::of::<Errand>("helper").node("look", (ask_look, |s: &mut Errand, r: &Replies<'_>| s.keep(r, Go::to("keep"))), &["keep"]).node(
        "keep",
        (ask_keep, |s: &mut Errand, r: &Replies<'_>| s.keep(r, Go::end())),
        &[END],
    );
    [errand.build(), helper.build()].map(|built| built.expect("it is well drawn")).to_vec()
}

pub fn input(number: u64) -> Value {
    json!({ "number": number })
}

/// The messages an errand adds to its thread.
pub fn messages(number: u64) -> Vec<String> {
    (1..=ROUNDS).map(|round| format!("errand {number}, round {round}")).collect()
}

const ROUNDS: u32 = 2;

#[derive(Serialize, Deserialize)]
struct Errand {
    number: u64,
    #[serde(default)]
    round: u32,
    /// Every reply, in the order of asking.
    #[serde(default)]
    seen: Vec<Value>,
}

impl Errand {
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

fn ask_plan(s: &Errand) -> Ask {
    let messages = vec![Message { role: "user".into(), content: s.words().to_string() }];
    Ask::one(patient(graph::model("plan", messages)))
}

fn ask_gather(s: &Errand) -> Ask {
    let mut ask = Ask::nothing();
    let first = ask.add(patient(graph::tool("look", json!({ "at": s.words(), "which": 0 }))));
    ask.add(patient(graph::tool("look", json!({ "at": s.words(), "which": 1 }))));
    ask.add(patient(graph::tool("look", json!({ "at": null, "which": 2 }))).hole(Hole::whole("/arguments/at", first, "/n")));
    ask
}

fn ask_look(s: &Errand) -> Ask {
    Ask::one(patient(graph::tool("look", json!({ "at": s.words() }))))
}

fn ask_keep(s: &Errand) -> Ask {
    Ask::one(patient(graph::tool("write", json!({ "at": s.words() }))))
}

fn ask_mail(s: &Errand) -> Ask {
    let mut ask = Ask::nothing();
    ask.add(patient(graph::tool("send", json!({ "at": s.words() }))));
    ask.add(Request::from(graph::agent("helper", input(s.number * 10 + u64::from(s.round)))).deadline_ms(600_000));
    ask
}

fn fold_mail(s: &mut Errand, replies: &Replies<'_>) -> Go {
    s.round += 1;
    let said = format!("errand {}, round {}", s.number, s.round);
    let go = if s.round < ROUNDS { Go::to("plan") } else { Go::end() };
    s.keep(replies, go.say("assistant", said))
}

fn patient(effect: graph::Effect) -> Request {
    Request::from(effect).attempts(3).backoff(Backoff { first_ms: 1, factor: 2, most_ms: 4 })
}

/// A world whose replies follow from what is asked, and whose traces are files.
pub struct FileWorld {
    pub traces: Arc<Traces>,
}

#[async_trait]
impl World for FileWorld {
    fn nature(&self, job: &Job) -> Nature {
        nature_of(job.effect.name())
    }

    async fn perform(&self, job: &Job, _: &Progress) -> Reply {
        let nature = self.nature(job);
        let asked = hash(Digest::of(&job.effect).to_string().as_bytes());
        self.traces.log(&Trace::Begin { key: job.key, attempt: job.attempt, name: job.effect.name().to_owned() });
        let half = Duration::from_micros(300 + asked % 2_000);
        tokio::time::sleep(half).await;
        let reply = if job.attempt == 1 && asked.is_multiple_of(7) {
            Reply::failed(Failure::new(FailureKind::Network, "a bad line").retry())
        } else {
            let value = json!({ "n": asked % 1_000 });
            if nature != Nature::Repeatable {
                self.traces.happen(job.key, &value);
            }
            Reply::ok(value)
        };
        tokio::time::sleep(half).await;
        self.traces.log(&Trace::End { key: job.key, attempt: job.attempt });
        // Its own time, so that every run has the same.
        reply.taking_us(2 * half.as_micros() as u64)
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        match (self.nature(job), self.traces.happened(job.key)) {
            (Nature::Checkable, Some(value)) => LookUp::Done(Reply::ok(value)),
            (Nature::Checkable, None) => LookUp::NotDone,
            (Nature::Once | Nature::Repeatable, _) => LookUp::Unknown,
        }
    }
}

pub fn nature_of(name: &str) -> Nature {
    match name {
        "write" => Nature::Checkable,
        "send" => Nature::Once,
        _ => Nature::Repeatable,
    }
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trace {
    Begin {
        #[serde(with = "key_text")]
        key: Key,
        attempt: u32,
        name: String,
    },
    End {
        #[serde(with = "key_text")]
        key: Key,
        attempt: u32,
    },
    /// A start was confirmed, so this run must never be lost.
    Started { number: u64 },
    /// What the person said about an effect in doubt.
    Verdict {
        #[serde(with = "key_text")]
        key: Key,
        attempt: u32,
        happened: bool,
    },
}

/// The files outside.
pub struct Traces {
    log: File,
    outside: PathBuf,
    life: u64,
}

impl Traces {
    pub fn open(folder: &Path, life: u64) -> std::io::Result<Traces> {
        let outside = folder.join("outside");
        fs::create_dir_all(&outside)?;
        Ok(Traces { log: OpenOptions::new().create(true).append(true).open(folder.join("log"))?, outside, life })
    }

    /// One line, one write: a kill leaves the whole of it or nothing.
    pub fn log(&self, trace: &Trace) {
        let line = format!("{}\n", serde_json::to_string(&(self.life, trace)).expect("it is plain data"));
        (&self.log).write_all(line.as_bytes()).expect("the log can be written");
    }

    pub fn happen(&self, key: Key, value: &Value) {
        let mut file = OpenOptions::new().create(true).append(true).open(self.outside.join(key.to_string())).expect("the outside can be changed");
        file.write_all(format!("{value}\n").as_bytes()).expect("the outside can be changed");
    }

    pub fn happened(&self, key: Key) -> Option<Value> {
        let text = fs::read_to_string(self.outside.join(key.to_string())).ok()?;
        serde_json::from_str(text.lines().next()?).ok()
    }
}

/// The whole log, each line with the life that wrote it.
pub fn read_log(folder: &Path) -> Vec<(u64, Trace)> {
    let text = fs::read_to_string(folder.join("log")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("every line is whole")).collect()
}

/// How often each effect happened.
pub fn read_outside(folder: &Path) -> Vec<(Key, usize)> {
    let Ok(files) = fs::read_dir(folder.join("outside")) else { return Vec::new() };
    let files = files.map(|file| file.expect("the folder can be read"));
    let happened = files.filter_map(|file| {
        let key = file.file_name().to_str()?.parse().ok()?;
        Some((key, fs::read_to_string(file.path()).ok()?.lines().count()))
    });
    happened.collect()
}

mod key_text {
    use graph::Key;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(key: &Key, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(key)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

//! Recordings of effects, one line of JSON for each effect and its reply, and a handler that plays them back.
//!
//! ```text
//! {"v":1,"asked":"5b0c…","effect":{"call_model":{…}},"reply":{"result":{"Ok":"…"},"usage":{…},"took_us":812}}
//! ```
//!
//! A line is found by the digest of what was asked; when the same was asked more than once, replies come in the order they
//! were recorded. Keys are not in effects, and so not in recordings. The effect is kept whole, for one reason: a request that was
//! never recorded is an error that shows the nearest one and what differs.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use graph::{Digest, Effect, Failure, FailureKind, Job, Reply};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use effects::clip;
use effects::{EffectHandler, LookUp, Progress, Repeatability};

const VERSION: u32 = 1;
const DIFFERENCES_MAX: usize = 5;

#[derive(Serialize, Deserialize)]
struct Line {
    v: u32,
    asked: Digest,
    effect: Effect,
    reply: Reply,
}

/// Why a recording could not be written or read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum CassetteError {
    #[error("the recording {path} cannot be {doing}: {error}")]
    File { path: String, doing: &'static str, error: std::io::Error },
    #[error("line {line} of the recording {path} cannot be read: {why}")]
    Line { path: String, line: usize, why: String },
}

/// Performs effects through another handler and records the replies.
pub struct Recording<W> {
    inner: W,
    file: Mutex<File>,
}

impl<W: EffectHandler> Recording<W> {
    /// Begins a new recording; an older one at the same place is replaced.
    pub fn new(inner: W, path: &Path) -> Result<Self, CassetteError> {
        let mut options = File::options();
        options.create(true).write(true).truncate(true);
        // A recording holds everything that was asked and answered.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(|error| CassetteError::File { path: path.display().to_string(), doing: "begun", error })?;
        Ok(Recording { inner, file: Mutex::new(file) })
    }

    fn write(&self, line: &Line) -> std::io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        // One write for one line: should the process die, no more than the last is torn.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&text)
    }
}

#[async_trait]
impl<W: EffectHandler> EffectHandler for Recording<W> {
    fn repeatability(&self, job: &Job) -> Repeatability {
        self.inner.repeatability(job)
    }

    fn objection(&self, job: &Job) -> Option<graph::Objection> {
        self.inner.objection(job)
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        let started = tokio::time::Instant::now();
        let mut reply = self.inner.perform(job, progress).await;
        if reply.took_us == 0 {
            reply.took_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX).max(1);
        }
        let line = Line { v: VERSION, asked: Digest::of(&job.effect), effect: (*job.effect).clone(), reply };
        if let Err(error) = self.write(&line) {
            tracing::error!("an effect could not be recorded, so the recording will not play back whole: {error}");
        }
        line.reply
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        self.inner.look_up(job).await
    }
}

/// Answers from a recording and calls nothing.
pub struct Replaying {
    lines: Vec<(Effect, usize)>,
    replies: Mutex<HashMap<Digest, VecDeque<Reply>>>,
    recorded: HashMap<Digest, usize>,
}

impl Replaying {
    /// Reads a recording from a file.
    pub fn open(path: &Path) -> Result<Self, CassetteError> {
        let shown = path.display().to_string();
        let file = File::open(path).map_err(|error| CassetteError::File { path: shown.clone(), doing: "opened", error })?;
        Replaying::read(BufReader::new(file), &shown)
    }

    /// Reads a recording from text; `path` is its name in error messages.
    pub fn read(text: impl BufRead, path: &str) -> Result<Self, CassetteError> {
        let mut lines: Vec<(Effect, usize)> = Vec::new();
        let mut replies: HashMap<Digest, VecDeque<Reply>> = HashMap::new();
        let mut recorded: HashMap<Digest, usize> = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            let wrong = |why: String| CassetteError::Line { path: path.to_owned(), line: index + 1, why };
            let line = line.map_err(|error| wrong(error.to_string()))?;
            if line.trim().is_empty() {
                continue;
            }
            let line: Line = serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?;
            if line.v != VERSION {
                return Err(wrong(format!("it is of version {}, and this build reads {VERSION}", line.v)));
            }
            // By what stands there and not by the digest beside it: a line may have been edited by hand.
            let asked = Digest::of(&line.effect);
            replies.entry(asked).or_default().push_back(line.reply);
            *recorded.entry(asked).or_default() += 1;
            lines.push((line.effect, index + 1));
        }
        Ok(Replaying { lines, replies: Mutex::new(replies), recorded })
    }

    /// Replies that were not requested; a test may require none.
    pub fn left(&self) -> usize {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).values().map(VecDeque::len).sum()
    }

    fn refusal(&self, effect: &Effect) -> Failure {
        let what = format!("{} {}", effect.kind(), effect.name());
        if let Some(times) = self.recorded.get(&Digest::of(effect)) {
            return Failure::new(FailureKind::Refused, format!("the recording has {times} replies to this {what}, and all have been given"));
        }
        let asked = body(effect);
        let near = self.lines.iter().map(|(other, line)| (likeness(effect, &asked, other), other, line));
        let nearest = near.max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.2.cmp(a.2)));
        let message = match nearest {
            Some((likeness, other, line)) if likeness > 0.0 => {
                let differ = differences(&body(other), &asked);
                format!(
                    "the recording has no reply to this {what}; the nearest is line {line}, {} {}, which differs: {}",
                    other.kind(),
                    other.name(),
                    differ.join("; ")
                )
            }
            _ => format!("the recording has no reply to this {what}, nor to anything like it"),
        };
        Failure::new(FailureKind::Refused, message)
    }
}

#[async_trait]
impl EffectHandler for Replaying {
    /// Nothing is performed, so everything is repeatable.
    fn repeatability(&self, _job: &Job) -> Repeatability {
        Repeatability::Repeatable
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = replies.get_mut(&Digest::of(&job.effect)).and_then(VecDeque::pop_front);
        drop(replies);
        let Some(reply) = reply else { return Reply::failed(self.refusal(&job.effect)) };
        if let (Effect::CallModel(_), Ok(Value::String(text))) = (&*job.effect, &reply.result) {
            text.split_inclusive(' ').for_each(|word| progress.send(word));
        }
        reply
    }
}

fn body(effect: &Effect) -> Value {
    serde_json::to_value(effect).unwrap_or(Value::Null)
}

/// Of the same kind, then of the same name, then with the most in common.
fn likeness(effect: &Effect, asked: &Value, other: &Effect) -> f64 {
    if effect.kind() != other.kind() {
        return 0.0;
    }
    let name = if effect.name() == other.name() { 2.0 } else { 0.0 };
    let (mut ours, mut theirs) = (BTreeMap::new(), BTreeMap::new());
    leaves(asked, String::new(), &mut ours);
    leaves(&body(other), String::new(), &mut theirs);
    let same: f64 = ours.iter().filter_map(|(at, value)| theirs.get(at).map(|other| alike(value, other))).sum();
    0.1 + name + same / ours.len().max(theirs.len()).max(1) as f64
}

/// Cheap and good enough to tell an edited prompt from another one: the common beginning and end.
fn alike(a: &str, b: &str) -> f64 {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let short = a.len().min(b.len());
    let front = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let back = a[front..].iter().rev().zip(b[front..].iter().rev()).take_while(|(x, y)| x == y).count().min(short - front);
    (front + back) as f64 / a.len().max(b.len()).max(1) as f64
}

fn leaves(value: &Value, at: String, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, item)| leaves(item, format!("{at}/{key}"), into)),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, item)| leaves(item, format!("{at}/{index}"), into)),
        Value::String(text) => drop(into.insert(at, text.clone())),
        Value::Null | Value::Bool(_) | Value::Number(_) => drop(into.insert(at, value.to_string())),
    }
}

fn differences(recorded: &Value, asked: &Value) -> Vec<String> {
    let (mut before, mut now) = (BTreeMap::new(), BTreeMap::new());
    leaves(recorded, String::new(), &mut before);
    leaves(asked, String::new(), &mut now);
    let mut differences = Vec::new();
    for at in before.keys().chain(now.keys().filter(|at| !before.contains_key(*at))) {
        let words = match (before.get(at), now.get(at)) {
            (Some(old), Some(new)) if old == new => continue,
            (Some(old), Some(new)) => {
                let (old, new) = around_first_difference(old, new);
                format!("{at} was {old:?} and is now {new:?}")
            }
            (Some(old), None) => format!("{at} is gone (was {:?})", clip(old, 80)),
            (None, new) => format!("{at} is new ({:?})", clip(new.map_or("", String::as_str), 80)),
        };
        differences.push(words);
    }
    let more = differences.len().saturating_sub(DIFFERENCES_MAX);
    differences.truncate(DIFFERENCES_MAX);
    if more > 0 {
        differences.push(format!("and {more} more"));
    }
    differences
}

/// Prompts are long and differ in a word; what is shown is around that word.
fn around_first_difference(old: &str, new: &str) -> (String, String) {
    let same = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    let window = |text: &str| {
        let begin = text.floor_char_boundary(same.saturating_sub(20).min(text.len()));
        let end = text.ceil_char_boundary((same + 60).min(text.len()));
        let (before, after) = (if begin > 0 { "…" } else { "" }, if end < text.len() { "…" } else { "" });
        format!("{before}{}{after}", &text[begin..end])
    };
    (window(old), window(new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::{Message, ModelCall};
    use scripted::ScriptedHandler;
    use serde_json::json;

    fn ask(purpose: &str, text: &str) -> Effect {
        let messages = vec![Message { role: "user".into(), content: text.into() }];
        Effect::CallModel(ModelCall { purpose: purpose.into(), messages, ..ModelCall::default() })
    }

    async fn all(handler: &impl EffectHandler, effects: &[Effect]) -> Vec<Reply> {
        let mut replies = Vec::new();
        for job in scripted::jobs(effects) {
            replies.push(handler.perform(&job, &Progress::nowhere()).await);
        }
        replies
    }

    #[tokio::test]
    async fn what_was_recorded_plays_back_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tape.jsonl");
        let script = "when tool flaky fail network \"reset\" retry times 1\nwhen tool flaky reply 7\nwhen model plan reply \"a plan\" tokens 3/4";
        let effects = [ask("plan", "go"), graph::tool("flaky", json!({"a": 1})), graph::tool("flaky", json!({"a": 1}))];
        let recording = Recording::new(ScriptedHandler::parse(script).unwrap(), &path).unwrap();
        let first = all(&recording, &effects).await;
        assert_eq!(first[2].result, Ok(json!(7)));
        let replaying = Replaying::open(&path).unwrap();
        assert_eq!(all(&replaying, &effects).await, first);
        assert_eq!(replaying.left(), 0);
        let again = all(&replaying, &effects[..1]).await;
        assert!(again[0].result.as_ref().unwrap_err().message.contains("all have been given"), "{again:?}");
    }

    #[tokio::test]
    async fn a_request_that_was_not_recorded_shows_the_nearest_and_what_differs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tape.jsonl");
        let recording = Recording::new(ScriptedHandler::parse("when model * reply \"x\"\nwhen tool * reply 1").unwrap(), &path).unwrap();
        let long = "word ".repeat(100);
        all(&recording, &[ask("plan", &format!("{long}Rust{long}")), ask("critic", "fine?"), graph::tool("search", json!({"q": "a"}))]).await;
        let replaying = Replaying::open(&path).unwrap();
        let failure = all(&replaying, &[ask("plan", &format!("{long}Go{long}"))]).await[0].result.clone().unwrap_err();
        assert!(failure.message.contains("line 1") && failure.message.contains("Rust") && failure.message.contains("Go"), "{failure}");
        assert!(failure.message.contains("/call_model/messages/0/content"), "{failure}");
        assert!(failure.message.len() < 600, "{failure}");
        let failure = all(&replaying, &[graph::agent("who", json!({}))]).await[0].result.clone().unwrap_err();
        assert!(failure.message.contains("nor to anything like it"), "{failure}");
    }

    #[test]
    fn a_torn_or_newer_line_is_named() {
        let error = Replaying::read(&b"\n{\"v\":1,"[..], "tape").err().unwrap().to_string();
        assert!(error.contains("line 2 of the recording tape"), "{error}");
    }
}

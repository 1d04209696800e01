//! The measured flows, which do nothing, and an effect handler that replies immediately or after a delay.

use std::time::Duration;

use async_trait::async_trait;
use effects::{EffectHandler, Progress, Repeatability};
use graph::{Ask, END, Effect, Go, Graph, GraphError, Job, Limits, Replies, Reply};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Width of a fan-out, duration of a nap, length of a message.
pub(crate) const FAN: u64 = 100;
pub(crate) const NAP: Duration = Duration::from_millis(50);
pub(crate) const MESSAGE_BYTES: usize = 200;

/// Events of a whole run of `steps` steps with `effects` effects each: every step is entered and left, every effect requested and replied,
/// and the run starts and ends.
pub(crate) const fn events(steps: u64, effects: u64) -> u64 {
    2 + steps * (2 + 2 * effects)
}

pub(crate) fn all() -> Result<Vec<Graph>, GraphError> {
    let limits = || Limits { steps_max: u64::MAX, ..Limits::default() };
    let steps = Graph::of::<Countdown>("steps")
        .node("a", (nothing, |s: &mut Countdown, _: &Replies<'_>| s.on("b")), &["b", END])
        .node("b", (nothing, |s: &mut Countdown, _: &Replies<'_>| s.on("a")), &["a", END])
        .limits(limits())
        .build()?;
    let effects = Graph::of::<Countdown>("effects").node("work", (|_: &Countdown| one("noop"), work), &["work", END]).limits(limits()).build()?;
    let naps = Graph::of::<Countdown>("naps").node("work", (|_: &Countdown| one("nap"), work), &["work", END]).limits(limits()).build()?;
    let fan = Graph::of::<Countdown>("fan").node("work", (ask_fan, work), &["work", END]).limits(limits()).build()?;
    let grow = Graph::of::<Grow>("grow")
        .node("read", (|_: &Grow| one("message"), fold_message), &["read", "agree", END])
        .node("agree", (|_: &Grow| Ask::one(graph::person("Enough?")), |_: &mut Grow, _: &Replies<'_>| Go::end()), &[END])
        .output(|s| Value::from(s.messages.len()))
        .limits(limits())
        .build()?;
    Ok(vec![steps, effects, naps, fan, grow])
}

#[derive(Serialize, Deserialize)]
struct Countdown {
    left: u64,
}

impl Countdown {
    fn on(&mut self, node: &'static str) -> Go {
        self.left -= 1;
        if self.left == 0 { Go::end() } else { Go::to(node) }
    }
}

/// A state that keeps every message it received.
#[derive(Serialize, Deserialize)]
struct Grow {
    left: u64,
    /// Whether it then waits for a person, and so stays unfinished.
    asks: bool,
    #[serde(default)]
    messages: Vec<String>,
}

fn nothing(_: &Countdown) -> Ask {
    Ask::nothing()
}

fn one(tool: &str) -> Ask {
    Ask::one(graph::tool(tool, Value::Null))
}

fn ask_fan(_: &Countdown) -> Ask {
    Ask { requests: (0..FAN).map(|at| graph::tool("noop", Value::from(at)).into()).collect() }
}

fn work(s: &mut Countdown, replies: &Replies<'_>) -> Go {
    match replies.iter().all(|reply| reply.result.is_ok()) {
        true => s.on("work"),
        false => Go::fail("an effect failed"),
    }
}

fn fold_message(s: &mut Grow, replies: &Replies<'_>) -> Go {
    let Ok(Value::String(text)) = replies.value(0) else { return Go::fail("no message came") };
    s.messages.push(text.clone());
    s.left -= 1;
    match (s.left, s.asks) {
        (0, true) => Go::to("agree"),
        (0, false) => Go::end(),
        (_, _) => Go::to("read"),
    }
}

pub(crate) fn left(left: u64) -> Value {
    json!({ "left": left })
}

pub(crate) struct BenchHandler;

#[async_trait]
impl EffectHandler for BenchHandler {
    fn repeatability(&self, _: &Job) -> Repeatability {
        Repeatability::Repeatable
    }

    async fn perform(&self, job: &Job, _: &Progress) -> Reply {
        let Effect::CallTool(call) = &*job.effect else { return Reply::ok(Value::Null) };
        match call.tool.as_str() {
            "nap" => {
                tokio::time::sleep(NAP).await;
                Reply::ok(Value::Null)
            }
            "message" => Reply::ok("m".repeat(MESSAGE_BYTES)),
            _ => Reply::ok(Value::Null),
        }
    }
}

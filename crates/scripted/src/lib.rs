//! An effect handler that follows a script, for tests and samples: one rule a line, the first that fits wins.
//!
//! ```text
//! when tool search query~rust   reply {"hits": 3}        after 20ms
//! when tool mail.send           reply "sent"             once           # twice would be two mails
//! when tool notes.append        reply {"n": 1}           checkable      # twice would be two notes, but one can look
//! when tool tickets.close       reply "closed"           once asks      # a person must agree first
//! when model plan               reply {"steps": ["a"]}   tokens 120/30 usd 0.002
//! when model *                  reply "text"
//! when tool flaky               fail network "reset" retry times 2
//! when tool flaky               reply "ok"
//! when tool moody               fail tool "busy" retry-after 30ms times 1 each
//! when tool slow                hang
//! when agent researcher         echo
//! when tool broken              panic "boom"
//! ```
//!
//! `when KIND NAME [path=JSON | path~text]... ACTION [after DUR] [times N [each]] [tokens IN/OUT] [usd X] [once | checkable] [asks [defined TEXT]]`
//!
//! - KIND is `tool`, `model` or `agent`; NAME may hold `*`. A path looks into a tool's arguments, an agent's input or a model
//!   call's own fields, with dots between names (`to.0.name`); for a model, `text` is all its messages together.
//! - ACTION is `reply JSON`, `echo`, `fail KIND "why" [retry | retry-after DUR]`, `hang`, `panic "why"` or `abort`, which ends the process.
//! - `times N` lets the rule answer N attempts in all, in the order they come. `times N each` lets it answer the first N
//!   attempts at every effect, which does not depend on any order.
//! - `defined "TEXT"` is what the tool is when a person is asked; a permission given for one text is not for another.
//! - A tool is as delicate as the most delicate rule that fits the call, used up or not: what a tool is does not change with
//!   how often it failed.
//!
//! External effects, which a crash does not undo, are kept apart in [`ExternalState`], which two worlds may share. An
//! attempt that is performed again after a crash matches the same rule as the first time.
//!
//! A change to the world (`once`, `checkable`) happens in the middle of its `after`, so that a cut can fall on either side.

#![warn(missing_docs)]

pub mod faults;
mod jobs;
pub mod mangled;
mod parse;
mod rule;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use graph::{Effect, Failure, FailureKind, HeldCall, Job, Key, Objection, Reply, ToolDefinition};
use serde_json::Value;

pub use jobs::jobs;
pub use parse::ScriptError;
use rule::{Action, Rule, Uses};

use effects::held_call::held_call;
use effects::{EffectHandler, LookUp, Progress, Repeatability};

/// A performer of effects that follows a script.
#[derive(Debug)]
pub struct ScriptedHandler {
    rules: Vec<Rule>,
    outside: Arc<ExternalState>,
}

impl ScriptedHandler {
    /// Reads a script.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        ScriptedHandler::with_outside(text, Arc::default())
    }

    /// A world after a crash: what an earlier one did outside is still done.
    pub fn with_outside(text: &str, outside: Arc<ExternalState>) -> Result<Self, ScriptError> {
        Ok(ScriptedHandler { rules: parse::script(text)?, outside })
    }

    /// What it did to the outside.
    pub fn outside(&self) -> &Arc<ExternalState> {
        &self.outside
    }

    /// The last [`CALLS_MAX`] that were performed against this outside, in the order they began.
    pub fn calls(&self) -> Vec<Call> {
        self.outside.calls()
    }

    fn refusal(&self, effect: &Effect) -> Failure {
        let asked = rule::shortened(&rule::arguments(effect).to_string());
        let mut message = format!("the script has no rule left for {} {} with {asked}", effect.kind(), effect.name());
        let nearest = rule::nearest(&self.rules, effect);
        if !nearest.is_empty() {
            message.push_str("; the nearest are ");
            message.push_str(&nearest.join(", "));
        }
        Failure::new(FailureKind::Refused, message)
    }
}

#[async_trait]
impl EffectHandler for ScriptedHandler {
    fn repeatability(&self, job: &Job) -> Repeatability {
        let mut repeatability = Repeatability::Repeatable;
        for rule in self.rules.iter().filter(|rule| rule.fits(&job.effect)) {
            repeatability = match (repeatability, rule.repeatability) {
                (Repeatability::Once, _) | (_, Repeatability::Once) => Repeatability::Once,
                (Repeatability::Checkable, _) | (_, Repeatability::Checkable) => Repeatability::Checkable,
                (Repeatability::Repeatable, Repeatability::Repeatable) => Repeatability::Repeatable,
            };
        }
        repeatability
    }

    fn objection(&self, job: &Job) -> Option<Objection> {
        let Effect::CallTool(call) = &*job.effect else { return None };
        let rule = self.rules.iter().find(|rule| rule.asks && rule.fits(&job.effect))?;
        let definition = ToolDefinition { tools: rule.defined.clone(), description: rule.defined.clone(), ..ToolDefinition::default() };
        let call = HeldCall { definition: Box::new(definition), ..held_call(job, call) };
        Some(Objection { why: "The script has a person agree to it first.".to_owned(), call: Some(call) })
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        let repeatability = self.repeatability(job);
        let Some(rule) = self.outside.begin(&self.rules, job) else {
            return Reply::failed(self.refusal(&job.effect));
        };
        let value = match &rule.action {
            Action::Reply(value) => Ok(value.clone()),
            Action::Echo => Ok(rule::echo(&job.effect)),
            Action::Fail(failure) => Err(failure.clone()),
            Action::Hang => std::future::pending().await,
            Action::Panic(why) => {
                pause(rule.after).await;
                panic!("{why}");
            }
            Action::Abort => {
                pause(rule.after).await;
                std::process::abort();
            }
        };
        let took_us = u64::try_from(rule.after.as_micros()).unwrap_or(u64::MAX);
        let reply = Reply { result: value, usage: rule.usage, took_us, about: None };
        match (repeatability, &reply.result) {
            (Repeatability::Checkable | Repeatability::Once, Ok(_)) => {
                let before = rule.after / 2;
                pause(before).await;
                self.outside.happen(job.key, &reply);
                pause(rule.after.saturating_sub(before)).await;
            }
            (Repeatability::Repeatable, _) | (_, Err(_)) => pause(rule.after).await,
        }
        if let (Effect::CallModel(_), Ok(Value::String(text))) = (&*job.effect, &reply.result) {
            text.split_inclusive(' ').for_each(|word| progress.send(word));
        }
        reply
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        match self.repeatability(job) {
            Repeatability::Checkable => self.outside.reply_to(job.key).map_or(LookUp::NotDone, LookUp::Done),
            Repeatability::Repeatable | Repeatability::Once => LookUp::Unknown,
        }
    }
}

/// Even a sleep of nothing waits for the timer's next tick, and a bench would measure that.
async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// One attempt that was begun.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The kind of effect, as [`Effect::kind`] names it.
    pub kind: &'static str,
    /// The tool, the agent, or the purpose of a model call.
    pub name: String,
    /// The key of the effect.
    pub key: Key,
    /// From 1.
    pub attempt: u32,
    /// A tool's arguments, an agent's input, or the whole of a model call.
    pub arguments: Value,
}

/// What is left of scripted worlds when they are gone: what they were asked, and what they changed.
#[derive(Debug, Default)]
pub struct ExternalState(Mutex<Memory>);

/// A server may use a script for days; older calls are dropped.
pub const CALLS_MAX: usize = 4_096;

#[derive(Debug, Default)]
struct Memory {
    begun: VecDeque<(Arc<Effect>, Key, u32)>,
    /// Which attempt took a use of which counted rule.
    given: HashMap<(Key, u32), Arc<str>>,
    used: HashMap<Arc<str>, u32>,
    changes: BTreeMap<Key, Change>,
}

#[derive(Debug)]
struct Change {
    times: u32,
    reply: Reply,
}

impl ExternalState {
    /// The last attempts, the oldest first; at most [`CALLS_MAX`].
    pub fn calls(&self) -> Vec<Call> {
        let memory = self.memory();
        let call = |(effect, key, attempt): &(Arc<Effect>, Key, u32)| Call {
            kind: effect.kind(),
            name: effect.name().to_owned(),
            key: *key,
            attempt: *attempt,
            arguments: rule::arguments(effect),
        };
        memory.begun.iter().map(call).collect()
    }

    /// How often each `once` or `checkable` effect really took place.
    pub fn changes(&self) -> BTreeMap<Key, u32> {
        self.memory().changes.iter().map(|(key, change)| (*key, change.times)).collect()
    }

    /// Notes the attempt, and finds the rule that answers it.
    fn begin<'r>(&self, rules: &'r [Rule], job: &Job) -> Option<&'r Rule> {
        let mut memory = self.memory();
        if memory.begun.len() == CALLS_MAX {
            memory.begun.pop_front();
        }
        memory.begun.push_back((job.effect.clone(), job.key, job.attempt));
        rules.iter().filter(|rule| rule.fits(&job.effect)).find(|rule| match rule.uses {
            Uses::Always => true,
            Uses::FirstAttempts(count) => job.attempt <= count,
            Uses::Times(count) => memory.take(rule, count, (job.key, job.attempt)),
        })
    }

    fn happen(&self, key: Key, reply: &Reply) {
        let mut memory = self.memory();
        memory.changes.entry(key).or_insert_with(|| Change { times: 0, reply: reply.clone() }).times += 1;
    }

    fn reply_to(&self, key: Key) -> Option<Reply> {
        self.memory().changes.get(&key).map(|change| change.reply.clone())
    }

    /// A scripted panic never happens while this is held, and a foreign one leaves nothing half-written.
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn take(&mut self, rule: &Rule, count: u32, attempt: (Key, u32)) -> bool {
        if self.given.get(&attempt).is_some_and(|given| *given == rule.id) {
            return true;
        }
        let used = self.used.entry(rule.id.clone()).or_default();
        if *used >= count {
            return false;
        }
        *used += 1;
        self.given.insert(attempt, rule.id.clone());
        true
    }
}

//! One step: enter a node, release its effects as their needs are met, fold the replies, go on.

use std::sync::Arc;

use serde_json::Value;

use super::breakpoint::Gate;
use super::consent;
use super::ledger::Ledger;
use super::task::{Attempt, verdict};
use super::{Consent, Fault, Job, Next, Objection, Outcome, Position, Progress, Release, Run, Task, Verdict, Waiting};
use crate::ask::awaited;
use crate::fill::fill;
use crate::node::Target;
use crate::{Addresses, Effect, Event, Failure, FailureKind, Graph, Key, Question, Replies, Reply, Start, TaskId};

/// What a run has read so far, as far as it matters to a job.
pub(super) struct Taint<'a> {
    pub(super) is_tainted: bool,
    pub(super) has_private_text: bool,
    pub(super) addresses: &'a Arc<Addresses>,
}

/// The current step while replies are missing.
pub(super) struct ActiveStep {
    pub(super) node: usize,
    pub(super) tasks: Vec<Task>,
    /// Tasks without an answer.
    open: usize,
    /// Tasks among these whose needs have no answer yet.
    blocked: usize,
    /// Tasks among these that are due or in flight.
    working: usize,
    /// Tasks that became due since jobs were last handed out.
    due: Vec<usize>,
    /// Where the journal and the events stood when the step was entered.
    pub(super) entered_at: u64,
    pub(super) entered_seq: u64,
    /// How it was entered, and whether it only asks to go on.
    pub(super) entered_gate: Gate,
    is_breakpoint: bool,
}

impl Run {
    /// Folds complete steps and continues until effects are requested or the run ends.
    pub fn settle(&mut self) {
        loop {
            match &self.position {
                Position::At(node) => self.enter(*node),
                Position::Active(active) if active.open == 0 => self.leave(),
                Position::Active(_) | Position::Ended(_) => return,
            }
        }
    }

    pub(super) fn end(&mut self, outcome: Outcome) {
        let outcome = Arc::new(outcome);
        self.event_log.push(Event::Ended { outcome: outcome.clone() });
        self.position = Position::Ended(outcome);
    }

    fn enter(&mut self, node: usize) {
        self.record_state(node);
        let entered_gate = std::mem::take(&mut self.gate);
        let inner = &self.graph.0;
        if self.step >= inner.limits.steps_max {
            return self.end(Outcome::Failed { fault: Fault::Steps { step: self.step, steps_max: inner.limits.steps_max } });
        }
        let entered_seq = self.event_log.seq;
        self.ledger.enter(node, &inner.phases, |phase| inner.behaviour.phase_limit_ms(&self.state, phase));
        self.event_log.push(Event::Entered { step: self.step, node: inner.nodes[node].name.clone() });
        let breakpoint = self.breakpoint(node, &entered_gate);
        let is_breakpoint = breakpoint.is_some();
        let ask = breakpoint.unwrap_or_else(|| inner.behaviour.ask(node, &self.state));
        if let Err(why) = ask.check(&inner.limits) {
            let fault = Fault::Ask { node: inner.nodes[node].name.to_string(), why: why.to_string() };
            return self.end(Outcome::Failed { fault });
        }
        let count = ask.requests.len();
        let mut active = ActiveStep {
            node,
            tasks: ask.requests.into_iter().map(|request| Task::new(request, &self.graph)).collect(),
            open: count,
            blocked: count,
            working: 0,
            due: Vec::new(),
            entered_at: self.entries,
            entered_seq,
            entered_gate,
            is_breakpoint,
        };
        active.release(&mut Release {
            graph: &self.graph,
            start: &self.start,
            step: self.step,
            ledger: &mut self.ledger,
            event_log: &mut self.event_log,
        });
        self.position = Position::Active(active);
    }

    fn leave(&mut self) {
        let Position::Active(active) = &self.position else { return };
        if active.is_breakpoint {
            return self.leave_breakpoint();
        }
        let inner = &self.graph.0;
        let node = active.node;
        let took_us = active.tasks.iter().map(|task| task.at_us).max().unwrap_or(0);
        self.ledger.leave(node, &inner.phases, took_us);
        self.is_tainted = self.is_tainted || active.tasks.iter().any(Task::has_foreign_text);
        self.has_private_text = self.has_private_text || active.tasks.iter().any(Task::has_private_text);
        if active.tasks.iter().any(|task| task.addresses().next().is_some()) {
            Arc::make_mut(&mut self.addresses).find(active.tasks.iter().flat_map(Task::addresses));
        }
        let go = inner.behaviour.fold(node, &mut self.state, &Replies { tasks: &active.tasks });
        for (name, value) in go.notes {
            self.event_log.push(Event::Noted { step: self.step, name, value });
        }
        for (role, content) in go.messages {
            self.event_log.push(Event::Said { role, content });
        }
        let place = &inner.nodes[node];
        let to = match go.target {
            Target::End => Some(inner.nodes.len()),
            Target::Node(name) => match place.edges.iter().find(|&&to| **self.graph.node_name(to) == *name) {
                Some(&to) => Some(to),
                None => {
                    let fault = Fault::Edge { node: place.name.to_string(), to: name.into_owned() };
                    return self.end(Outcome::Failed { fault });
                }
            },
            Target::Fail(why) => return self.end(Outcome::Failed { fault: Fault::Flow { why } }),
        };
        match to {
            Some(to) if to < inner.nodes.len() => {
                self.event_log.push(Event::Left { step: self.step, node: place.name.clone(), to: inner.nodes[to].name.clone() });
                self.step += 1;
                self.position = Position::At(to);
            }
            _ if place.edges.contains(&inner.nodes.len()) => {
                self.event_log.push(Event::Left { step: self.step, node: place.name.clone(), to: inner.end.clone() });
                let output = inner.behaviour.output(&self.state);
                self.end(Outcome::Done { output });
            }
            _ => {
                let fault = Fault::Edge { node: place.name.to_string(), to: inner.end.to_string() };
                self.end(Outcome::Failed { fault });
            }
        }
    }
}

impl ActiveStep {
    /// No answer of this step stands in the journal yet.
    pub(super) fn is_fresh(&self, entries: u64) -> bool {
        self.entered_at == entries
    }

    pub(super) fn next(&mut self, graph: &Graph, start: &Start, step: u64, ledger: &Ledger, taint: &Taint<'_>) -> Next {
        let mut jobs = Vec::with_capacity(self.due.len());
        for index in std::mem::take(&mut self.due) {
            let mut filled = self.tasks[index].request.holes.clone();
            let mut filled_by: Vec<String> = filled.iter().map(|hole| self.tasks[hole.from].request.effect.name().to_owned()).collect();
            for (at, by) in &self.tasks[index].request.filled {
                filled.push(crate::Placeholder::whole(at.as_str(), index, ""));
                filled_by.push(by.clone());
            }
            let (has_private_text, addresses) = self.filled_taint(index, taint);
            let task = &mut self.tasks[index];
            // What was answered from the journal before it was handed out stays in the list of due ones; it is no longer due.
            let Progress::Due(attempt) = &task.progress else { continue };
            let attempt = attempt.clone();
            let place = TaskId { step, index: index as u32 };
            jobs.push(Job {
                thread: start.thread.clone(),
                run: start.run.clone(),
                context: start.context.clone(),
                task: place,
                attempt: attempt.number,
                key: Key::of(&start.thread, &start.run, place),
                node: graph.node_name(self.node).clone(),
                label: task.request.label.clone(),
                effect: attempt.effect.clone(),
                filled,
                filled_by,
                is_tainted: taint.is_tainted,
                has_private_text,
                addresses,
                is_allowed: task.is_allowed,
                after_ms: attempt.after_ms,
                deadline_ms: attempt.deadline_ms,
                depth: start.depth,
                budget: start.budget.for_child(&ledger.account(task.at_us), task.request.estimate),
            });
            task.progress = Progress::Flying(attempt);
        }
        if !jobs.is_empty() {
            return Next::Perform(jobs);
        }
        if self.working > 0 { Next::Await } else { Next::Wait(self.waiting(step)) }
    }

    /// Whether private text may be in a task's arguments, and the addresses known to it: the run's, and those of the replies in this step that its
    /// arguments were filled from, directly or through others.
    fn filled_taint(&self, index: usize, taint: &Taint<'_>) -> (bool, Arc<Addresses>) {
        let (mut has_private_text, mut addresses) = (taint.has_private_text, taint.addresses.clone());
        let (mut seen, mut next) = (vec![false; self.tasks.len()], vec![index]);
        while let Some(of) = next.pop() {
            for hole in &self.tasks[of].request.holes {
                if std::mem::replace(&mut seen[hole.from], true) {
                    continue;
                }
                let from = &self.tasks[hole.from];
                has_private_text |= from.has_private_text();
                if from.addresses().next().is_some() {
                    Arc::make_mut(&mut addresses).find(from.addresses());
                }
                next.push(hole.from);
            }
        }
        (has_private_text, addresses)
    }

    /// Takes an answer that fits, and releases what it makes possible.
    pub(super) fn answer(&mut self, index: usize, attempt: u32, reply: Arc<Reply>, mut release: Release<'_>) {
        let node = self.node;
        let place = TaskId { step: release.step, index: index as u32 };
        let task = &mut self.tasks[index];
        let replied = |again_ms| Event::Replied { task: place, attempt, reply: reply.clone(), again_ms };
        match std::mem::replace(&mut task.progress, Progress::Blocked) {
            Progress::Due(open) | Progress::Flying(open) => {
                self.working -= 1;
                let again_ms = release.book(task, index, attempt, &reply);
                release.event_log.push(replied(again_ms));
                match again_ms {
                    None => self.settled(index, reply),
                    Some(ms) => {
                        task.at_us = task.at_us.saturating_add(ms.saturating_mul(1_000));
                        match release.attempt(task, index, node, attempt + 1, ms, open.effect) {
                            Ok(()) => self.made_due(index),
                            // The original failure is more useful than the limit that prevents its retry.
                            Err(_) => self.settled(index, reply),
                        }
                    }
                }
            }
            Progress::Person(_) => {
                release.event_log.push(replied(None));
                self.settled(index, reply);
            }
            Progress::Doubted(open) => {
                release.event_log.push(replied(None));
                match verdict(&reply) {
                    Ok(Verdict::Done { value }) => {
                        release.ledger.promised = release.ledger.promised.minus(task.estimate());
                        self.settled(index, Arc::new(Reply::ok(value)));
                    }
                    Ok(Verdict::Again) => {
                        task.is_allowed = true;
                        self.once_more(index, open, &mut release);
                    }
                    Ok(Verdict::Failed) | Err(_) => {
                        release.ledger.promised = release.ledger.promised.minus(task.estimate());
                        let failure = Failure::new(FailureKind::InDoubt, "it was begun before a crash, and a person left it at that");
                        self.settled(index, Arc::new(Reply::failed(failure)));
                    }
                }
            }
            Progress::Held(open, objection) => {
                release.event_log.push(replied(None));
                match Consent::of(&reply, objection.call.as_ref()) {
                    Ok(Consent::Once | Consent::Conversation | Consent::Tool | Consent::Server) => {
                        task.is_allowed = true;
                        // The question to the person does not count as an attempt.
                        task.request.attempts_max = task.request.attempts_max.saturating_add(1);
                        self.once_more(index, open, &mut release);
                    }
                    Ok(Consent::No) | Err(_) => {
                        release.ledger.promised = release.ledger.promised.minus(task.estimate());
                        let failure = Failure::new(FailureKind::Refused, "a person was asked to agree, and said no");
                        self.settled(index, Arc::new(Reply::failed(failure)));
                    }
                }
            }
            other @ (Progress::Blocked | Progress::Answered(_)) => task.progress = other,
        }
        self.release(&mut release);
    }

    pub(super) fn doubt(&mut self, index: usize, number: u32) -> bool {
        self.ask_person(index, number, Progress::Doubted)
    }

    pub(super) fn hold(&mut self, index: usize, number: u32, objection: &Objection) -> bool {
        self.ask_person(index, number, |attempt| Progress::Held(attempt, objection.clone()))
    }

    fn ask_person(&mut self, index: usize, number: u32, as_what: impl FnOnce(Attempt) -> Progress) -> bool {
        let task = &mut self.tasks[index];
        let (Progress::Due(attempt) | Progress::Flying(attempt)) = &task.progress else { return false };
        if attempt.number != number {
            return false;
        }
        task.progress = as_what(attempt.clone());
        self.working -= 1;
        true
    }

    /// Makes due again what a person wants to be retried.
    fn once_more(&mut self, index: usize, open: Attempt, release: &mut Release<'_>) {
        let task = &mut self.tasks[index];
        let again = Attempt { after_ms: 0, number: open.number + 1, ..open };
        release.event_log.push(Event::Asked {
            task: TaskId { step: release.step, index: index as u32 },
            attempt: again.number,
            label: task.request.label.clone(),
            effect: again.effect.clone(),
            after_ms: 0,
        });
        task.progress = Progress::Due(again);
        self.made_due(index);
    }

    fn made_due(&mut self, index: usize) {
        self.working += 1;
        self.due.push(index);
    }

    fn settled(&mut self, index: usize, reply: Arc<Reply>) {
        self.tasks[index].progress = Progress::Answered(reply);
        self.open -= 1;
    }

    /// Releases every blocked task whose needs are met, in order, until none is left: a task that is skipped may free others.
    fn release(&mut self, release: &mut Release<'_>) {
        let mut again = self.blocked > 0;
        while again {
            again = false;
            for index in 0..self.tasks.len() {
                if !matches!(self.tasks[index].progress, Progress::Blocked) || !self.needs_met(index) {
                    continue;
                }
                self.blocked -= 1;
                if let Err(failure) = self.begin(index, release) {
                    let task = TaskId { step: release.step, index: index as u32 };
                    release.event_log.push(Event::Skipped { task, failure: failure.clone() });
                    self.settled(index, Arc::new(Reply::failed(failure)));
                    again = self.blocked > 0;
                }
            }
        }
    }

    fn needs_met(&self, index: usize) -> bool {
        awaited(&self.tasks[index].request.needs, &self.tasks[index].request.holes).all(|of| self.tasks[of].answer().is_some())
    }

    fn begin(&mut self, index: usize, release: &mut Release<'_>) -> Result<(), Failure> {
        let request = &self.tasks[index].request;
        let value_of = |of: usize| self.tasks[of].answer().and_then(|reply| reply.result.as_ref().ok());
        let hard = request.needs.iter().filter(|need| !need.even_if_failed).map(|need| need.of);
        for of in hard.chain(request.holes.iter().map(|hole| hole.from)) {
            if value_of(of).is_none() {
                let name = self.tasks[of].request.effect.name();
                return Err(Failure::new(FailureKind::Need, format!("effect {of} ({name}) failed, and this one needs it")));
            }
        }
        let at_us = awaited(&request.needs, &request.holes).map(|of| self.tasks[of].at_us).max().unwrap_or(0);
        let effect = if request.holes.is_empty() { request.effect.clone() } else { Arc::new(fill(&request.effect, &request.holes, value_of)?) };
        let task = &mut self.tasks[index];
        task.at_us = at_us;
        if effect.is_for_a_person() {
            let place = TaskId { step: release.step, index: index as u32 };
            release.event_log.push(Event::Asked { task: place, attempt: 1, label: task.request.label.clone(), effect: effect.clone(), after_ms: 0 });
            task.progress = Progress::Person(effect);
            return Ok(());
        }
        release.attempt(task, index, self.node, 1, 0, effect)?;
        self.made_due(index);
        Ok(())
    }

    pub(super) fn waiting(&self, step: u64) -> Vec<Waiting> {
        let open = self.tasks.iter().enumerate().filter_map(|(index, task)| {
            let waiting = |attempt, question| Waiting { task: TaskId { step, index: index as u32 }, attempt, question, call: None, why: None };
            match &task.progress {
                Progress::Person(effect) => match &**effect {
                    Effect::AskPerson(question) => Some(waiting(1, question.clone())),
                    Effect::CallModel(_) | Effect::CallTool(_) | Effect::CallAgent(_) => None,
                },
                Progress::Doubted(attempt) => Some(waiting(attempt.number, doubtful(&attempt.effect))),
                Progress::Held(attempt, objection) => {
                    let question = consent::question(&attempt.effect, objection);
                    let call = objection.call.clone();
                    Some(Waiting { why: call.as_ref().map(|_| objection.why.clone()), call, ..waiting(attempt.number, question) })
                }
                Progress::Blocked | Progress::Due(_) | Progress::Flying(_) | Progress::Answered(_) => None,
            }
        });
        open.collect()
    }
}

fn doubtful(effect: &Effect) -> Question {
    let body = serde_json::to_value(effect).unwrap_or(Value::Null);
    Question {
        prompt: format!(
            "Baton stopped while it was performing {} {}, and it cannot find out whether that happened. \
             Please check, then answer done (it happened), again (do it now) or failed (go on without it). What was asked: {body}",
            effect.kind(),
            effect.name(),
        ),
        schema: Some(serde_json::json!({
            "type": "object",
            "required": ["verdict"],
            "properties": { "verdict": { "enum": ["done", "again", "failed"] }, "value": {} },
        })),
    }
}

use std::sync::Arc;

use serde::Deserialize as _;

use super::ledger::{EventLog, Ledger};
use super::{Consent, Objection, Verdict};
use crate::{
    Backoff, Digest, Effect, Event, Failure, FailureKind, FeedError, Graph, Key, Name, Need, Placeholder, Reply, Request, Retry, Start, TaskId, Usage,
};

/// One effect of the current step.
pub(crate) struct Task {
    pub(super) request: TaskRequest,
    pub(super) progress: Progress,
    /// When it ended, or will begin its next attempt, counted from the start of the step.
    pub(super) at_us: u64,
    /// A person has agreed to it.
    pub(super) is_allowed: bool,
}

/// A request as its task keeps it: what is handed out with every event and job is shared.
pub(super) struct TaskRequest {
    pub(super) label: Name,
    pub(super) effect: Arc<Effect>,
    pub(super) needs: Vec<Need>,
    pub(super) holes: Vec<Placeholder>,
    pub(super) filled: Vec<(String, String)>,
    pub(super) attempts_max: u32,
    pub(super) deadline_ms: u64,
    pub(super) backoff: Backoff,
    pub(super) estimate: Usage,
    pub(super) is_last: bool,
}

pub(super) enum Progress {
    /// Something it needs has no answer yet.
    Blocked,
    /// To be handed out.
    Due(Attempt),
    /// Handed out.
    Flying(Attempt),
    /// A question to a person.
    Person(Arc<Effect>),
    /// A person decides, because it is unknown whether it happened.
    Doubted(Attempt),
    /// A person must agree first.
    Held(Attempt, Objection),
    Answered(Arc<Reply>),
}

#[derive(Clone)]
pub(super) struct Attempt {
    pub(super) number: u32,
    pub(super) effect: Arc<Effect>,
    pub(super) after_ms: u64,
    pub(super) deadline_ms: u64,
}

/// The parts of a run that are needed to release a task.
pub(super) struct Release<'a> {
    pub(super) graph: &'a Graph,
    pub(super) start: &'a Start,
    pub(super) step: u64,
    pub(super) ledger: &'a mut Ledger,
    pub(super) event_log: &'a mut EventLog,
}

impl Task {
    pub(super) fn new(request: Request, graph: &Graph) -> Self {
        let Request { label, effect, needs, holes, filled, attempts_max, deadline_ms, backoff, estimate, is_last } = request;
        let label = if label.is_empty() { graph.0.blank.clone() } else { label.into() };
        let request = TaskRequest { label, effect: Arc::new(effect), needs, holes, filled, attempts_max, deadline_ms, backoff, estimate, is_last };
        Task { request, progress: Progress::Blocked, at_us: 0, is_allowed: false }
    }

    pub(crate) fn answer(&self) -> Option<&Reply> {
        match &self.progress {
            Progress::Answered(reply) => Some(reply),
            Progress::Blocked | Progress::Due(_) | Progress::Flying(_) | Progress::Person(_) | Progress::Doubted(_) | Progress::Held(..) => None,
        }
    }

    /// Whether its answer holds text that is neither the user's nor Baton's own.
    pub(super) fn has_foreign_text(&self) -> bool {
        self.answer().is_some_and(|reply| match *self.request.effect {
            Effect::CallTool(_) => reply.has_foreign_text(),
            Effect::CallAgent(_) => reply.result.is_ok(),
            Effect::CallModel(_) | Effect::AskPerson(_) => false,
        })
    }

    /// Whether its answer holds text that is not public. What a model makes of such text is private through its prompt, not through its answer.
    pub(super) fn has_private_text(&self) -> bool {
        self.answer().filter(|reply| reply.result.is_ok()).is_some_and(|reply| match *self.request.effect {
            Effect::CallTool(_) => reply.has_private_text(),
            Effect::CallAgent(_) => true,
            Effect::CallModel(_) | Effect::AskPerson(_) => false,
        })
    }

    /// The addresses of its results, if they are public.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &str> {
        let reply = self.answer().filter(|_| matches!(*self.request.effect, Effect::CallTool(_)));
        reply.into_iter().flat_map(Reply::addresses)
    }

    pub(super) fn effect(&self) -> Option<&Arc<Effect>> {
        match &self.progress {
            Progress::Due(attempt) | Progress::Flying(attempt) | Progress::Doubted(attempt) | Progress::Held(attempt, _) => Some(&attempt.effect),
            Progress::Person(effect) => Some(effect),
            Progress::Blocked | Progress::Answered(_) => None,
        }
    }

    /// Whether a reply to this attempt can be taken: what was asked if so, `None` if it was taken before.
    pub(super) fn take_attempt(&self, task: TaskId, attempt: u32, reply: &Reply) -> Result<Option<Digest>, FeedError> {
        let (number, effect) = match &self.progress {
            Progress::Blocked => return Err(FeedError::NeverTried { task, attempt, at: 0 }),
            Progress::Answered(_) => return Ok(None),
            Progress::Due(open) | Progress::Flying(open) => (open.number, &open.effect),
            Progress::Person(effect) => (1, effect),
            Progress::Doubted(open) => {
                if attempt == open.number {
                    verdict(reply).map_err(|why| FeedError::NoVerdict { task, why })?;
                }
                (open.number, &open.effect)
            }
            Progress::Held(open, objection) => {
                if attempt == open.number {
                    Consent::of(reply, objection.call.as_ref()).map_err(|why| FeedError::NoConsent { task, why })?;
                }
                (open.number, &open.effect)
            }
        };
        if attempt > number {
            return Err(FeedError::NeverTried { task, attempt, at: number });
        }
        Ok((attempt == number).then(|| Digest::of(effect)))
    }

    pub(super) fn estimate(&self) -> Usage {
        // The call itself always counts for one.
        Usage { calls: self.request.estimate.calls.max(1), ..self.request.estimate }
    }
}

impl Release<'_> {
    /// Makes an attempt due if depth, budget and phases allow it.
    pub(super) fn attempt(
        &mut self,
        task: &mut Task,
        index: usize,
        node: usize,
        number: u32,
        after_ms: u64,
        effect: Arc<Effect>,
    ) -> Result<(), Failure> {
        let limits = self.graph.limits();
        if matches!(*effect, Effect::CallAgent(_)) && self.start.depth >= limits.depth_max {
            return Err(Failure::new(
                FailureKind::Limit,
                format!("this run is already {} runs deep, and depth_max = {}", self.start.depth, limits.depth_max),
            ));
        }
        let estimate = task.estimate();
        let budget_us = self
            .start
            .budget
            .allow(&self.ledger.account(task.at_us), estimate, task.request.is_last)
            .map_err(|why| Failure::new(FailureKind::Budget, why))?;
        let phase_us = self.ledger.phase_left(node, &self.graph.0.phases, task.at_us).map_err(|why| Failure::new(FailureKind::Limit, why))?;
        // Rounded up: a deadline of 0 would fail what still has a little time.
        let deadline_ms = task.request.deadline_ms.min(budget_us.min(phase_us).div_ceil(1_000));
        self.ledger.promised = self.ledger.promised.plus(estimate);
        self.event_log.push(Event::Asked {
            task: TaskId { step: self.step, index: index as u32 },
            attempt: number,
            label: task.request.label.clone(),
            effect: effect.clone(),
            after_ms,
        });
        task.progress = Progress::Due(Attempt { number, effect, after_ms, deadline_ms });
        Ok(())
    }

    /// Adds the cost of an attempt, and returns the delay before the next one if it is to be retried.
    pub(super) fn book(&mut self, task: &mut Task, index: usize, number: u32, reply: &Reply) -> Option<u64> {
        let estimate = task.estimate();
        self.ledger.promised = self.ledger.promised.minus(estimate);
        self.ledger.spent = self.ledger.spent.plus(reply.usage).plus(Usage { calls: 1, ..Usage::default() });
        task.at_us = task.at_us.saturating_add(reply.took_us);
        let Err(failure) = &reply.result else { return None };
        if number >= task.request.attempts_max {
            return None;
        }
        match failure.retry {
            Retry::No => None,
            Retry::Yes => Some(task.request.backoff.after_ms(number, self.jitter(index, number))),
            Retry::AfterMs(ms) => (ms <= self.graph.limits().retry_after_ms_max).then_some(ms),
        }
    }

    fn jitter(&self, index: usize, number: u32) -> u64 {
        let key = Key::of(&self.start.thread, &self.start.run, TaskId { step: self.step, index: index as u32 });
        key.low().wrapping_mul(2 * u64::from(number) + 1) >> 17
    }
}

pub(super) fn verdict(reply: &Reply) -> Result<Verdict, String> {
    match &reply.result {
        Ok(value) => Verdict::deserialize(value).map_err(|e| e.to_string()),
        Err(failure) => Err(failure.to_string()),
    }
}

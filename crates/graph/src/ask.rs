use std::collections::VecDeque;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{Effect, Limits, Usage};

/// The effects that a node requests, as a DAG. Each is performed as soon as the effects it depends on have replied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ask {
    /// The effects, in order; others refer to them by index.
    pub requests: Vec<Request>,
}

impl Ask {
    /// No effects: the node only computes.
    pub fn nothing() -> Self {
        Ask::default()
    }

    /// One effect.
    pub fn one(request: impl Into<Request>) -> Self {
        Ask { requests: vec![request.into()] }
    }

    /// Adds an effect and returns its index, by which others can depend on it.
    pub fn add(&mut self, request: impl Into<Request>) -> usize {
        self.requests.push(request.into());
        self.requests.len() - 1
    }

    /// A plan that came from a model should be checked before it goes into the state: here a mistake is a value, later it
    /// ends the run.
    pub fn check(&self, limits: &Limits) -> Result<(), AskError> {
        let count = self.requests.len();
        if count > limits.effects_per_ask_max {
            return Err(AskError::TooMany { count, effects_per_ask_max: limits.effects_per_ask_max });
        }
        let mut missing = vec![0_usize; count];
        let mut needed_by: Vec<Vec<usize>> = vec![Vec::new(); count];
        let mut has_needs = false;
        for (index, request) in self.requests.iter().enumerate() {
            if request.attempts_max == 0 || request.attempts_max > limits.attempts_max {
                return Err(AskError::Attempts { index, asked: request.attempts_max, attempts_max: limits.attempts_max });
            }
            for of in awaited(&request.needs, &request.holes) {
                has_needs = true;
                needed_by.get_mut(of).ok_or(AskError::Dangling { index, of, count })?.push(index);
                missing[index] += 1;
            }
        }
        if !has_needs {
            return Ok(());
        }
        let mut ready: VecDeque<usize> = (0..count).filter(|&i| missing[i] == 0).collect();
        while let Some(index) = ready.pop_front() {
            for &next in &needed_by[index] {
                missing[next] -= 1;
                if missing[next] == 0 {
                    ready.push_back(next);
                }
            }
        }
        match missing.iter().position(|&m| m > 0) {
            None => Ok(()),
            Some(index) => Err(AskError::Cycle { index }),
        }
    }
}

/// One effect with its retry and deadline settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// A short label for people.
    pub label: String,
    /// What is to be performed.
    pub effect: Effect,
    /// Effects of the same ask that must be over first.
    pub needs: Vec<Need>,
    /// Places in the effect that are filled from other replies.
    pub holes: Vec<Placeholder>,
    /// Places that the flow itself filled from replies of earlier steps: a JSON pointer into the effect's body, and the effect's name. They count as
    /// holes where it matters whose words an argument carries.
    pub filled: Vec<(String, String)>,
    /// How often it is tried at most.
    pub attempts_max: u32,
    /// The longest one attempt may take, in milliseconds.
    pub deadline_ms: u64,
    /// The pauses between attempts.
    pub backoff: Backoff,
    /// The most this may cost, reserved in the budget while it is performed.
    pub estimate: Usage,
    /// The answer itself: may spend what the budget holds in reserve.
    pub is_last: bool,
}

impl From<Effect> for Request {
    fn from(effect: Effect) -> Self {
        Request {
            label: String::new(),
            effect,
            needs: Vec::new(),
            holes: Vec::new(),
            filled: Vec::new(),
            attempts_max: 1,
            deadline_ms: 60_000,
            backoff: Backoff::default(),
            estimate: Usage::default(),
            is_last: false,
        }
    }
}

impl Request {
    /// Sets the name under which it is shown.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Performed only after `index` has succeeded.
    pub fn after(mut self, index: usize) -> Self {
        self.needs.push(Need { of: index, even_if_failed: false });
        self
    }

    /// Performed after `index` has replied, with a result or a failure.
    pub fn after_any_outcome(mut self, index: usize) -> Self {
        self.needs.push(Need { of: index, even_if_failed: true });
        self
    }

    /// Adds a place that is filled from another reply.
    pub fn hole(mut self, hole: Placeholder) -> Self {
        self.holes.push(hole);
        self
    }

    /// Records that the value at `at` came out of an earlier reply of the effect called `by`.
    pub fn filled_from(mut self, at: impl Into<String>, by: impl Into<String>) -> Self {
        self.filled.push((at.into(), by.into()));
        self
    }

    /// Sets how often it is tried at most.
    pub fn attempts(mut self, attempts_max: u32) -> Self {
        self.attempts_max = attempts_max;
        self
    }

    /// Sets the longest one attempt may take, in milliseconds.
    pub fn deadline_ms(mut self, deadline_ms: u64) -> Self {
        self.deadline_ms = deadline_ms;
        self
    }

    /// Sets the pauses between attempts.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets what it is expected to use, which budgets reserve.
    pub fn estimate(mut self, estimate: Usage) -> Self {
        self.estimate = estimate;
        self
    }

    /// Marks it as the last of the run, which may use what the budget keeps in reserve.
    pub fn last(mut self) -> Self {
        self.is_last = true;
        self
    }
}

/// Everything an effect waits for: what it needs, and what its holes are filled from.
pub(crate) fn awaited<'a>(needs: &'a [Need], holes: &'a [Placeholder]) -> impl Iterator<Item = usize> + 'a {
    needs.iter().map(|need| need.of).chain(holes.iter().map(|hole| hole.from))
}

/// An effect's wait for another one of the same ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The index of the other one.
    pub of: usize,
    /// Whether it is performed also when the other one failed.
    pub even_if_failed: bool,
}

/// A place in an effect's arguments that is filled from another effect's reply.
///
/// Holes stand beside the arguments and not inside them: text that a model or a tool wrote can look like anything, and still
/// never become a reference. They also say exactly which arguments carry foreign words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placeholder {
    /// Where to put it: a JSON pointer into the effect's body (`/arguments/query`, `/messages/0/content`, `/input`).
    pub at: String,
    /// Bytes of the string at `at` to replace; `None` replaces the whole value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Range<usize>>,
    /// The effect whose reply is used: an index into the same ask.
    pub from: usize,
    /// Which part of it: a JSON pointer; empty is the whole reply.
    pub part: String,
}

impl Placeholder {
    /// Fills the value at `at` with a part of reply `from`.
    pub fn whole(at: impl Into<String>, from: usize, part: impl Into<String>) -> Self {
        Placeholder { at: at.into(), within: None, from, part: part.into() }
    }

    /// Fills a range of bytes of the text at `at` with a part of reply `from`.
    pub fn within(at: impl Into<String>, bytes: Range<usize>, from: usize, part: impl Into<String>) -> Self {
        Placeholder { at: at.into(), within: Some(bytes), from, part: part.into() }
    }
}

/// Waiting times between attempts: `first_ms`, then times `factor` each time, never over `most_ms`. Half of each is jitter
/// drawn from the effect's key, so that many runs do not retry at the same moment and a replay gives the same times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Before the second attempt, in milliseconds.
    pub first_ms: u64,
    /// Each pause is this many times the one before.
    pub factor: u32,
    /// No pause is longer, in milliseconds.
    pub most_ms: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { first_ms: 200, factor: 2, most_ms: 10_000 }
    }
}

impl Backoff {
    pub(crate) fn after_ms(&self, failed_attempt: u32, jitter: u64) -> u64 {
        let factor = u64::from(self.factor.max(1)).saturating_pow(failed_attempt.saturating_sub(1));
        let full = self.first_ms.saturating_mul(factor).min(self.most_ms);
        full / 2 + if full > 1 { jitter % (full / 2 + 1) } else { full % 2 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
/// Why what a node asks for is impossible.
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum AskError {
    #[error("{count} effects asked at once, but effects_per_ask_max = {effects_per_ask_max}; split the work over several steps")]
    TooMany { count: usize, effects_per_ask_max: usize },
    #[error("effect {index} needs effect {of}, but there are only {count}; refer to an effect of the same ask")]
    Dangling { index: usize, of: usize, count: usize },
    #[error("effect {index} needs itself, directly or through others; remove one of the needs")]
    Cycle { index: usize },
    #[error("effect {index} wants {asked} attempts; it must be at least 1 and at most attempts_max = {attempts_max}")]
    Attempts { index: usize, asked: u32, attempts_max: u32 },
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(needs: &[&[usize]]) -> Result<(), AskError> {
        let mut ask = Ask::default();
        for of in needs {
            ask.add(of.iter().fold(Request::from(crate::tool("t", json!({}))), |r, &of| r.after(of)));
        }
        ask.check(&Limits { effects_per_ask_max: 4, ..Limits::default() })
    }

    #[test]
    fn a_dag_in_any_order_is_fine() {
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[&[2], &[0, 2], &[]]), Ok(()));
    }

    #[test]
    fn what_cannot_be_performed_is_refused() {
        assert_eq!(check(&[&[0]]), Err(AskError::Cycle { index: 0 }));
        assert_eq!(check(&[&[], &[2], &[1]]), Err(AskError::Cycle { index: 1 }));
        assert_eq!(check(&[&[7]]), Err(AskError::Dangling { index: 0, of: 7, count: 1 }));
        assert_eq!(check(&[&[], &[], &[], &[], &[]]), Err(AskError::TooMany { count: 5, effects_per_ask_max: 4 }));
        let none = Ask::one(Request::from(crate::person("?")).attempts(0));
        assert!(matches!(none.check(&Limits::default()), Err(AskError::Attempts { asked: 0, .. })));
    }

    #[test]
    fn waiting_grows_and_stays_bounded() {
        let backoff = Backoff { first_ms: 100, factor: 3, most_ms: 1_000 };
        let times: Vec<u64> = (1..=5).map(|attempt| backoff.after_ms(attempt, 0)).collect();
        assert_eq!(times, [50, 150, 450, 500, 500]);
        assert!(backoff.after_ms(u32::MAX, u64::MAX) <= 1_000);
        assert_eq!(Backoff { first_ms: 0, factor: 0, most_ms: 0 }.after_ms(1, 9), 0);
    }
}

use serde::{Deserialize, Serialize};

/// What replies cost, added up over a run and its children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens of prompts.
    #[serde(skip_serializing_if = "is_zero")]
    pub tokens_in: u64,
    /// Tokens of answers.
    #[serde(skip_serializing_if = "is_zero")]
    pub tokens_out: u64,
    /// Millionths of a US dollar, so that sums are exact.
    #[serde(skip_serializing_if = "is_zero")]
    pub usd_micros: u64,
    /// Calls made *inside* the effect, by a child run for instance. The call itself is counted by the machine.
    #[serde(skip_serializing_if = "is_zero")]
    pub calls: u64,
}

impl Usage {
    /// Whether nothing was used.
    pub fn is_zero(&self) -> bool {
        *self == Usage::default()
    }

    /// Tokens of prompts and answers together.
    pub fn tokens(&self) -> u64 {
        self.tokens_in.saturating_add(self.tokens_out)
    }

    /// The sum; it stops at the largest number.
    pub fn plus(self, other: Usage) -> Usage {
        Usage {
            tokens_in: self.tokens_in.saturating_add(other.tokens_in),
            tokens_out: self.tokens_out.saturating_add(other.tokens_out),
            usd_micros: self.usd_micros.saturating_add(other.usd_micros),
            calls: self.calls.saturating_add(other.calls),
        }
    }

    /// The difference; nothing goes below zero.
    pub fn minus(self, other: Usage) -> Usage {
        Usage {
            tokens_in: self.tokens_in.saturating_sub(other.tokens_in),
            tokens_out: self.tokens_out.saturating_sub(other.tokens_out),
            usd_micros: self.usd_micros.saturating_sub(other.usd_micros),
            calls: self.calls.saturating_sub(other.calls),
        }
    }
}

/// What a run may spend. `None` is no limit. Checked before every attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Tokens of prompts and answers together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_max: Option<u64>,
    /// In millionths of a dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_micros_max: Option<u64>,
    /// Attempts at effects, those of child runs included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_max: Option<u64>,
    /// In milliseconds; waiting for a person does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ms_max: Option<u64>,
    /// Kept back for effects marked `is_last`, so that a run which spends everything can still answer.
    #[serde(skip_serializing_if = "Reserve::is_zero")]
    pub reserve: Reserve,
}

/// What a budget keeps for the last effect of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reserve {
    /// Tokens of prompts and answers together.
    pub tokens: u64,
    /// In millionths of a dollar.
    pub usd_micros: u64,
    /// Attempts at effects.
    pub calls: u64,
    /// In milliseconds.
    pub time_ms: u64,
}

impl Reserve {
    fn is_zero(&self) -> bool {
        *self == Reserve::default()
    }
}

/// What is spent or reserved when an attempt is about to be released.
pub(crate) struct Account {
    /// Answered attempts, and the estimates of those in flight.
    pub(crate) committed: Usage,
    pub(crate) elapsed_us: u64,
}

impl Budget {
    /// Why an attempt that is expected to cost `estimate` may not be made, or how many microseconds it has.
    pub(crate) fn allow(&self, account: &Account, estimate: Usage, is_last: bool) -> Result<u64, String> {
        let kept = if is_last { Reserve::default() } else { self.reserve };
        let committed = account.committed;
        check_limit("tokens_max", self.tokens_max, kept.tokens, committed.tokens(), estimate.tokens())?;
        check_limit("usd_micros_max", self.usd_micros_max, kept.usd_micros, committed.usd_micros, estimate.usd_micros)?;
        check_limit("calls_max", self.calls_max, kept.calls, committed.calls, estimate.calls.max(1))?;
        let Some(time_ms_max) = self.time_ms_max else { return Ok(u64::MAX) };
        let open_us = time_ms_max.saturating_sub(kept.time_ms).saturating_mul(1_000);
        match open_us.saturating_sub(account.elapsed_us) {
            0 => Err(format!("time_ms_max = {time_ms_max} is used up ({} ms kept for the answer)", kept.time_ms)),
            left => Ok(left),
        }
    }

    /// The budget of a child that starts now and for which `estimate` is reserved: at most that, and at most what is left. So parallel children cannot
    /// together exceed the budget.
    pub(crate) fn for_child(&self, account: &Account, estimate: Usage) -> Budget {
        let others = account.committed.minus(estimate);
        let part = |max: Option<u64>, spent: u64, promised: u64| {
            let left = max.map(|max| max.saturating_sub(spent));
            if promised == 0 { left } else { Some(left.map_or(promised, |left| left.min(promised))) }
        };
        Budget {
            tokens_max: part(self.tokens_max, others.tokens(), estimate.tokens()),
            usd_micros_max: part(self.usd_micros_max, others.usd_micros, estimate.usd_micros),
            calls_max: part(self.calls_max, others.calls, estimate.calls),
            time_ms_max: self.time_ms_max.map(|max| max.saturating_sub(account.elapsed_us / 1_000)),
            reserve: Reserve::default(),
        }
    }
}

fn check_limit(name: &str, max: Option<u64>, kept: u64, committed: u64, estimate: u64) -> Result<(), String> {
    let Some(max) = max else { return Ok(()) };
    let open = max.saturating_sub(kept);
    if committed.saturating_add(estimate.max(1)) <= open {
        return Ok(());
    }
    Err(format!("{name} = {max} is used up: {committed} spent or promised, {kept} kept for the answer, {estimate} wanted"))
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

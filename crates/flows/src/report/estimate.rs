//! What a report is expected to cost, before it costs anything.
//!
//! ```text
//! estimate(sections, &profile) -> Estimate      calls, tokens, and dollars where the price of the model is known
//! section(&profile, divided_by) -> Usage        what is reserved for one section, and so the most it may use
//! ```
//!
//! These are upper bounds of one try without retries: `search` plans once, calls a few tools and writes once. The machine holds every child to what was
//! reserved for it.

use graph::Usage;
use serde::Serialize;

use crate::input::ModelProfile;

/// Estimated usage of a report with so many sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// How many sections.
    pub sections: usize,
    /// Calls of models.
    pub model_calls: u64,
    /// Calls of models, tools and child runs.
    pub calls: u64,
    /// Tokens that models read.
    pub tokens_in: u64,
    /// Tokens that models generate.
    pub tokens_out: u64,
    /// `None` if the price of the model is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_micros: Option<u64>,
}

/// Plan and synthesis of a section.
const MODEL_CALLS: u64 = 2;
/// Tools, the listing of tools and the check of a section.
const OTHER_CALLS: u64 = 10;
/// The outline, the summary, and the checks of the document.
const OWN_MODEL_CALLS: u64 = 2;

/// Tokens of prompts and replies of one section.
fn section_tokens(model: &ModelProfile) -> (u64, u64) {
    // Instructions and tools twice, and the evidence once.
    let evidence = model.evidence_tokens(0, 0) as u64;
    if model.is_small { (evidence + 3_000, 800) } else { (evidence + 6_000, 3_500) }
}

fn priced(model: &ModelProfile, tokens_in: u64, tokens_out: u64) -> Option<u64> {
    let price = model.price?;
    let part = |tokens: u64, usd_micros_per_million: u64| tokens.saturating_mul(usd_micros_per_million).div_ceil(1_000_000);
    Some(part(tokens_in, price.usd_micros_per_million_in).saturating_add(part(tokens_out, price.usd_micros_per_million_out)))
}

/// Estimates a report with so many sections by this model.
pub fn estimate(sections: usize, model: &ModelProfile) -> Estimate {
    let count = sections as u64;
    let (one_in, one_out) = section_tokens(model);
    let (own_in, own_out) = if model.is_small { (1_000, 400) } else { (3_000 + 1_500 * count, 2_000) };
    let (tokens_in, tokens_out) = (one_in * count + own_in, one_out * count + own_out);
    let model_calls = MODEL_CALLS * count + if model.is_small { 1 } else { OWN_MODEL_CALLS };
    Estimate {
        sections,
        model_calls,
        // A child run is a call too, and so is each check of a part.
        calls: model_calls + (OTHER_CALLS + 2) * count + 1,
        tokens_in,
        tokens_out,
        usd_micros: priced(model, tokens_in, tokens_out),
    }
}

/// A section may use twice what it is expected to: a model call is tried again when it fails.
pub(super) fn section(model: &ModelProfile, divided_by: u64) -> Usage {
    let (tokens_in, tokens_out) = section_tokens(model);
    let part = |amount: u64| (amount * 2 / divided_by.max(1)).max(1);
    Usage {
        tokens_in: part(tokens_in),
        tokens_out: part(tokens_out),
        usd_micros: priced(model, tokens_in, tokens_out).map_or(0, part),
        calls: part(MODEL_CALLS + OTHER_CALLS + 1),
    }
}

impl Estimate {
    /// The estimate as a line for a person.
    pub fn words(&self) -> String {
        let usd = match self.usd_micros {
            Some(micros) => format!("about ${:.2}", micros as f64 / 1_000_000.0),
            None => "price of the model not known".to_owned(),
        };
        let sections = if self.sections == 1 { "section" } else { "sections" };
        format!(
            "Estimate for {} {sections}: up to {} model calls of {} calls in all, {} tokens in and {} out, {usd}.",
            self.sections, self.model_calls, self.calls, self.tokens_in, self.tokens_out
        )
    }
}

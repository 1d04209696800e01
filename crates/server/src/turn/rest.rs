//! How a run ended or what it waits for, as clients receive it.

use engine::RunState;
use graph::{Outcome, RunId, Usage};
use serde_json::Value;

use super::OpenQuestion;
use crate::api::Api;
use crate::problem::Problem;

pub(crate) enum TurnOutcome {
    Answered(Box<Answered>),
    /// Only a person can move it; what it asks first.
    Question(Box<OpenQuestion>),
    Failed(String),
    Cancelled(String),
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    /// Markdown, with the list of sources.
    pub(crate) text: String,
    pub(crate) output: Value,
    /// `[1]` is the first.
    pub(crate) sources: Vec<evidence::Source>,
    pub(crate) usage: Usage,
}

/// Waits until the run is over or only a person can move it.
pub(crate) async fn outcome(api: &Api, run: &RunId) -> Result<TurnOutcome, Problem> {
    let engine = &api.0.engine;
    match engine.wait(run).await? {
        RunState::Over(closing) => Ok(match &closing.outcome {
            Outcome::Done { output } => TurnOutcome::Answered(Box::new(answered(output, closing.spent))),
            Outcome::Failed { fault } => TurnOutcome::Failed(fault.to_string()),
            Outcome::Cancelled { reason } => TurnOutcome::Cancelled(reason.clone()),
        }),
        RunState::Parked(_) => {
            let row = engine.store().run(run).await?.ok_or_else(|| Problem::not_found("run"))?;
            let first = engine.open_questions(&row).await?.into_iter().next();
            first.map(|asks| TurnOutcome::Question(Box::new(asks))).ok_or_else(|| Problem::busy("another server drives the run; try again"))
        }
        RunState::Going => Err(Problem::busy("another server drives the run; try again")),
        RunState::Lost(error) => Err(error.into()),
    }
}

pub(crate) fn answered(output: &Value, usage: Usage) -> Answered {
    let last = || output.get("messages").and_then(Value::as_array).and_then(|all| all.last()).and_then(|last| last["content"].as_str());
    let text = match output.get("answer").unwrap_or(output) {
        Value::String(answer) => answer.clone(),
        other => last().map_or_else(|| other.to_string(), str::to_owned),
    };
    // Flows that check nothing have no such list, or another of the same name.
    let sources = serde_json::from_value(output.get("sources").cloned().unwrap_or_default()).unwrap_or_default();
    Answered { text, output: output.clone(), sources, usage }
}

/// A longer text in brackets is no number of a source.
const NUMBER_BYTES_MAX: usize = 24;

/// Where a text cites which source: the bytes of each `[n]`, and `n` from 1.
pub(crate) fn citations(text: &str, sources: usize) -> Vec<(std::ops::Range<usize>, usize)> {
    let mut found = Vec::new();
    // The list of sources at the end has the numbers too.
    let body = evidence::answer_body(text, sources > 0);
    for (at, _) in body.match_indices('[') {
        // A text of brackets only must not be looked through once for each of them.
        let near = &body[at..body.floor_char_boundary(at + NUMBER_BYTES_MAX)];
        let Some(end) = near.find(']').map(|length| at + length) else { continue };
        if let Ok(number) = body[at + 1..end].parse::<usize>()
            && (1..=sources).contains(&number)
        {
            found.push((at..end + 1, number));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_are_the_numbers_of_sources_in_the_text() {
        let text = "Tides [1] rise [x] and fall [2][3].\n\n**Sources**\n[1] Sea";
        let found: Vec<(&str, usize)> = citations(text, 2).into_iter().map(|(range, number)| (&text[range], number)).collect();
        assert_eq!(found, [("[1]", 1), ("[2]", 2)]);
        assert_eq!(citations("[", 2), []);
        // Once for each bracket, this takes hours.
        assert_eq!(citations(&format!("{}]", "[é".repeat(700_000)), 2), []);
        assert_eq!(citations(&"[1]".repeat(300_000), 2).len(), 300_000);
    }
}

//! Answers without any model: picks the most relevant sentences of the evidence, in their order and with
//! their sources, plans by rules, and fills simple schemas. It has no knowledge of its own; if the evidence has no answer, the reply states that.
//!
//! The question is the last message of role `user`; the evidence is what [`evidence`](super::evidence) defines. Answers are marked
//! in `Reply::about` as `"extracted": true`.

mod fill;
mod rank;

use async_trait::async_trait;
use graph::{Key, ModelCall, Usage};
use serde_json::{Value, json};

use super::{Answer, Finish, Model, ModelError, ModelOutput, evidence};
use effects::Progress;
use rank::Picked;

/// The model `extract`, which needs no weights and no network.
pub struct Extract;

/// The answer when the evidence has none. The command line adds how to get a model.
pub const NOTHING_KNOWN: &str = "Nothing in the evidence at hand answers this, and no model was asked.";

const SENTENCES_MAX: usize = 4;

#[async_trait]
impl Model for Extract {
    async fn answer(&self, call: &ModelCall, _key: &Key, progress: &Progress) -> Result<Answer, ModelError> {
        let material = Material::of(call);
        let output = match &call.schema {
            Some(schema) => ModelOutput::Json(fill::fill(schema, &material)),
            None => {
                let text = material.answer_with_sources();
                text.split_inclusive(' ').for_each(|word| progress.send(word));
                ModelOutput::Text(text)
            }
        };
        let notes = json!({"extracted": true, "sentences": material.picked.len()});
        Ok(Answer { output, usage: Usage::default(), model: None, finish: Finish::Stop, notes })
    }
}

/// What there is to answer with.
struct Material<'c> {
    question: String,
    picked: Vec<Picked<'c>>,
}

impl<'c> Material<'c> {
    fn of(call: &'c ModelCall) -> Self {
        let asked = call.messages.iter().rev().find(|message| message.role == "user");
        let question = asked.map(|message| message.content.trim().to_owned()).unwrap_or_default();
        let passages = evidence::passages(&call.messages);
        let picked = rank::pick(&question, &passages, SENTENCES_MAX);
        Material { question, picked }
    }

    fn is_supported(&self) -> bool {
        !self.picked.is_empty()
    }

    /// The share of the question's words that the sentences contain, from 0 to 1.
    fn support(&self) -> f64 {
        rank::coverage(&self.question, &self.picked)
    }

    fn answer(&self) -> String {
        if self.picked.is_empty() {
            return NOTHING_KNOWN.to_owned();
        }
        let cited = |picked: &Picked<'_>| format!("{} [{}]", picked.sentence, picked.number);
        self.picked.iter().map(cited).collect::<Vec<_>>().join(" ")
    }

    fn answer_with_sources(&self) -> String {
        let mut text = self.answer();
        let sources = self.sources();
        if sources.iter().any(|(_, source)| source.is_some()) {
            text.push_str("\n\nSources:");
            for (number, source) in sources {
                text.push_str(&format!("\n[{number}] {}", source.unwrap_or("(not named)")));
            }
        }
        text
    }

    fn sources(&self) -> Vec<(usize, Option<&'c str>)> {
        let mut sources: Vec<(usize, Option<&str>)> = self.picked.iter().map(|picked| (picked.number, picked.source)).collect();
        sources.sort_unstable();
        sources.dedup();
        sources
    }
}

/// The steps of a plan by rules: the requests of the question one after the other, or the things it compares.
fn plan(question: &str) -> Vec<String> {
    let line = question.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.trim_end_matches(['?', '.', '!', ' ']);
    let lower = line.to_lowercase();
    for (opening, middle) in [("compare ", " and "), ("compare ", " with "), ("difference between ", " and "), ("differences between ", " and ")] {
        if let Some(at) = lower.find(opening).map(|at| at + opening.len())
            && let Some(mid) = lower[at..].find(middle).map(|mid| at + mid)
            && line.is_char_boundary(at)
            && line.is_char_boundary(mid)
            && lower.len() == line.len()
        {
            return vec![line[at..mid].trim().to_owned(), line[mid + middle.len()..].trim().to_owned(), line.to_owned()];
        }
    }
    let parts = line.split(['?', ';']).flat_map(|part| part.split(" and then ")).flat_map(|part| part.split(", then "));
    let mut steps: Vec<String> =
        parts.map(|part| part.trim().trim_start_matches(['.', ',']).trim().to_owned()).filter(|part| !part.is_empty()).collect();
    steps.truncate(4);
    if steps.is_empty() {
        steps.push(question.trim().to_owned());
    }
    steps
}

/// Whether a reply came from here.
pub fn is_extracted(about: &Value) -> bool {
    about.get("extracted") == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests;

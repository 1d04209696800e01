//! Summarizes texts.
//!
//! A model does it if there is one ([`TextModel`]); long input is summarized in parts and then the parts are. Without a model, or when it
//! fails, the best sentences are extracted. In both cases each sentence of the summary lists the texts it rests on, computed from their
//! words.

mod pick;
mod prompt;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use evidence::Trust;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Builtin, Hints, Kind, Settings, Tool, ToolError, ToolOutput, Toolset};
pub use prompt::Prompt;

/// The server `summary`: shorter versions of texts.
pub const KIND: Kind = Kind {
    name: "summary",
    about: "Sums up texts in so many words, by a model if there is one and otherwise by their best sentences",
    port: 8002,
    // A summary repeats its texts, which may be untrusted.
    trust: Trust::Untrusted,
    make,
};

/// A model that writes text, provided by the caller.
#[async_trait]
pub trait TextModel: Send + Sync {
    /// Generates a text for a prompt.
    async fn generate(&self, prompt: &Prompt) -> Result<String, TextModelError>;
    /// Whether there is a model at this moment; otherwise sentences are picked.
    fn is_available(&self) -> bool {
        true
    }
    /// Tokens of a prompt available for the text to summarize.
    fn budget_tokens(&self) -> usize {
        6_000
    }
}

/// Why no text was generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TextModelError(pub String);

const WORDS_DEFAULT: usize = 120;
const WORDS_MAX: usize = 1_000;
const TEXTS_MAX: usize = 50;
const BYTES_MAX: usize = 1 << 20;
/// Parts summarized concurrently, and levels of recursion.
const AT_ONCE_MAX: usize = 3;
const ROUNDS_MAX: usize = 4;
/// Prose is closer to four bytes per token; three leaves room for other languages.
const BYTES_PER_TOKEN: usize = 3;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SummaryArguments {
    /// The texts to sum up, such as the last three answers. Give this or `text`.
    #[serde(default)]
    texts: Option<Vec<String>>,
    /// One text to sum up. Give this or `texts`.
    #[serde(default)]
    text: Option<String>,
    /// About how many words the summary should have, from 10 to 1000; 120 if not said.
    #[serde(default)]
    #[schemars(range(min = 10, max = 1000))]
    words: Option<usize>,
    /// What the reader wants to know; the summary keeps to it.
    #[serde(default)]
    focus: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SummaryOutput {
    summary: String,
    words: usize,
    /// `model`, or `extracted` when sentences were picked as they stand.
    how: SummaryMethod,
    /// From 0 to 1: how far the texts' own words carry the summary.
    confidence: f64,
    /// Each sentence of the summary with the texts it rests on.
    sentences: Vec<Sentence>,
    /// Why a model did not write it, although there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SummaryMethod {
    Model,
    Extracted,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct Sentence {
    text: String,
    /// The texts it rests on, best first, counted from 1.
    from: Vec<usize>,
    /// From 0 to 1: how much of it is in the best of them.
    support: f64,
}

fn make(kind: &Kind, settings: &Settings) -> Result<Builtin, String> {
    let text_model = settings.text_model.clone();
    let summarize = Tool::new(
        "summarize",
        "Sum up one or several texts in about so many words, keeping to a focus if one is given. Says for each sentence which of the texts \
         it rests on.",
        Hints::READS,
        move |takes: SummaryArguments, _| {
            let text_model = text_model.clone();
            async move { summarize(&takes, text_model.as_deref()).await }
        },
    );
    Ok(kind.around(Toolset::new(kind.name, kind.about, [summarize])))
}

async fn summarize(takes: &SummaryArguments, text_model: Option<&dyn TextModel>) -> Result<ToolOutput<SummaryOutput>, ToolError> {
    let texts = given(takes)?;
    let words = takes.words.unwrap_or(WORDS_DEFAULT);
    if !(10..=WORDS_MAX).contains(&words) {
        return Err(ToolError(format!("`words` is {words}; it must be from 10 to {WORDS_MAX}")));
    }
    let focus = takes.focus.as_deref().map(str::trim).filter(|focus| !focus.is_empty());
    let written = match text_model.filter(|text_model| text_model.is_available()) {
        Some(text_model) => Some(write(text_model, &texts, words, focus).await),
        None => None,
    };
    let (summary, how, note) = match written {
        Some(Ok(summary)) => (summary, SummaryMethod::Model, None),
        Some(Err(trouble)) => {
            tracing::warn!(%trouble, "the model wrote no summary, so sentences are picked");
            (pick::pick(&texts, words, focus), SummaryMethod::Extracted, Some(trouble.to_string()))
        }
        None => (pick::pick(&texts, words, focus), SummaryMethod::Extracted, None),
    };
    if summary.trim().is_empty() {
        return Err("there is nothing to sum up: the texts have no sentences".into());
    }
    let sentences = pick::rest_on(&summary, &texts);
    let confidence = sentences.iter().map(|sentence| sentence.support).sum::<f64>() / sentences.len().max(1) as f64;
    let confidence = (confidence * 100.0).round() / 100.0;
    let count = summary.split_whitespace().count();
    Ok(ToolOutput { text: summary.clone(), data: SummaryOutput { summary, words: count, how, confidence, sentences, note } })
}

fn given(takes: &SummaryArguments) -> Result<Vec<String>, ToolError> {
    let texts = match (&takes.texts, &takes.text) {
        (Some(texts), None) => texts.clone(),
        (None, Some(text)) => vec![text.clone()],
        _ => return Err("give either `texts` (a list) or `text` (one text), and not both".into()),
    };
    if texts.iter().all(|text| text.trim().is_empty()) {
        return Err("the texts are empty; give what is to be summed up".into());
    }
    let bytes: usize = texts.iter().map(String::len).sum();
    if texts.len() > TEXTS_MAX || bytes > BYTES_MAX {
        return Err(ToolError(format!(
            "{} texts of {bytes} bytes in all are too much; at most {TEXTS_MAX} texts and {BYTES_MAX} bytes are taken",
            texts.len()
        )));
    }
    Ok(texts)
}

/// With a model: in one call if it fits, otherwise in parts and then the parts.
async fn write(text_model: &dyn TextModel, texts: &[String], words: usize, focus: Option<&str>) -> Result<String, TextModelError> {
    let budget = text_model.budget_tokens().max(200) * BYTES_PER_TOKEN;
    let numbered =
        |texts: &[String]| -> Vec<String> { texts.iter().enumerate().map(|(at, text)| format!("Text {}:\n{}", at + 1, text.trim())).collect() };
    let mut material = numbered(texts);
    for _ in 0..ROUNDS_MAX {
        if material.iter().map(String::len).sum::<usize>() <= budget {
            return one(text_model, &material.join("\n\n"), words, focus).await;
        }
        let parts = packed(&material, budget);
        // Each part gets a share, together at most half a budget, so that the recursion ends.
        let share = (budget / 2 / 7 / parts.len()).clamp(20, WORDS_MAX);
        let asked: Vec<BoxFuture<'_, Result<String, TextModelError>>> =
            parts.iter().map(|part| Box::pin(one(text_model, part, share, focus)) as _).collect();
        let written: Vec<Result<String, TextModelError>> = futures::stream::iter(asked).buffered(AT_ONCE_MAX).collect().await;
        let written: Vec<String> = written.into_iter().collect::<Result<_, _>>()?;
        // The recursion must end even if a model exceeds its share.
        material = written.iter().enumerate().map(|(at, text)| format!("Part {}:\n{}", at + 1, crate::passage::cut(text, budget / 2))).collect();
    }
    Err(TextModelError("the texts are too long for this model even in parts".into()))
}

async fn one(text_model: &dyn TextModel, material: &str, words: usize, focus: Option<&str>) -> Result<String, TextModelError> {
    let text = text_model.generate(&Prompt::new(material, words, focus)).await?;
    let text = text.trim();
    if text.is_empty() { Err(TextModelError("the model wrote nothing".into())) } else { Ok(text.to_owned()) }
}

/// Pieces of at most `most` bytes, split at paragraphs where possible and otherwise at words.
fn packed(material: &[String], most: usize) -> Vec<String> {
    let mut parts = vec![String::new()];
    for block in material.iter().flat_map(|text| text.split("\n\n")) {
        let mut rest = block;
        while !rest.is_empty() {
            let part = parts.last_mut().expect("there is always one");
            let room = most.saturating_sub(part.len() + 2);
            if rest.len() <= room {
                part.push_str(rest);
                part.push_str("\n\n");
                break;
            }
            if !part.is_empty() {
                parts.push(String::new());
                continue;
            }
            let mut at = most;
            while !rest.is_char_boundary(at) {
                at -= 1;
            }
            let at = rest[..at].rfind(char::is_whitespace).filter(|space| *space > at / 2).unwrap_or(at);
            part.push_str(&rest[..at]);
            parts.push(String::new());
            rest = rest[at..].trim_start();
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

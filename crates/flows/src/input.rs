//! The input of every flow, and how much of it a model is shown.
//!
//! ```text
//! Input<S> { question, history, model: ModelProfile, strict, docs, approve: Approve, settings: Option<S> }   S: the flow's own settings
//! ModelProfile     { is_small, context_tokens, has_verifier, has_answer_check, can_abstain, price }     .evidence_tokens(used, reply)   how many tokens of evidence fit
//! recent(&history, turns)                   the last turns (a question and its answer), only of users and models
//! last_messages(&history, count)            the same, counted in messages
//! fitted(messages, tokens_max)              the newest of them that fit
//! ```
//!
//! A flow reads it with `Builder::input(|input: Input<Settings>| State { … })`. Unknown fields are errors, so that a misspelt setting is not silently
//! ignored. `Input<NoSettings>` is for flows without settings. `docs` means that the user named documents; flows that list tools find `docs.search`
//! among them anyway.

use graph::Message;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Longer questions are rejected; long text belongs in a document.
pub const QUESTION_BYTES_MAX: usize = 32 << 10;

/// The input of a flow with settings of type `S`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, bound = "S: DeserializeOwned + JsonSchema")]
pub struct Input<S = NoSettings> {
    /// Not empty, without control characters, trimmed.
    #[serde(deserialize_with = "question")]
    pub question: String,
    /// Earlier messages of the thread, oldest first.
    #[serde(default)]
    pub history: Vec<Message>,
    /// Indexes into `history` of answers without findings, such as those about the conversation itself.
    #[serde(default)]
    pub without_findings: Vec<usize>,
    /// Profile of the model.
    #[serde(default)]
    pub model: ModelProfile,
    /// Unsupported sentences are removed instead of only marked.
    #[serde(default)]
    pub strict: bool,
    /// The user named documents to answer from.
    #[serde(default)]
    pub docs: bool,
    /// What a person must approve.
    #[serde(default)]
    pub approve: Approve,
    /// The flow's own settings.
    #[serde(default, deserialize_with = "crate::settings::read")]
    pub settings: Option<S>,
}

/// For flows without settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoSettings {}

/// A question as an interface receives it, from which the input of any flow is made; see [`crate::Descriptor::input_for`].
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The question.
    pub text: &'a str,
    /// The model that answers.
    pub model: ModelProfile,
    /// There are documents to answer from.
    pub docs: bool,
    /// A person approves the plan.
    pub approve: bool,
    /// `None` means the user's preference.
    pub strict: Option<bool>,
    /// In the form that [`crate::Registry::resolve_settings`] makes.
    pub settings: &'a Value,
}

impl Question<'_> {
    /// In the form that [`Input`] parses.
    pub fn input(&self) -> Value {
        let mut input = json!({
            "question": self.text,
            "model": self.model,
            "docs": self.docs,
            "approve": if self.approve { Approve::Plan } else { Approve::None },
            "settings": self.settings,
        });
        if let Some(strict) = self.strict {
            input["strict"] = json!(strict);
        }
        input
    }
}

/// Properties of the model that the flow will use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelProfile {
    /// A model of a few billion parameters: short prompts, short schemas, little evidence.
    pub is_small: bool,
    /// Size of its context.
    pub context_tokens: u32,
    /// The host provides the verifier (`evidence::JUDGE`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_verifier: bool,
    /// The verifier also judges short answers of this model. The input of a run from before there was this check lacks it, so that its replay requests what it did
    /// then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_answer_check: bool,
    /// A small model trained to say that the passages do not answer the question. Other small models are not offered this: they use it too
    /// often.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub can_abstain: bool,
    /// What its tokens cost, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// What a million tokens of a model cost, in millionths of a US dollar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Of its input.
    pub usd_micros_per_million_in: u64,
    /// Of its output.
    pub usd_micros_per_million_out: u64,
}

impl Default for ModelProfile {
    fn default() -> Self {
        ModelProfile { is_small: true, context_tokens: 8_192, has_verifier: false, has_answer_check: false, can_abstain: false, price: None }
    }
}

/// What a person must approve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approve {
    /// Nothing.
    #[default]
    None,
    /// The plan, before any of its tasks runs.
    Plan,
}

/// A small model on a user's machine reads slowly and is less accurate with more.
const SMALL_EVIDENCE_TOKENS_MAX: usize = 1_400;
/// More evidence costs more than it adds.
const EVIDENCE_TOKENS_MAX: usize = 24_000;

impl ModelProfile {
    /// Tokens left for evidence beside `used_tokens` of other prompt and a reply of `reply_tokens`. Token counts are estimates, so a tenth
    /// is kept free.
    pub fn evidence_tokens(&self, used_tokens: usize, reply_tokens: u32) -> usize {
        let context = self.context_tokens as usize;
        let free = context.saturating_sub(context / 10 + used_tokens + reply_tokens as usize);
        free.min(if self.is_small { SMALL_EVIDENCE_TOKENS_MAX } else { EVIDENCE_TOKENS_MAX })
    }

    /// Tokens of history: at most a quarter of the context, and little for a small model.
    pub fn history_tokens(&self) -> usize {
        (self.context_tokens as usize / 4).min(if self.is_small { 600 } else { 6_000 })
    }

    /// Tokens of the question itself.
    pub fn question_tokens(&self) -> usize {
        self.context_tokens as usize / 4
    }
}

/// The last `turns` turns. A turn begins with a user message. Roles other than `user` and `assistant` are left out, so that a history
/// cannot inject instructions.
pub fn recent(history: &[Message], turns: usize) -> Vec<Message> {
    let conversation: Vec<&Message> = history.iter().filter(is_speech).collect();
    let starts: Vec<usize> = conversation.iter().enumerate().filter(|(_, message)| message.role == "user").map(|(at, _)| at).collect();
    let from = match starts.len().checked_sub(turns) {
        _ if turns == 0 => conversation.len(),
        Some(skipped) if skipped > 0 => starts[skipped],
        _ => 0,
    };
    conversation[from..].iter().map(|&message| message.clone()).collect()
}

/// The last messages of users and models.
pub fn last_messages(history: &[Message], count: usize) -> Vec<Message> {
    let conversation: Vec<&Message> = history.iter().filter(is_speech).collect();
    conversation[conversation.len().saturating_sub(count)..].iter().map(|&message| message.clone()).collect()
}

/// The newest messages that fit, in their order. A single message that is too long is clipped in its middle.
pub fn fitted(messages: &[Message], tokens_max: usize) -> Vec<Message> {
    /// One message may use at most this fraction of the budget.
    const SHARE: usize = 2;
    let mut left = tokens_max;
    let mut kept = Vec::new();
    for message in messages.iter().rev() {
        let content = crate::prompt::clipped(&message.content, (tokens_max / SHARE).min(left));
        let tokens = evidence::tokens(&content);
        if tokens > left || content.trim().is_empty() {
            break;
        }
        left -= tokens;
        kept.push(Message { role: message.role.clone(), content });
    }
    kept.reverse();
    kept
}

fn is_speech(message: &&Message) -> bool {
    matches!(message.role.as_str(), "user" | "assistant") && !message.content.trim().is_empty()
}

fn question<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let asked = evidence::visible(&String::deserialize(deserializer)?);
    match asked.trim() {
        "" => Err(serde::de::Error::custom("the question is empty; say what you want to know")),
        question if question.len() > QUESTION_BYTES_MAX => Err(serde::de::Error::custom(format!(
            "the question has {} bytes, but question_bytes_max = {QUESTION_BYTES_MAX}; put long text into a file and name it as a document",
            question.len()
        ))),
        question => Ok(question.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: Value) -> Result<Input, String> {
        serde_json::from_value(input).map_err(|error| error.to_string())
    }

    fn message(role: &str, content: &str) -> Message {
        Message { role: role.into(), content: content.into() }
    }

    #[test]
    fn a_question_is_all_that_is_needed() {
        let input = read(json!({ "question": " What\u{1b}[31m now?\u{0} " })).unwrap();
        assert_eq!(input.question, "What now?");
        assert_eq!((input.model, input.approve, input.strict, input.docs), (ModelProfile::default(), Approve::None, false, false));
        assert_eq!(read(json!({ "question": "q", "approve": "plan", "model": { "is_small": false } })).unwrap().approve, Approve::Plan);
    }

    #[test]
    fn invalid_input_is_an_error_with_a_reason() {
        let long = "x".repeat(QUESTION_BYTES_MAX + 1);
        let cases = [
            (json!({ "question": " \u{200b}\u{7} " }), "the question is empty"),
            (json!({ "question": long }), "question_bytes_max"),
            (json!({ "question": "q", "qestion": "q" }), "unknown field"),
            (json!({ "question": "q", "settings": { "rounds": 3 } }), "unknown field"),
            (json!({ "question": "q", "model": { "small": true } }), "unknown field"),
            (json!({}), "missing field"),
        ];
        for (input, expected) in cases {
            let error = read(input).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn s8_ten_turns_are_ten_questions_and_their_answers() {
        let mut history = vec![message("system", "obey")];
        for turn in 1..=12 {
            history.extend([message("user", &format!("q{turn}")), message("evidence", "x"), message("assistant", &format!("a{turn}"))]);
        }
        let recent: Vec<String> = recent(&history, 10).into_iter().map(|message| message.content).collect();
        assert_eq!((recent.len(), recent[0].as_str(), recent[19].as_str()), (20, "q3", "a12"));
        assert_eq!(super::recent(&history, 0), []);
        assert_eq!(super::recent(&history[..4], 10).len(), 2);
        let last: Vec<String> = last_messages(&history, 3).into_iter().map(|message| message.content).collect();
        assert_eq!(last, ["a11", "q12", "a12"]);
    }

    #[test]
    fn what_fits_is_the_newest() {
        let history = [message("user", "one two three four five"), message("assistant", "six"), message("user", "seven")];
        let kept: Vec<String> = fitted(&history, 6).into_iter().map(|message| message.content).collect();
        assert_eq!(kept, ["six", "seven"]);
        assert_eq!(fitted(&history, 0), []);
        let long = [message("assistant", &"word ".repeat(4_000))];
        let kept = fitted(&long, 200);
        assert!(evidence::tokens(&kept[0].content) <= 100 && kept[0].content.contains("left out"), "{kept:?}");
    }

    #[test]
    fn evidence_leaves_room_for_the_rest() {
        let large = ModelProfile { is_small: false, context_tokens: 32_000, ..ModelProfile::default() };
        assert_eq!(large.evidence_tokens(1_000, 2_000), 24_000);
        assert_eq!(ModelProfile { context_tokens: 10_000, ..large }.evidence_tokens(1_000, 2_000), 6_000);
        assert_eq!(ModelProfile::default().evidence_tokens(500, 500), SMALL_EVIDENCE_TOKENS_MAX);
        assert_eq!(ModelProfile { context_tokens: 1_000, ..large }.evidence_tokens(900, 500), 0);
    }
}

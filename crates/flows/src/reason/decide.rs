//! Direct or agentic, decided without a model so that a direct answer starts immediately. The first rule that applies decides.
//!
//! ```text
//!   explicit choice of the caller or the user ─► content (documents, an address, arithmetic, length) ─► form ─► available tools
//! ```
//!
//! A direct answer cannot act. So only plain questions, greetings and explicit requests for a quick answer are direct; whatever may be a
//! request to do something is planned, and a plan without steps is then answered directly. Whether a question needs a tool is decided by
//! the tools listed for it: by their names, and by the router's classifier.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::certain::is_arithmetic;
use super::limits::Depth;

#[expect(missing_docs, reason = "comments at the variants would become part of the JSON schema of the setting")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerMode {
    Direct,
    Agentic,
}

/// Reason of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Set by the caller. Journals have it as `told`.
    #[serde(rename = "told")]
    Requested,
    /// "quick", "briefly", …, or the depth `quick`.
    AskedForQuick,
    /// The depth `deep`.
    AskedForDepth,
    /// The last answer failed.
    PreviousFailure,
    /// "step by step", "plan", …
    AskedForReasoning,
    /// Documents were named, and only tools can read them.
    Documents,
    /// The message is long.
    Long,
    /// It holds an address or is arithmetic.
    NeedsTool,
    /// There are many earlier messages.
    History,
    /// It is not plainly a question, so something may have to be done.
    MayAct,
    /// It names a tool or a server that there is.
    NamesTool,
    /// The router's classifier sends such requests to a flow with tools.
    Classified,
    /// The user's preference, where nothing else decides.
    Preference,
    /// No rule asks for more.
    Simple,
}

/// How much a request asks for, by its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Complexity {
    /// Short, and one request.
    Simple,
    /// Long, or several requests.
    Moderate,
    /// Long and several requests, reasoning was asked for, or the last answer failed.
    Complex,
}

/// Input of the rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'f> {
    /// The request.
    pub message: &'f str,
    /// Number of earlier messages.
    pub messages_before: usize,
    /// The previous answer failed.
    pub has_failed_before: bool,
    /// Documents were named.
    pub has_documents: bool,
    /// The mode that the caller set.
    pub requested: Option<AnswerMode>,
    /// The user's preference.
    pub preference: Option<AnswerMode>,
    /// The effort.
    pub depth: Depth,
    /// Whether the listed tools fit, once they are listed.
    pub tool_fit: Option<ToolFit>,
}

/// Why a request needs one of the tools that are listed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolFit {
    /// It names a tool or a server.
    Named,
    /// The router's classifier sends such requests to a flow with tools.
    Classified,
}

/// A longer message has more than one request.
const LONG_CHARS_MIN: usize = 200;
/// A longer conversation has dependencies between its messages.
const MESSAGES_MAX: usize = 3;

/// Explicit requests for a plan, as phrases: a single word such as "plan" may be the topic of the request.
const REASONING: [&str; 6] = ["step by step", "think it through", "think it over", "make a plan", "thoroughly", "in depth"];
/// Explicit requests for a short answer.
const QUICK: [&str; 12] = [
    "quick",
    "quickly",
    "direct answer",
    "answer directly",
    "brief",
    "briefly",
    "in short",
    "short answer",
    "one word",
    "one sentence",
    "just tell me",
    "tldr",
];
/// A question in form that requests an action.
const POLITE: [&str; 6] = ["please", "can you", "could you", "would you", "will you", "i want you"];
const GREETINGS: [&str; 16] = [
    "hello",
    "hi",
    "hey",
    "good morning",
    "good evening",
    "thanks",
    "thank you",
    "bye",
    "goodbye",
    "ok",
    "okay",
    "hallo",
    "danke",
    "bonjour",
    "merci",
    "hola",
];
/// A longer message is not a greeting.
const GREETING_WORDS_MAX: usize = 4;

/// The decision with its reason.
pub fn decide(facts: &Facts<'_>) -> (AnswerMode, Why) {
    let words = words(facts.message);
    let needs_tool = facts.message.contains("://") || is_arithmetic(facts.message);
    if let Some(way) = facts.requested {
        return (way, Why::Requested);
    }
    if facts.depth == Depth::Deep {
        return (AnswerMode::Agentic, Why::AskedForDepth);
    }
    if has(&words, &QUICK) || facts.depth == Depth::Quick {
        return match (needs_tool, facts.has_documents, facts.tool_fit) {
            (true, _, _) => (AnswerMode::Agentic, Why::NeedsTool),
            (false, true, _) => (AnswerMode::Agentic, Why::Documents),
            (false, false, Some(ToolFit::Named)) => (AnswerMode::Agentic, Why::NamesTool),
            // A question is answered directly here; a request to act cannot be.
            (false, false, Some(ToolFit::Classified)) if may_act(facts.message) => (AnswerMode::Agentic, Why::Classified),
            (false, false, Some(ToolFit::Classified) | None) => (AnswerMode::Direct, Why::AskedForQuick),
        };
    }
    if facts.has_failed_before {
        return (AnswerMode::Agentic, Why::PreviousFailure);
    }
    if has(&words, &REASONING) {
        return (AnswerMode::Agentic, Why::AskedForReasoning);
    }
    if facts.has_documents {
        return (AnswerMode::Agentic, Why::Documents);
    }
    if facts.message.chars().count() > LONG_CHARS_MIN {
        return (AnswerMode::Agentic, Why::Long);
    }
    if needs_tool {
        return (AnswerMode::Agentic, Why::NeedsTool);
    }
    if facts.messages_before > MESSAGES_MAX {
        return (AnswerMode::Agentic, Why::History);
    }
    if may_act(facts.message) {
        return (AnswerMode::Agentic, Why::MayAct);
    }
    if is_greeting(&words) {
        return (AnswerMode::Direct, Why::Simple);
    }
    // The user's preference outranks a guess, but not a tool's name in the request.
    match (facts.tool_fit, facts.preference) {
        (Some(ToolFit::Named), _) => (AnswerMode::Agentic, Why::NamesTool),
        (Some(ToolFit::Classified) | None, Some(way)) => (way, Why::Preference),
        (Some(ToolFit::Classified), None) => (AnswerMode::Agentic, Why::Classified),
        (None, None) => (AnswerMode::Direct, Why::Simple),
    }
}

/// Whether the available tools could change this decision.
pub(super) fn depends_on_tools(decision: (AnswerMode, Why)) -> bool {
    decision.0 == AnswerMode::Direct && matches!(decision.1, Why::Simple | Why::AskedForQuick | Why::Preference)
}

/// Not plainly a question and not a greeting.
pub(super) fn may_act(message: &str) -> bool {
    let words = &words(message);
    let is_question = message.trim_end().ends_with(['?', '？', '؟']) && !has(words, &POLITE);
    !words.trim().is_empty() && !is_question && !is_greeting(words)
}

fn is_greeting(words: &str) -> bool {
    words.split_whitespace().count() <= GREETING_WORDS_MAX && GREETINGS.iter().any(|greeting| words.starts_with(&format!(" {greeting} ")))
}

/// Estimated complexity by the form of the request; a plan replaces it.
pub fn complexity(message: &str, why: Why) -> Complexity {
    let sentences = message.matches(['?', '？', '؟', ';']).count();
    let is_several = sentences > 1 || message.lines().filter(|line| !line.trim().is_empty()).count() > 2;
    let is_long = message.chars().count() > LONG_CHARS_MIN;
    match (why, is_several, is_long) {
        (Why::AskedForReasoning | Why::PreviousFailure, _, _) | (_, true, true) => Complexity::Complex,
        (_, true, false) | (_, false, true) => Complexity::Moderate,
        (_, false, false) => Complexity::Simple,
    }
}

/// Lower case, one space between, one at each end.
fn words(message: &str) -> String {
    let words = message.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase);
    format!(" {} ", words.collect::<Vec<_>>().join(" "))
}

/// Whole words only: "profile" does not contain "file".
fn has(words: &str, list: &[&str]) -> bool {
    list.iter().any(|one| words.contains(&format!(" {one} ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r2_direct_or_agentic_is_decided_by_rules() {
        let plain = Facts::default();
        let long = "word ".repeat(50);
        let (named, classified) = (Some(ToolFit::Named), Some(ToolFit::Classified));
        let cases = [
            (Facts { message: "What is the capital of France?", ..plain }, AnswerMode::Direct, Why::Simple),
            (Facts { message: "Who wrote Faust?", messages_before: 3, ..plain }, AnswerMode::Direct, Why::Simple),
            (Facts { message: "What is a profile?", ..plain }, AnswerMode::Direct, Why::Simple),
            (Facts { message: "Explain it step by step.", ..plain }, AnswerMode::Agentic, Why::AskedForReasoning),
            (Facts { message: "What costs the most? Think it through.", ..plain }, AnswerMode::Agentic, Why::AskedForReasoning),
            (Facts { message: &long, ..plain }, AnswerMode::Agentic, Why::Long),
            (Facts { message: "Create a file with the names", ..plain }, AnswerMode::Agentic, Why::MayAct),
            (Facts { message: "What is said at https://example.org?", ..plain }, AnswerMode::Agentic, Why::NeedsTool),
            (Facts { message: "And in 2020?", messages_before: 4, ..plain }, AnswerMode::Agentic, Why::History),
            (Facts { message: "Who is she?", has_failed_before: true, ..plain }, AnswerMode::Agentic, Why::PreviousFailure),
            (Facts { message: "Who is she?", has_documents: true, ..plain }, AnswerMode::Agentic, Why::Documents),
            (Facts { message: "Who is she?", preference: Some(AnswerMode::Agentic), ..plain }, AnswerMode::Agentic, Why::Preference),
            (Facts { message: "Who is she?", requested: Some(AnswerMode::Agentic), ..plain }, AnswerMode::Agentic, Why::Requested),
            // Keywords alone do not decide; the tools do.
            (Facts { message: "What is a file system?", ..plain }, AnswerMode::Direct, Why::Simple),
            (Facts { message: "What is a plan?", ..plain }, AnswerMode::Direct, Why::Simple),
            (Facts { message: "What is a direct current?", ..plain }, AnswerMode::Direct, Why::Simple),
            (Facts { message: "What is in the file?", tool_fit: named, ..plain }, AnswerMode::Agentic, Why::NamesTool),
            (Facts { message: "Who leads the league?", tool_fit: classified, ..plain }, AnswerMode::Agentic, Why::Classified),
            (
                Facts { message: "Who leads the league?", tool_fit: classified, preference: Some(AnswerMode::Direct), ..plain },
                AnswerMode::Direct,
                Why::Preference,
            ),
            (Facts { message: "Hello there!", tool_fit: classified, ..plain }, AnswerMode::Direct, Why::Simple),
            // Contradicting words win over everything but the caller's choice.
            (
                Facts { message: "Quick: what are the steps?", messages_before: 9, has_failed_before: true, ..plain },
                AnswerMode::Direct,
                Why::AskedForQuick,
            ),
            (Facts { message: "Briefly, who was she?", tool_fit: classified, ..plain }, AnswerMode::Direct, Why::AskedForQuick),
            (Facts { message: "Briefly, what is in the file?", tool_fit: named, ..plain }, AnswerMode::Agentic, Why::NamesTool),
            (Facts { message: "Quickly, who is she?", has_documents: true, ..plain }, AnswerMode::Agentic, Why::Documents),
            (Facts { message: "A direct answer, please.", preference: Some(AnswerMode::Agentic), ..plain }, AnswerMode::Direct, Why::AskedForQuick),
            (Facts { message: "Quick answer", requested: Some(AnswerMode::Agentic), ..plain }, AnswerMode::Agentic, Why::Requested),
            (Facts { message: "", ..plain }, AnswerMode::Direct, Why::Simple),
        ];
        for (facts, way, why) in cases {
            assert_eq!(decide(&facts), (way, why), "{facts:?}");
        }
    }

    #[test]
    fn r13_what_may_be_a_request_to_act_is_planned_and_depth_is_heeded() {
        let plain = Facts::default();
        let cases = [
            (Facts { message: "Tell Bob that lunch is at one", ..plain }, AnswerMode::Agentic, Why::MayAct),
            (Facts { message: "Could you tell Bob?", ..plain }, AnswerMode::Agentic, Why::MayAct),
            (Facts { message: "Benachrichtige Bob", ..plain }, AnswerMode::Agentic, Why::MayAct),
            (Facts { message: "Tell Bob", preference: Some(AnswerMode::Direct), ..plain }, AnswerMode::Agentic, Why::MayAct),
            (Facts { message: "(3 + 4) * 12", ..plain }, AnswerMode::Agentic, Why::NeedsTool),
            (Facts { message: "Hello there!", ..plain }, AnswerMode::Direct, Why::Simple),
            (Facts { message: "Wer schrieb Faust?", ..plain }, AnswerMode::Direct, Why::Simple),
            (Facts { message: "Who wrote Faust?", depth: Depth::Deep, ..plain }, AnswerMode::Agentic, Why::AskedForDepth),
            (Facts { message: "Who wrote Faust?", depth: Depth::Quick, ..plain }, AnswerMode::Direct, Why::AskedForQuick),
            (Facts { message: "Tell Bob", depth: Depth::Quick, tool_fit: Some(ToolFit::Classified), ..plain }, AnswerMode::Agentic, Why::Classified),
            (
                Facts { message: "Which files are there?", depth: Depth::Quick, tool_fit: Some(ToolFit::Named), ..plain },
                AnswerMode::Agentic,
                Why::NamesTool,
            ),
        ];
        for (facts, way, why) in cases {
            assert_eq!(decide(&facts), (way, why), "{facts:?}");
        }
    }

    #[test]
    fn r3_how_complex_a_request_looks() {
        let long = "word ".repeat(50);
        let cases = [
            ("Find the year the bridge was built.", Why::MayAct, Complexity::Simple),
            ("Who is he? Where is he?", Why::History, Complexity::Moderate),
            ("Do this:\n- read a\n- read b", Why::MayAct, Complexity::Moderate),
            (long.as_str(), Why::Long, Complexity::Moderate),
            ("Think.", Why::AskedForReasoning, Complexity::Complex),
            ("Again.", Why::PreviousFailure, Complexity::Complex),
        ];
        for (message, why, expected) in cases {
            assert_eq!(complexity(message, why), expected, "{message}");
        }
    }
}

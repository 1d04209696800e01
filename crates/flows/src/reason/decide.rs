//! Direct or agentic: rules that need no model, so that a direct answer begins at once. The first that fits decides.
//!
//! A direct answer cannot act. So only what is plainly a question, a greeting or explicitly wanted quickly goes directly; whatever may be a request to do
//! something is planned, and a plan without steps is answered directly then.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::certain::is_arithmetic;
use super::limits::Depth;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    Direct,
    Agentic,
}

/// Why it went that way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The caller said so.
    Told,
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
    Long,
    ToolWords,
    History,
    /// It is not plainly a question, so something may have to be done.
    MayAct,
    /// It names a tool or a server that there is.
    NamesTool,
    /// What this user likes, where nothing else decides.
    Preference,
    Simple,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Complexity {
    Simple,
    Moderate,
    Complex,
}

/// All that the rules look at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'f> {
    pub message: &'f str,
    pub messages_before: usize,
    pub has_failed_before: bool,
    pub has_documents: bool,
    pub told: Option<Way>,
    pub preference: Option<Way>,
    pub depth: Depth,
}

/// A longer message is more than one wish.
const LONG_CHARS_MIN: usize = 200;
/// More messages than this are a conversation in which things depend on one another.
const MESSAGES_MAX: usize = 3;

const REASONING: [&str; 16] = [
    "plan",
    "plans",
    "planning",
    "step",
    "steps",
    "reason",
    "reasons",
    "reasoning",
    "think",
    "thinking",
    "break down",
    "analyze",
    "analyse",
    "investigate",
    "research",
    "thoroughly",
];
const QUICK: [&str; 12] =
    ["quick", "quickly", "direct", "directly", "brief", "briefly", "in short", "short answer", "one word", "one sentence", "just tell me", "tldr"];
/// A hint that tools are wanted, as the documents have it; nothing is chosen by it.
const TOOLS: [&str; 40] = [
    "file",
    "files",
    "folder",
    "code",
    "python",
    "write",
    "create",
    "make",
    "save",
    "modify",
    "change",
    "delete",
    "remove",
    "execute",
    "run",
    "search",
    "find",
    "look up",
    "fetch",
    "download",
    "calculate",
    "compute",
    "document",
    "documents",
    "docs",
    "website",
    "url",
    "latest",
    "current",
    "today",
    "news",
    "read",
    "send",
    "mail",
    "email",
    "ticket",
    "tickets",
    "table",
    "database",
    "query",
];
/// A question in form that asks for something to be done.
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
/// More words than this are no greeting.
const GREETING_WORDS_MAX: usize = 4;
const SEVERAL: [&str; 10] = ["and then", "then", "after that", "compare", "difference", "differences", "versus", "vs", "both", "each"];

pub fn decide(facts: &Facts<'_>) -> (Way, Why) {
    let words = words(facts.message);
    let wants_tools = has(&words, &TOOLS) || facts.message.contains("://") || is_arithmetic(facts.message);
    if let Some(way) = facts.told {
        return (way, Why::Told);
    }
    if facts.depth == Depth::Deep {
        return (Way::Agentic, Why::AskedForDepth);
    }
    if has(&words, &QUICK) || facts.depth == Depth::Quick {
        return match (wants_tools, facts.has_documents) {
            (true, _) => (Way::Agentic, Why::ToolWords),
            (false, true) => (Way::Agentic, Why::Documents),
            (false, false) => (Way::Direct, Why::AskedForQuick),
        };
    }
    if facts.has_failed_before {
        return (Way::Agentic, Why::PreviousFailure);
    }
    if has(&words, &REASONING) {
        return (Way::Agentic, Why::AskedForReasoning);
    }
    if facts.has_documents {
        return (Way::Agentic, Why::Documents);
    }
    if facts.message.chars().count() > LONG_CHARS_MIN {
        return (Way::Agentic, Why::Long);
    }
    if wants_tools {
        return (Way::Agentic, Why::ToolWords);
    }
    if facts.messages_before > MESSAGES_MAX {
        return (Way::Agentic, Why::History);
    }
    if may_act(facts.message) {
        return (Way::Agentic, Why::MayAct);
    }
    match facts.preference {
        Some(way) => (way, Why::Preference),
        None => (Way::Direct, Why::Simple),
    }
}

/// Not plainly a question and not a greeting.
pub(super) fn may_act(message: &str) -> bool {
    let words = &words(message);
    let is_question = message.trim_end().ends_with(['?', '？', '؟']) && !has(words, &POLITE);
    let count = words.split_whitespace().count();
    let is_greeting = count <= GREETING_WORDS_MAX && GREETINGS.iter().any(|greeting| words.starts_with(&format!(" {greeting} ")));
    count > 0 && !is_question && !is_greeting
}

/// How much there is to it, as far as words show: a guess that a plan replaces.
pub fn complexity(message: &str, why: Why) -> Complexity {
    let words = words(message);
    let questions = message.matches('?').count();
    let is_several = has(&words, &SEVERAL) || questions > 1 || message.lines().filter(|line| !line.trim().is_empty()).count() > 2;
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

/// Whole words only: a "profile" is no "file".
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
        let cases = [
            (Facts { message: "What is the capital of France?", ..plain }, Way::Direct, Why::Simple),
            (Facts { message: "Who wrote Faust?", messages_before: 3, ..plain }, Way::Direct, Why::Simple),
            (Facts { message: "What is a profile?", ..plain }, Way::Direct, Why::Simple),
            (Facts { message: "Explain it step by step.", ..plain }, Way::Agentic, Why::AskedForReasoning),
            (Facts { message: "Break down the costs.", ..plain }, Way::Agentic, Why::AskedForReasoning),
            (Facts { message: "Plan a trip", ..plain }, Way::Agentic, Why::AskedForReasoning),
            (Facts { message: "THINK about it", ..plain }, Way::Agentic, Why::AskedForReasoning),
            (Facts { message: &long, ..plain }, Way::Agentic, Why::Long),
            (Facts { message: "Create a file with the names", ..plain }, Way::Agentic, Why::ToolWords),
            (Facts { message: "Find the code.", ..plain }, Way::Agentic, Why::ToolWords),
            (Facts { message: "Sum up https://example.org", ..plain }, Way::Agentic, Why::ToolWords),
            (Facts { message: "And in 2020?", messages_before: 4, ..plain }, Way::Agentic, Why::History),
            (Facts { message: "Who is she?", has_failed_before: true, ..plain }, Way::Agentic, Why::PreviousFailure),
            (Facts { message: "Who is she?", has_documents: true, ..plain }, Way::Agentic, Why::Documents),
            (Facts { message: "Who is she?", preference: Some(Way::Agentic), ..plain }, Way::Agentic, Why::Preference),
            (Facts { message: "Who is she?", told: Some(Way::Agentic), ..plain }, Way::Agentic, Why::Told),
            // The opposite words win over all but the caller's own.
            (Facts { message: "Quick: what are the steps?", messages_before: 9, has_failed_before: true, ..plain }, Way::Direct, Why::AskedForQuick),
            (Facts { message: "Briefly, who was she?", ..plain }, Way::Direct, Why::AskedForQuick),
            (Facts { message: "Briefly, what is in the file?", ..plain }, Way::Agentic, Why::ToolWords),
            (Facts { message: "Quickly, who is she?", has_documents: true, ..plain }, Way::Agentic, Why::Documents),
            (Facts { message: "A direct answer, please.", preference: Some(Way::Agentic), ..plain }, Way::Direct, Why::AskedForQuick),
            (Facts { message: "Quick answer", told: Some(Way::Agentic), ..plain }, Way::Agentic, Why::Told),
            (Facts { message: "", ..plain }, Way::Direct, Why::Simple),
        ];
        for (facts, way, why) in cases {
            assert_eq!(decide(&facts), (way, why), "{facts:?}");
        }
    }

    #[test]
    fn r13_what_may_be_a_request_to_act_is_planned_and_depth_is_heeded() {
        let plain = Facts::default();
        let cases = [
            (Facts { message: "Tell Bob that lunch is at one", ..plain }, Way::Agentic, Why::MayAct),
            (Facts { message: "Could you tell Bob?", ..plain }, Way::Agentic, Why::MayAct),
            (Facts { message: "Benachrichtige Bob", ..plain }, Way::Agentic, Why::MayAct),
            (Facts { message: "Tell Bob", preference: Some(Way::Direct), ..plain }, Way::Agentic, Why::MayAct),
            (Facts { message: "(3 + 4) * 12", ..plain }, Way::Agentic, Why::ToolWords),
            (Facts { message: "Hello there!", ..plain }, Way::Direct, Why::Simple),
            (Facts { message: "Wer schrieb Faust?", ..plain }, Way::Direct, Why::Simple),
            (Facts { message: "Who wrote Faust?", depth: Depth::Deep, ..plain }, Way::Agentic, Why::AskedForDepth),
            (Facts { message: "Think: who wrote Faust?", depth: Depth::Quick, ..plain }, Way::Direct, Why::AskedForQuick),
            (Facts { message: "Create a file", depth: Depth::Quick, ..plain }, Way::Agentic, Why::ToolWords),
        ];
        for (facts, way, why) in cases {
            assert_eq!(decide(&facts), (way, why), "{facts:?}");
        }
    }

    #[test]
    fn r3_how_complex_a_request_looks() {
        let long = "word ".repeat(50);
        let cases = [
            ("Find the year the bridge was built.", Why::ToolWords, Complexity::Simple),
            ("Compare the two bridges.", Why::ToolWords, Complexity::Moderate),
            ("Who is he? Where is he?", Why::History, Complexity::Moderate),
            (long.as_str(), Why::Long, Complexity::Moderate),
            ("Think.", Why::AskedForReasoning, Complexity::Complex),
            ("Again.", Why::PreviousFailure, Complexity::Complex),
        ];
        for (message, why, expected) in cases {
            assert_eq!(complexity(message, why), expected, "{message}");
        }
    }
}

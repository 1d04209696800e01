//! Intents by keywords, for when no model classifies them.

use super::Intent;

/// Phrases are matched as whole words. Questions about the conversation are tested first: "sum up what we discussed" is about answers,
/// "what did we discuss" about the conversation.
pub fn intent_by_words(question: &str) -> Intent {
    const SUMMARIZE: [&str; 9] = ["summarize", "summarise", "summary", "sum up", "tldr", "tl dr", "recap", "in short please", "condense"];
    const CONVERSATION: [&str; 16] = [
        "did we discuss",
        "did we talk",
        "have we discussed",
        "have we talked",
        "did i ask",
        "did i say",
        "did you say",
        "did you answer",
        "did you tell",
        "my last question",
        "my first question",
        "my previous question",
        "your last answer",
        "our conversation",
        "this conversation",
        "earlier question",
    ];
    let words = question.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect::<Vec<_>>().join(" ");
    let words = format!(" {words} ");
    let has = |list: &[&str]| list.iter().any(|phrase| words.contains(&format!(" {phrase} ")));
    match (has(&SUMMARIZE), has(&CONVERSATION)) {
        (true, _) => Intent::Summarize,
        (false, true) => Intent::ConversationQuery,
        (false, false) => Intent::Search,
    }
}

/// The intent named in a reply that is not JSON, if it names exactly one.
pub(super) fn intent_named(reply: &str) -> Option<Intent> {
    const NAMES: [(&str, Intent); 3] =
        [("search", Intent::Search), ("summarize", Intent::Summarize), ("conversation_query", Intent::ConversationQuery)];
    let mut named = NAMES.into_iter().filter(|(name, _)| reply.to_lowercase().contains(name)).map(|(_, intent)| intent);
    named.next().filter(|_| named.next().is_none())
}

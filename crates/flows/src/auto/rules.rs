//! Which flow a message asks for, as far as words say. `None` where they do not.
//!
//! In order: what the user says outright; a greeting; a job with a mail or a document; the conversation itself; comparing; words that call for tools;
//! a question that goes on from the last; documents that were named; length. A flow that is not there gives way to the next best.

use serde::{Deserialize, Serialize};

use crate::follow_up;
use crate::input::Mind;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub flow: String,
    /// For people.
    pub why: String,
}

/// Phrases by which a user says how it should be done. The earliest in a message counts.
const OUTRIGHT: &[(&str, &[&str])] = &[
    (
        "direct",
        &[
            "quick answer",
            "quick question",
            "quickly",
            "be quick",
            "make it quick",
            "briefly",
            "in short",
            "in one sentence",
            "in a sentence",
            "direct answer",
            "answer directly",
            "just tell me",
            "just answer",
            "tl dr",
            "tldr",
            "short answer",
            "off the top of your head",
        ],
    ),
    (
        "reason",
        &[
            "step by step",
            "think carefully",
            "think hard",
            "think it through",
            "think through",
            "reason through",
            "reason about",
            "work through",
            "work it out",
            "break down",
            "break it down",
            "in detail and in order",
            "make a plan",
            "plan how",
        ],
    ),
    (
        "panel",
        &[
            "critically review",
            "have critics",
            "let critics",
            "double check",
            "cross examine",
            "peer review",
            "scrutinize",
            "scrutinise",
            "second opinion",
        ],
    ),
    ("search", &["search for", "look up", "look it up", "look for sources", "with sources", "with citations", "cite sources", "cite your sources"]),
];

const GREETINGS: &[&str] = &[
    "hi",
    "hello",
    "hey",
    "good morning",
    "good evening",
    "good afternoon",
    "thanks",
    "thank you",
    "thanks a lot",
    "bye",
    "goodbye",
    "ok",
    "okay",
    "cool",
    "great",
    "how are you",
    "who are you",
    "what can you do",
];

const JOBS: &[&str] = &[
    "send an email",
    "send an e mail",
    "send a mail",
    "send it to",
    "send this to",
    "mail it to",
    "email it to",
    "e mail it to",
    "mail this to",
    "email this to",
    "send mail",
    "write a report",
    "write a document",
    "create a document",
    "create a report",
    "create a pdf",
    "as a pdf",
    "as pdf",
    "as a docx",
    "as a word document",
    "write an email",
    "draft an email",
    "draft a mail",
    "draft a report",
    "prepare a report",
    "prepare a document",
];

const CONVERSATION: &[&str] = &[
    "summarize the last",
    "summarise the last",
    "summarize our",
    "summarise our",
    "summarize this conversation",
    "summarise this conversation",
    "summarize what you",
    "summarise what you",
    "what did i ask",
    "what did i say",
    "what did you say",
    "what did we",
    "you said",
    "earlier you",
    "as you said",
    "your last answer",
    "your previous answer",
    "the previous answer",
    "this conversation",
    "so far",
];

const COMPARING: &[&str] = &[
    "compare",
    "comparison",
    "versus",
    "vs",
    "trade offs",
    "tradeoffs",
    "pros and cons",
    "advantages and disadvantages",
    "difference between",
    "differences between",
];

const TOOLS: &[&str] = &[
    "search",
    "find",
    "latest",
    "current",
    "currently",
    "today",
    "news",
    "recent",
    "recently",
    "documents",
    "document",
    "documentation",
    "the docs",
    "in the file",
    "files",
    "stories",
    "how many",
    "list all",
    "sources",
    "web",
    "website",
    "url",
    "page",
    "calculate",
    "compute",
];

/// Asking to go on, beside the questions that lean on others ([`follow_up::leans`]).
const FOLLOWING: &[&str] = &["why", "how so", "really", "more", "go on", "continue", "explain", "for example"];

/// Longer messages have more than one thing in them.
const LONG_WORDS_MIN: usize = 60;
const SHORT_WORDS_MAX: usize = 6;
const PLAIN_WORDS_MAX: usize = 25;

pub fn choose(question: &str, has_history: bool, has_docs: bool, mind: &Mind, known: &[&str]) -> Option<Choice> {
    let text = spaced(question);
    let words = text.split_whitespace().count();
    let pick = |wanted: &[&str], why: String| {
        let flow = wanted.iter().find(|flow| known.contains(*flow))?;
        let why = if *flow == wanted[0] { why } else { format!("{why}, and {} is not there", wanted[0]) };
        Some(Choice { flow: (*flow).to_owned(), why })
    };

    if let Some((flow, phrase)) = outright(question, &text, known) {
        return pick(better(&flow), format!("you said {phrase:?}")).or(Some(Choice { flow, why: format!("you said {phrase:?}") }));
    }
    if words <= 5
        && GREETINGS
            .iter()
            .any(|greeting| text.trim() == *greeting || text.starts_with(&format!(" {greeting} ")) && words <= greeting.split(' ').count() + 1)
    {
        return pick(&["direct", "chat"], "it is a greeting".to_owned());
    }
    if let Some(phrase) = first(&text, JOBS).map(|(_, phrase)| phrase)
        && known.contains(&"supervise")
    {
        return pick(&["supervise"], format!("it is a job to carry out ({phrase:?})"));
    }
    if has_history && let Some((_, phrase)) = first(&text, CONVERSATION) {
        return pick(&["chat", "direct"], format!("it is about this conversation ({phrase:?})"));
    }
    if let Some((_, phrase)) = first(&text, COMPARING) {
        return pick(&["reason", "search"], format!("it compares things ({phrase:?})"));
    }
    if words >= LONG_WORDS_MIN || question.matches(['?', '？']).count() >= 3 {
        return pick(&["reason", "search"], "it is long or asks several things".to_owned());
    }
    // Where there are documents to look into, the flows that do so know what it leans on.
    let goes_on = || follow_up::leans(question) || FOLLOWING.iter().any(|start| text.starts_with(&format!(" {start} ")));
    if has_history && !has_docs && words <= SHORT_WORDS_MAX && goes_on() {
        return pick(&["chat", "direct"], "it goes on from the last message".to_owned());
    }
    // One look into the documents is enough for one plain question, and a small model is slow.
    if has_docs && words <= PLAIN_WORDS_MAX && mind.is_small {
        return pick(&["direct"], "it is one question about the documents".to_owned());
    }
    if let Some((_, phrase)) = first(&text, TOOLS) {
        return pick(&["search", "reason"], format!("it needs looking up ({phrase:?})"));
    }
    if has_docs {
        return pick(&["search", "direct"], "there are documents to look into".to_owned());
    }
    None
}

/// What a user asked for is theirs; where it is not there, what comes nearest.
fn better(flow: &str) -> &'static [&'static str] {
    match flow {
        "direct" => &["direct", "chat"],
        "reason" => &["reason", "search", "direct"],
        "panel" => &["panel", "reason", "search", "direct"],
        "search" => &["search", "reason", "direct"],
        _ => &[],
    }
}

fn outright(question: &str, text: &str, known: &[&str]) -> Option<(String, String)> {
    // "use panel", "with the reason flow", "flow: search".
    let named = known.iter().filter_map(|flow| {
        let phrases = [format!("use {flow}"), format!("use the {flow}"), format!("the {flow} flow"), format!("flow {flow}")];
        phrases.into_iter().find_map(|phrase| Some((place(text, &phrase)?, (*flow).to_owned(), phrase)))
    });
    let said = OUTRIGHT.iter().filter_map(|(flow, phrases)| first(text, phrases).map(|(at, phrase)| (at, (*flow).to_owned(), phrase.to_owned())));
    // "Quick: …" and "…, quick!" speak to us; a quick sort does not.
    let trimmed = question.trim().to_lowercase();
    let is_called = ["quick:", "quick,", "quick!", "quick -", "quick –"].iter().any(|start| trimmed.starts_with(start))
        || [", quick", ", quick!", ", quick.", ", quick please", "(quick)"].iter().any(|end| trimmed.ends_with(end));
    let quick = is_called.then(|| (0, "direct".to_owned(), "quick".to_owned()));
    named.chain(said).chain(quick).min_by_key(|(at, _, _)| *at).map(|(_, flow, phrase)| (flow, phrase))
}

/// The earliest of the phrases, and where.
fn first<'p>(text: &str, phrases: &[&'p str]) -> Option<(usize, &'p str)> {
    phrases.iter().filter_map(|phrase| Some((place(text, phrase)?, *phrase))).min_by_key(|(at, _)| *at)
}

fn place(text: &str, phrase: &str) -> Option<usize> {
    text.find(&format!(" {phrase} "))
}

/// Lower case, words apart by one space, a space at both ends, no marks.
fn spaced(question: &str) -> String {
    const CHARS_MAX: usize = 4_000;
    let plain: String = question.chars().take(CHARS_MAX).flat_map(char::to_lowercase).map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
    format!(" {} ", plain.split_whitespace().collect::<Vec<_>>().join(" "))
}

//! Explicit choices in a message: a flow that is named, "quick answer", "step by step", or a bare greeting. `None` for everything else,
//! which the classifier and the model decide.

use super::classify::FLOWS;
use super::{Choice, DecidedBy};
use crate::registry::Registry;

/// Phrases by which a user requests a kind of answer. The earliest in a message counts.
const EXPLICIT: [(&str, &[&str]); 2] = [
    (
        "direct",
        &[
            "quick answer",
            "quick question",
            "be quick",
            "make it quick",
            "answer directly",
            "direct answer",
            "off the top of your head",
            "schnelle antwort",
            "kurze frage",
            "réponse rapide",
            "question rapide",
            "respuesta rápida",
            "pregunta rápida",
            "快速回答",
        ],
    ),
    (
        "reason",
        &[
            "step by step",
            "think carefully",
            "think hard",
            "think it through",
            "schritt für schritt",
            "étape par étape",
            "paso a paso",
            "一步一步",
            "逐步",
        ],
    ),
];

const GREETINGS: [&str; 30] = [
    "hi",
    "hello",
    "hey",
    "good morning",
    "good afternoon",
    "good evening",
    "thanks",
    "thank you",
    "thanks a lot",
    "bye",
    "goodbye",
    "ok",
    "okay",
    "how are you",
    "hallo",
    "guten morgen",
    "guten tag",
    "guten abend",
    "danke",
    "bonjour",
    "bonsoir",
    "salut",
    "merci",
    "hola",
    "buenos días",
    "buenas tardes",
    "gracias",
    "你好",
    "谢谢",
    "ciao",
];
/// A greeting followed by more words is about something else.
const GREETING_WORDS_MORE_MAX: usize = 1;

/// `known`: the registered flows.
pub fn choose(question: &str, known: &[&str], registry: &Registry) -> Option<Choice> {
    let text = normalized(question);
    if let Some((flow, phrase)) = requested(&text, registry) {
        return Some(Choice { flow: flow.to_owned(), why: format!("you said {phrase:?}"), by: DecidedBy::Rule });
    }
    let (flow, why) = named(&text, question, known)
        .map(|(flow, phrase)| (flow, format!("you said {phrase:?}")))
        .or_else(|| explicit(question, &text).map(|(flow, phrase)| (flow.to_owned(), format!("you said {phrase:?}"))))
        .or_else(|| is_greeting(&text).then(|| ("direct".to_owned(), "it is a greeting".to_owned())))?;
    if known.contains(&flow.as_str()) {
        return Some(Choice { flow, why, by: DecidedBy::Rule });
    }
    let nearest = super::substitutes(registry, &flow).iter().find(|flow| known.contains(*flow))?;
    Some(Choice { flow: (*nearest).to_owned(), why: format!("{why}, and {flow} is not available"), by: DecidedBy::Rule })
}

/// "Use panel: …", "…, use the panel flow", "panel: …". A sentence that only has "use search" in its middle is not about a flow.
fn named(text: &str, question: &str, known: &[&str]) -> Option<(String, String)> {
    known.iter().chain(FLOWS.iter().filter(|flow| !known.contains(*flow))).find_map(|flow| {
        let anywhere = [format!("the {flow} flow"), format!("flow {flow}"), format!("use {flow} flow")];
        let at_start = [format!(" use {flow} "), format!(" use the {flow} "), format!(" please use {flow} ")];
        let at_end = [format!(" use {flow} "), format!(" with {flow} ")];
        let phrase = anywhere
            .into_iter()
            .find(|phrase| text.contains(&format!(" {phrase} ")))
            .or_else(|| at_start.into_iter().find(|phrase| text.starts_with(phrase)))
            .or_else(|| at_end.into_iter().find(|phrase| question.trim_end().ends_with(flow) && text.ends_with(phrase)))
            .or_else(|| question.trim_start().to_lowercase().starts_with(&format!("{flow}:")).then(|| format!("{flow}:")))?;
        Some(((*flow).to_owned(), phrase.trim().to_owned()))
    })
}

/// Words after which a report is a file to make or a mail to send, which is a job for the team.
const DELIVERIES: [&str; 12] =
    ["mail", "email", "mails", "send", "pdf", "docx", "word document", "markdown file", "per mail", "schicke", "sende", "envoie"];

/// A flow that is only chosen for its own phrases: "Write a report on …" at the beginning of the request.
fn requested(text: &str, registry: &Registry) -> Option<(&'static str, &'static str)> {
    let start = text.trim_start();
    let start = ["please ", "bitte ", "can you ", "could you "].iter().find_map(|polite| start.strip_prefix(polite)).unwrap_or(start);
    let phrases = registry.explicit().flat_map(|flow| flow.phrases.iter().map(move |phrase| (flow.name, *phrase)));
    let found = phrases.filter(|(_, phrase)| start.starts_with(phrase)).max_by_key(|(_, phrase)| phrase.len())?;
    DELIVERIES.iter().all(|word| position(text, word).is_none()).then_some(found)
}

fn explicit(question: &str, text: &str) -> Option<(&'static str, String)> {
    let phrases = EXPLICIT.iter().flat_map(|(flow, phrases)| phrases.iter().map(move |phrase| (*flow, *phrase)));
    let named = phrases.filter_map(|(flow, phrase)| Some((position(text, phrase)?, flow, phrase)));
    // "Quick: …" and "…, quick!" are instructions; "a quick sort" is not.
    let trimmed = question.trim().to_lowercase();
    let is_quick = ["quick:", "quick,", "quick!", "quick -", "quick –"].iter().any(|start| trimmed.starts_with(start))
        || [", quick", ", quick!", ", quick.", ", quick please", "(quick)"].iter().any(|end| trimmed.ends_with(end));
    let quick = is_quick.then_some((0, "direct", "quick"));
    named.chain(quick).min_by_key(|(at, _, _)| *at).map(|(_, flow, phrase)| (flow, phrase.to_owned()))
}

/// Scripts without spaces have no word boundaries to look at.
fn position(text: &str, phrase: &str) -> Option<usize> {
    if phrase.is_ascii() || phrase.contains(' ') { text.find(&format!(" {phrase} ")) } else { text.find(phrase) }
}

fn is_greeting(text: &str) -> bool {
    let words = text.split_whitespace().count();
    GREETINGS.iter().any(|greeting| text.starts_with(&format!(" {greeting} ")) && words <= greeting.split(' ').count() + GREETING_WORDS_MORE_MAX)
}

/// Lower case, one space between words and at both ends, no punctuation.
fn normalized(question: &str) -> String {
    const CHARS_MAX: usize = 4_000;
    let plain: String = question.chars().take(CHARS_MAX).flat_map(char::to_lowercase).map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
    format!(" {} ", plain.split_whitespace().collect::<Vec<_>>().join(" "))
}

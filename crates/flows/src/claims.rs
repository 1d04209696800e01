//! How a small model answers from evidence: the decisive sentences, each with the number of its passage, and then a short answer.
//!
//! ```text
//! PROMPT, schema(profile, passages)                 the request; none for a large model, or if nothing was found
//! read_reply(replies, is_asked) -> DraftAnswer           the reply: facts, or else plain text
//!
//!   {"facts": [{"sentence": "He was born in Bath, Maine.", "source": 2}], "short_answer": "Bath, Maine"}
//!   ─► **Bath, Maine** [2].
//!      He was born in Bath, Maine [2].
//!
//!   {"facts": [], "short_answer": ""}   from a model trained to abstain   ─►   NOT_ANSWERED
//! ```
//!
//! If the verifier finds support for none of the facts, or the answer check finds that the passages do not answer the question with the short answer, the answer
//! begins with NOT_SUPPORTED and has no short form: a small model answers from what it is shown, whether that has the answer or not.
//!
//! Without this form, a small model repeats the question with one word changed, copies whole passages, and cites nothing. So it lists what it read before it
//! answers, and code writes the citations. The short answer cites the sources of all its facts: a name or a number that is in none of them is detected.

use evidence::Span;
use graph::{Failure, FailureKind, Replies};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::input::ModelProfile;
use crate::prompt;

pub(crate) const PROMPT: &str = include_str!("claims.md");

/// Instruction for models that can abstain.
const ABSTAIN: &str = r#"If the evidence does not answer the question, reply {"facts": [], "short_answer": ""}."#;

/// The answer if the model abstained.
pub const NOT_ANSWERED: &str = "The passages do not answer this question.";

/// Precedes an answer of whose facts the passages support none, and one whose short form is not what the passages state.
pub const NOT_SUPPORTED: &str = "The passages that were found do not support an answer to this question. What the model wrote about it:";

/// The instructions with the abstention instruction, for a model that can abstain and is asked for facts.
pub(crate) fn with_abstention(instructions: &str, profile: &ModelProfile, passages: usize) -> String {
    let instructions = instructions.trim();
    if profile.can_abstain && is_asked(profile, passages) { format!("{instructions}\n{ABSTAIN}") } else { instructions.to_owned() }
}

/// A model's answer as Markdown, with `[n]` for the n-th passage shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DraftAnswer {
    pub(crate) markdown: String,
    /// The short form of the answer, if the model was asked for one and gave it.
    pub(crate) short: Option<String>,
}

impl DraftAnswer {
    /// Without sentences that are nothing but the heading of a passage that was shown: a small model copies one at times.
    pub(crate) fn without_headings(mut self, shown: &[Span]) -> DraftAnswer {
        let markdown = shown.iter().fold(self.markdown.clone(), |text, span| {
            let heading = evidence::source_line(span);
            (1..=shown.len() as u64).fold(text, |text, source| without_sentence(text, &cited(&heading, &[source])))
        });
        if !markdown.trim().is_empty() {
            self.markdown = markdown;
        }
        self
    }
}

fn without_sentence(text: String, sentence: &str) -> String {
    let is_whole = |at: usize| {
        let (before, after) = (&text[..at], &text[at + sentence.len()..]);
        (before.is_empty() || before.ends_with('\n') || before.ends_with(". ")) && (after.is_empty() || after.starts_with([' ', '\n']))
    };
    match text.match_indices(sentence).map(|(at, _)| at).find(|at| is_whole(*at)) {
        Some(at) => format!("{}{}", &text[..at], text[at + sentence.len()..].trim_start_matches(' ')).trim_end().to_owned(),
        None => text,
    }
}

/// Longer sentences are cut; the rest is repetition.
const SENTENCE_CHARS_MAX: usize = 320;
const FACTS_MAX: usize = 4;
const SHORT_CHARS_MAX: usize = 64;
/// A short answer of more words that begins one of the facts is that fact again.
const SHORT_WORDS_REPEATED_MAX: usize = 6;

/// Whether a model of this kind is asked for facts.
pub(crate) fn is_asked(profile: &ModelProfile, passages: usize) -> bool {
    profile.is_small && passages > 0
}

/// In the order of generation: a model that writes the answer first picks facts to match it.
pub(crate) fn properties(profile: &ModelProfile, passages: usize) -> Value {
    let fact = json!({
        "type": "object",
        "required": ["sentence", "source"],
        "additionalProperties": false,
        "properties": {
            "sentence": { "type": "string", "maxLength": SENTENCE_CHARS_MAX },
            "source": { "type": "integer", "minimum": 1, "maximum": passages },
        },
    });
    json!({
        "facts": { "type": "array", "items": fact, "minItems": usize::from(!profile.can_abstain), "maxItems": FACTS_MAX },
        "short_answer": { "type": "string", "maxLength": SHORT_CHARS_MAX },
    })
}

pub(crate) const REQUIRED: [&str; 2] = ["facts", "short_answer"];

pub(crate) fn schema(profile: &ModelProfile, passages: usize) -> Option<Value> {
    let schema = || json!({ "type": "object", "required": REQUIRED, "properties": properties(profile, passages), "additionalProperties": false });
    is_asked(profile, passages).then(schema)
}

/// The content of the first reply. A reply that should be `facts` and is not still counts as an answer if it is readable text.
pub(crate) fn read_reply(replies: &Replies<'_>, is_asked: bool) -> Result<DraftAnswer, Failure> {
    let words = |text: Option<String>| text.map(|markdown| DraftAnswer { markdown, short: None });
    let said = match replies.value(0) {
        Ok(value) if is_asked => read(value).or_else(|| words(prompt::prose(value.as_str()?))),
        Ok(value) => words(prompt::text_of(value)),
        // A reply that does not fit its schema is a failure, but the failure contains its text.
        Err(failure) => {
            let said = failure.output.as_deref().filter(|_| is_asked).and_then(|said| read(&json!(said)).or_else(|| words(prompt::prose(said))));
            return said.ok_or(failure);
        }
    };
    said.ok_or_else(|| Failure::new(FailureKind::Invalid, "the model's reply contains no answer"))
}

pub(crate) fn read(value: &Value) -> Option<DraftAnswer> {
    let json = prompt::json_in(value)?;
    if is_abstention(&json) {
        return Some(DraftAnswer { markdown: NOT_ANSWERED.to_owned(), short: None });
    }
    let facts = json.get("facts").or(json.get("claims")).and_then(Value::as_array);
    let mut said: Vec<String> = Vec::new();
    let mut sources: Vec<u64> = Vec::new();
    for (words, source) in facts.into_iter().flatten().filter_map(fact) {
        let sentence = cited(&words, source.as_slice());
        if !said.contains(&sentence) {
            said.push(sentence);
        }
        if let Some(source) = source
            && !sources.contains(&source)
        {
            sources.push(source);
        }
    }
    let is_repeated = |short: &str| {
        said.contains(&cited(short, &sources))
            || short.split(' ').count() > SHORT_WORDS_REPEATED_MAX && said.iter().any(|sentence| sentence.starts_with(short))
    };
    let short = json.get("short_answer").and_then(Value::as_str).and_then(brief).filter(|short| !is_repeated(short));
    let lead = short.as_ref().map(|short| cited(&format!("**{short}**"), &sources));
    let parts: Vec<String> = lead.into_iter().chain((!said.is_empty()).then(|| said.join(" "))).collect();
    (!parts.is_empty()).then(|| DraftAnswer { markdown: parts.join("\n\n"), short })
}

/// Exactly the reply that a model is instructed to give when it abstains.
fn is_abstention(json: &Value) -> bool {
    let has_no_facts = json.get("facts").and_then(Value::as_array).is_some_and(Vec::is_empty);
    has_no_facts && json.get("short_answer").and_then(Value::as_str).is_some_and(|short| short.trim().is_empty())
}

/// A sentence and the number of its passage.
fn fact(fact: &Value) -> Option<(String, Option<u64>)> {
    let words = fact.get("sentence").or(fact.get("claim"))?.as_str()?;
    let words = whole(&uncited(words));
    (!words.is_empty()).then(|| (words, fact.get("source").and_then(Value::as_u64)))
}

/// Removes numbers in brackets that a model wrote by itself: they are not citations if no passages were shown or the source is given
/// separately.
pub(crate) fn uncited(words: &str) -> String {
    let mut words = words.to_owned();
    for citation in evidence::citations(&words).into_iter().rev() {
        words.replace_range(citation.range, "");
    }
    words.trim().to_owned()
}

/// Without the sentence that was cut off by the token limit, and without a question: some models repeat the user's question instead of
/// answering.
fn whole(words: &str) -> String {
    let is_cut = words.chars().count() >= SENTENCE_CHARS_MAX;
    let ends: Vec<usize> = words
        .match_indices(['.', '!', '?'])
        .filter(|(at, _)| matches!(words[at + 1..].chars().next(), None | Some(' ')))
        .map(|(at, _)| at + 1)
        .collect();
    let mut kept = String::new();
    let mut from = 0;
    for end in ends {
        let sentence = words[from..end].trim();
        if !sentence.ends_with('?') {
            kept.push_str(if kept.is_empty() { "" } else { " " });
            kept.push_str(sentence);
        }
        from = end;
    }
    let rest = words[from..].trim();
    if rest.is_empty() || (is_cut && !kept.is_empty()) {
        return kept;
    }
    let rest = if is_cut { rest.rsplit_once(' ').map_or(rest, |(head, _)| head) } else { rest };
    if kept.is_empty() { rest.to_owned() } else { format!("{kept} {rest}") }
}

/// A few words on one line without Markdown; nothing if the limit cut them off.
fn brief(short: &str) -> Option<String> {
    if short.chars().count() >= SHORT_CHARS_MAX {
        return None;
    }
    let short = uncited(short).replace(['*', '_', '`', '\n'], " ");
    let short = short.split_whitespace().collect::<Vec<_>>().join(" ");
    let short = short.trim_end_matches(['.', ' ']);
    (!short.is_empty()).then(|| short.to_owned())
}

/// The citation precedes the punctuation that ends the sentence.
fn cited(words: &str, sources: &[u64]) -> String {
    let (body, end) = match words.strip_suffix(['.', '!']) {
        Some(body) => (body.trim_end(), &words[words.len() - 1..]),
        None => (words, "."),
    };
    let numbers: String = sources.iter().map(|number| format!("[{number}]")).collect();
    let space = if numbers.is_empty() { "" } else { " " };
    format!("{body}{space}{numbers}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_of_a_passage_is_no_fact() {
        let span = |title: &str, text: &str| Span { title: Some(title.to_owned()), text: text.to_owned(), ..Span::default() };
        let shown = [span("Recovery", "The log is replayed."), span("Leases", "A lease ends after 10 s.")];
        let said = |markdown: &str| DraftAnswer { markdown: markdown.to_owned(), short: None }.without_headings(&shown).markdown;
        assert_eq!(said("**10 s** [2].\n\nA lease ends after 10 s [2]. Recovery [2]."), "**10 s** [2].\n\nA lease ends after 10 s [2].");
        assert_eq!(said("Leases [2]. A lease ends after 10 s [2]."), "A lease ends after 10 s [2].");
        assert_eq!(said("It is part of the Recovery [1]."), "It is part of the Recovery [1].", "a sentence that ends with the heading");
        assert_eq!(said("Recovery [1]."), "Recovery [1].", "the only sentence");
    }

    fn read_claim(value: &Value) -> (String, Option<String>) {
        let said = read(value).unwrap_or_default();
        (said.markdown, said.short)
    }

    #[test]
    fn the_short_answer_leads_and_cites_what_its_facts_cite() {
        let facts =
            json!([{ "sentence": "King was the first governor [9].", "source": 2 }, { "sentence": "King was born in Bath, Maine", "source": 1 }]);
        let (markdown, short) = read_claim(&json!({ "facts": facts, "short_answer": "Bath, Maine." }));
        assert_eq!(markdown, "**Bath, Maine** [2][1].\n\nKing was the first governor [2]. King was born in Bath, Maine [1].");
        assert_eq!(short.as_deref(), Some("Bath, Maine"));
        let as_text = json!(format!("Here it is: {}", json!({ "facts": facts, "short_answer": "Bath, Maine." })));
        assert_eq!(read_claim(&as_text).0, markdown);
    }

    #[test]
    fn what_says_nothing_new_or_nothing_at_all_is_left_out() {
        let fact = |sentence: &str| json!([{ "sentence": sentence, "source": 1 }, { "sentence": sentence, "source": 1 }]);
        let cases = [
            (fact("It is so."), "It is so", "It is so [1].", false),
            (fact("It is so."), "", "It is so [1].", false),
            (fact("It is so."), &"very ".repeat(30), "It is so [1].", false),
            (fact("It is so in all of the seven cases."), "It is so in all of the seven", "It is so in all of the seven cases [1].", false),
            (fact("Where is it?"), "Here", "**Here**.", true),
            (fact("Where is it? It is here. Why?"), "**Here**\n[4]", "**Here** [1].\n\nIt is here [1].", true),
            (fact("At 3.5 m it ends."), "3.5 m", "**3.5 m** [1].\n\nAt 3.5 m it ends [1].", true),
        ];
        for (facts, short, expected, leads) in cases {
            let (markdown, kept) = read_claim(&json!({ "facts": facts, "short_answer": short }));
            assert_eq!((markdown.as_str(), kept.is_some()), (expected, leads));
        }
        for nothing in [json!({}), json!({ "facts": [] }), json!({ "facts": [{ "sentence": " " }], "short_answer": " " }), json!("words"), json!(3)] {
            assert_eq!(read(&nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_model_that_can_abstain_is_told_how_and_heard() {
        let small = ModelProfile::default();
        let tuned = ModelProfile { can_abstain: true, ..small };
        assert_eq!(with_abstention("Answer.\n", &small, 3), "Answer.");
        assert_eq!(with_abstention("Answer.\n", &tuned, 0), "Answer.");
        assert!(with_abstention("Answer.\n", &tuned, 3).ends_with(ABSTAIN));
        let facts_min = |profile: &ModelProfile| schema(profile, 3).unwrap()["properties"]["facts"]["minItems"].clone();
        assert_eq!((facts_min(&small), facts_min(&tuned)), (json!(1), json!(0)));
        assert_eq!(read_claim(&json!({ "facts": [], "short_answer": " " })), (NOT_ANSWERED.to_owned(), None));
        assert_eq!(read_claim(&json!({ "facts": [], "short_answer": "Bath" })), ("**Bath**.".to_owned(), Some("Bath".to_owned())));
    }

    #[test]
    fn a_sentence_that_the_limit_cut_off_is_not_said() {
        let long = format!("The first is whole. {}", "and so on ".repeat(40)).chars().take(SENTENCE_CHARS_MAX).collect::<String>();
        assert_eq!(whole(&long), "The first is whole.");
        let one = "word ".repeat(80).chars().take(SENTENCE_CHARS_MAX).collect::<String>();
        assert!(whole(&one).ends_with("word") && whole(&one).len() < SENTENCE_CHARS_MAX, "{one}");
    }
}

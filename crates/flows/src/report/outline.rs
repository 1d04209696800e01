//! The outline: requested from a model, with at most one question to the user, and a fixed one if no model returns a usable one.

use graph::{Ask, Effect, Go, Message, Question, Replies, Request};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Progress, Report, SECTIONS_MIN, Section};
use crate::input;
use crate::prompt::{self, Prompt};

const OUTLINE: Prompt = Prompt { long: include_str!("outline.md"), short: include_str!("outline.small.md") };
const TOKENS_MAX: u32 = 1_200;
const SMALL_TOKENS_MAX: u32 = 400;
pub(super) const TITLE_CHARS_MAX: usize = 160;
pub(super) const HEADING_CHARS_MAX: usize = 120;
pub(super) const QUESTION_CHARS_MAX: usize = 600;
const QUESTIONS_MAX: usize = 1;
const REPLY_TOKENS_MAX: usize = 500;

/// A question to the user, and the reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Clarification {
    question: String,
    answer: String,
}

#[derive(Default, Deserialize)]
struct Draft {
    #[serde(default)]
    title: String,
    #[serde(default)]
    sections: Vec<DraftSection>,
    #[serde(default)]
    ask_user: Option<String>,
}

/// A small model may give a heading or a question alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum DraftSection {
    Words(String),
    Whole {
        #[serde(default)]
        heading: String,
        #[serde(default)]
        question: String,
    },
}

pub(super) fn ask(s: &Report) -> Ask {
    let sections_max = s.settings.sections_max(&s.model);
    let context = json!({
        "sections_min": SECTIONS_MIN,
        "sections_max": sections_max,
        "clarified": s.clarified,
        "outline": describe_sections(&s.sections),
        "revisions": s.revisions,
    });
    let mut messages: Vec<Message> = vec![prompt::system(prompt::render(OUTLINE.of(&s.model), context))];
    messages.extend(input::fitted(&s.history, s.model.history_tokens()));
    messages.push(prompt::user(prompt::clipped(&s.question, s.model.question_tokens())));
    let section = json!({
        "type": "object",
        "required": ["heading", "question"],
        "additionalProperties": false,
        "properties": {
            "heading": { "type": "string", "minLength": 1, "maxLength": HEADING_CHARS_MAX },
            "question": { "type": "string", "minLength": 1, "maxLength": QUESTION_CHARS_MAX },
        },
    });
    let mut properties = json!({ "sections": { "type": "array", "minItems": SECTIONS_MIN, "maxItems": sections_max, "items": section } });
    let mut required = vec!["sections"];
    if !s.model.is_small {
        properties["title"] = json!({ "type": "string", "maxLength": TITLE_CHARS_MAX });
        required.push("title");
        if may_ask(s) {
            properties["ask_user"] = json!({ "type": ["string", "null"] });
            required.push("ask_user");
        }
    }
    let schema = json!({ "type": "object", "required": required, "additionalProperties": false, "properties": properties });
    let tokens_max = if s.model.is_small { SMALL_TOKENS_MAX } else { TOKENS_MAX };
    Ask::one(prompt::call("outline", messages, Some(schema), tokens_max).label("planning the outline"))
}

/// A small model would ask about what it could know.
fn may_ask(s: &Report) -> bool {
    s.settings.clarify && !s.model.is_small && s.clarified.len() < QUESTIONS_MAX
}

pub(super) fn fold(s: &mut Report, replies: &Replies<'_>) -> Go {
    let mut unusable = None;
    let draft = prompt::read::<Draft>(replies, 0).unwrap_or_else(|failure| {
        unusable = Some(failure.to_string());
        Draft::default()
    });
    let wanted = draft.ask_user.as_deref().map(|text| evidence::visible(text).trim().to_owned()).filter(|text| !text.is_empty() && text != "null");
    if let Some(question) = wanted.filter(|_| may_ask(s)) {
        s.question_to_user = Some(question);
        return Go::to("clarify");
    }
    let sections_max = s.settings.sections_max(&s.model);
    let sections = tidied(draft.sections, sections_max);
    s.title = line(&draft.title, TITLE_CHARS_MAX);
    if s.title.is_empty() {
        s.title = capitalized(&subject(&s.question));
    }
    s.sections = match sections.len() >= SECTIONS_MIN as usize {
        true => {
            unusable = None;
            sections
        }
        false => {
            unusable.get_or_insert_with(|| format!("it has {} of at least {SECTIONS_MIN} sections", sections.len()));
            fixed(&subject(&s.question), sections_max)
        }
    };
    (s.asked, s.objection) = (0, String::new());
    let go = if s.asks_approval { Go::to("approve") } else { Go::to("sections") };
    let go = go.note("plan", note(s)).note("estimate", json!(s.estimate()));
    match unusable {
        Some(why) => go.note("outline_fallback", json!({ "why": why, "instead": "a fixed outline takes its place" })),
        None => go,
    }
}

/// The plan for watchers and for approval.
pub(super) fn note(s: &Report) -> Value {
    json!({ "title": s.title, "sections": listed(&s.sections), "hash": super::approve::hash(s) })
}

pub(super) fn listed(sections: &[Section]) -> Vec<Value> {
    sections.iter().map(|section| json!({ "heading": section.heading, "question": section.question })).collect()
}

pub(super) fn describe_sections(sections: &[Section]) -> String {
    let line = |(at, section): (usize, &Section)| format!("{}. {}: {}", at + 1, section.heading, section.question);
    sections.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

/// Sections with a heading and a question, each heading once.
fn tidied(drafts: Vec<DraftSection>, sections_max: usize) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for draft in drafts {
        let (heading, question) = match draft {
            DraftSection::Words(words) => (words.clone(), words),
            DraftSection::Whole { heading, question } => (heading, question),
        };
        let Some(section) = section(&heading, &question) else { continue };
        if sections.iter().all(|other| other.heading.to_lowercase() != section.heading.to_lowercase()) {
            sections.push(section);
        }
    }
    sections.truncate(sections_max);
    sections
}

/// Either one is sufficient. `None` if both are empty.
pub(super) fn section(heading: &str, question: &str) -> Option<Section> {
    let (heading, question) = (line(heading, HEADING_CHARS_MAX), line(question, QUESTION_CHARS_MAX));
    let heading = if heading.is_empty() { line(question.trim_end_matches('?'), HEADING_CHARS_MAX) } else { heading };
    let question = if question.is_empty() { heading.clone() } else { question };
    (!heading.is_empty()).then_some(Section { heading, question, state: Progress::Open, tries: 0 })
}

/// Visible characters in one line; no heading marks.
pub(super) fn line(text: &str, chars_max: usize) -> String {
    let text = evidence::visible(text);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.trim_start_matches(['#', '*', ' ']).trim_end_matches(['*', ' ']).chars().take(chars_max).collect()
}

/// Sections that fit any subject.
fn fixed(subject: &str, sections_max: usize) -> Vec<Section> {
    let aspects = [
        ("Overview", "overview and background"),
        ("Key facts", "how it works and key facts"),
        ("Current state", "current state and recent developments"),
        ("Advantages and limits", "advantages, disadvantages and limits"),
        ("Open questions", "open questions and outlook"),
    ];
    let made = aspects.iter().filter_map(|(heading, aspect)| section(heading, &format!("{subject}: {aspect}")));
    made.take(sections_max.max(SECTIONS_MIN as usize)).collect()
}

/// What a request is about: its first line without "write a report on".
fn subject(question: &str) -> String {
    let first = question.lines().next().unwrap_or_default().trim();
    let lower = first.to_lowercase();
    let after = super::FLOW.phrases.iter().filter_map(|phrase| Some((lower.find(phrase)?, phrase.len()))).min();
    // Lower case may have another length than the text itself, so the cut is taken only where both agree.
    let rest = after.and_then(|(at, length)| first.get(at + length..)).filter(|_| lower.len() == first.len()).unwrap_or(first);
    let rest = rest.trim().trim_end_matches(['.', '!', '?', ':']);
    let text = if rest.is_empty() { first } else { rest };
    text.chars().take(TITLE_CHARS_MAX).collect()
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

pub(super) fn ask_person(s: &Report) -> Ask {
    let Some(prompt) = s.question_to_user.clone() else { return Ask::nothing() };
    let schema = json!({ "type": "string", "description": "your answer, in your own words" });
    Ask::one(Request::from(Effect::AskPerson(Question { prompt, schema: Some(schema) })).label("asking for clarification"))
}

pub(super) fn fold_person(s: &mut Report, replies: &Replies<'_>) -> Go {
    let question = s.question_to_user.take().unwrap_or_default();
    let answer = prompt::text_of_person(replies.value(0).ok(), REPLY_TOKENS_MAX);
    let clarified = Clarification { question, answer };
    let note = json!(clarified);
    s.clarified.push(clarified);
    Go::to("outline").note("clarified", note)
}

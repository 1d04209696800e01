//! Notes about requests, and their similarity. This is data only: notes of similar requests are part of the input, new ones part of the
//! output. The engine stores them per user and for a limited time.

use std::collections::BTreeSet;

use graph::{Context, Note, NoteScope};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Reason, TURNS_MAX};
use crate::context;

/// A note about a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestNote {
    /// Its kind.
    pub kind: Kind,
    /// The request.
    pub key: Key,
    /// Its content.
    pub value: Value,
}

/// Kinds of notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Steps that led to an answer; used again instead of planning.
    Plan,
    /// Findings about requests of this kind; used instead of thinking.
    Pattern,
    /// What failed and what helped; shown to the planner, never used to judge new results.
    Reflection,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Plan, Kind::Pattern, Kind::Reflection];

    fn name(self) -> &'static str {
        match self {
            Kind::Plan => "plan",
            Kind::Pattern => "pattern",
            Kind::Reflection => "reflection",
        }
    }
}

/// The notes a run keeps for later runs of the same user.
pub(super) fn kept(s: &Reason) -> Vec<Note> {
    let note = |one: &RequestNote| Note {
        kind: one.kind.name().to_owned(),
        key: json!(one.key),
        value: one.value.clone(),
        reach: NoteScope::User,
        ms_max: None,
    };
    s.lessons().iter().map(note).collect()
}

/// Adds to the input: the conversation, the user's preferences, whether the last answer failed, and for each kind the note of the most
/// similar request. Other notes are left out, because an input is stored permanently.
pub(super) fn given(input: &mut Value, context: &Context) -> bool {
    let is_filled = context::fill(input, context, 2 * TURNS_MAX);
    let key = key(&context::full_question(input));
    let read = |note: &Note| Some(RequestNote { kind: of_name(&note.kind)?, key: Key::deserialize(&note.key).ok()?, value: note.value.clone() });
    // Newest last, as `recall` expects.
    let all: Vec<RequestNote> = context.notes.iter().rev().filter_map(read).collect();
    let similar: Vec<&RequestNote> = Kind::ALL.into_iter().filter_map(|kind| recall(&all, kind, &key)).collect();
    let Some(settings) = context::settings(input) else { return is_filled };
    if let Some(way) = context.preferences.get(context::WAY) {
        settings.entry("prefers").or_insert_with(|| way.clone());
    }
    if let Some(depth) = context.preferences.get(context::DEPTH) {
        settings.entry("depth").or_insert_with(|| depth.clone());
    }
    if context.has_failed_before {
        settings.entry("previous_failed").or_insert(json!(true));
    }
    if similar.is_empty() || settings.contains_key("remembered") {
        return is_filled;
    }
    settings.insert("remembered".to_owned(), json!(similar));
    true
}

fn of_name(name: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind.name() == name)
}

/// The significant words of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Its words without stop words.
    pub words: BTreeSet<String>,
    /// Numbers and names, which must be equal for a plan to be reused.
    pub marks: BTreeSet<String>,
}

/// Similarity from which a plan is reused, if numbers and names are equal too.
const PLAN_MIN: f32 = 0.8;
const HINT_MIN: f32 = 0.6;
/// Maximum number of notes compared.
const REMEMBERED_MAX: usize = 200;

/// The key of a request.
pub fn key(question: &str) -> Key {
    let mut key = Key::default();
    let mut is_start = true;
    for token in question.split_whitespace() {
        let bare = token.trim_matches(|c: char| !c.is_alphanumeric());
        let word = normal(bare);
        let is_name = bare.chars().next().is_some_and(char::is_uppercase) && (!is_start || bare.chars().filter(|c| c.is_uppercase()).count() > 1);
        if bare.chars().any(|c| c.is_ascii_digit()) || is_name {
            key.marks.insert(bare.to_lowercase());
        }
        if !word.is_empty() && !STOP.contains(&bare.to_lowercase().as_str()) {
            key.words.insert(word);
        }
        is_start = token.ends_with(['.', '?', '!', ':']);
    }
    key
}

/// From 0 to 1: the share of common words.
pub fn similarity(a: &Key, b: &Key) -> f32 {
    let common = a.words.intersection(&b.words).count() as f32;
    let all = a.words.union(&b.words).count() as f32;
    if all == 0.0 { 0.0 } else { common / all }
}

/// The most similar entry of a kind, if similar enough; of equals, the last, which is the newest.
pub fn recall<'r>(remembered: &'r [RequestNote], kind: Kind, key: &Key) -> Option<&'r RequestNote> {
    let fits = |one: &&RequestNote| {
        let likeness = similarity(&one.key, key);
        match kind {
            Kind::Plan => likeness >= PLAN_MIN && one.key.marks == key.marks,
            Kind::Pattern | Kind::Reflection => likeness >= HINT_MIN,
        }
    };
    let newest = &remembered[remembered.len().saturating_sub(REMEMBERED_MAX)..];
    newest.iter().filter(|one| one.kind == kind).filter(fits).max_by(|a, b| similarity(&a.key, key).total_cmp(&similarity(&b.key, key)))
}

/// Lower case, without inflection endings.
fn normal(word: &str) -> String {
    let word = word.to_lowercase();
    let word = word.strip_suffix("'s").unwrap_or(&word);
    const ENDINGS: [(&str, &str); 8] =
        [("ies", "y"), ("shes", "sh"), ("ches", "ch"), ("xes", "x"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("s", "")];
    let stem = ENDINGS.iter().find_map(|(ending, instead)| {
        let stem = word.strip_suffix(ending).filter(|stem| stem.chars().count() >= 3 && !stem.ends_with('s'))?;
        Some(format!("{stem}{instead}"))
    });
    let stem = stem.unwrap_or_else(|| word.to_owned());
    // "survive" and "survived" get the same stem.
    stem.strip_suffix('e').filter(|stem| stem.chars().count() >= 3).map_or(stem.clone(), str::to_owned)
}

const STOP: [&str; 48] = [
    "a", "an", "the", "is", "are", "was", "were", "be", "do", "has", "did", "does", "of", "in", "on", "at", "to", "for", "from", "by", "with", "and",
    "or", "it", "its", "this", "that", "these", "those", "i", "you", "we", "me", "my", "your", "please", "can", "could", "would", "will", "tell",
    "what", "which", "who", "how", "there", "about", "so",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r8_requests_are_alike_by_their_words() {
        let cases = [
            ("How does the engine survive a crash?", "how does the engine survive crashes", 1.0),
            ("Please tell me how the engine survived a crash.", "How does the engine survive a crash?", 1.0),
            ("How does the engine survive a crash?", "What is the best cake?", 0.0),
            ("the engine and a crash", "engine", 0.5),
            ("", "", 0.0),
        ];
        for (a, b, expected) in cases {
            let (a_key, b_key) = (key(a), key(b));
            assert!((similarity(&a_key, &b_key) - expected).abs() < 0.01, "{a} / {b}: {} {a_key:?} {b_key:?}", similarity(&a_key, &b_key));
            assert_eq!(similarity(&a_key, &b_key).to_bits(), similarity(&b_key, &a_key).to_bits());
        }
    }

    #[test]
    fn r8_a_plan_fits_only_the_same_names_and_numbers() {
        let old = |kind| RequestNote { kind, key: key("Find the population of the French city Lyon in the year 2020"), value: json!(1) };
        let remembered = [old(Kind::Plan), old(Kind::Reflection)];
        let cases = [
            ("Find the population of the French city Lyon in the year 2020", true, true),
            ("find the populations of the French city Lyon in year 2020!", true, true),
            ("Find the population of the French city Lyon in the year 2021", false, true),
            ("Find the population of the French city Nice in the year 2020", false, true),
            ("Bake a cake", false, false),
        ];
        for (question, plan, hint) in cases {
            assert_eq!(recall(&remembered, Kind::Plan, &key(question)).is_some(), plan, "{question}");
            assert_eq!(recall(&remembered, Kind::Reflection, &key(question)).is_some(), hint, "{question}");
        }
        assert_eq!(recall(&remembered, Kind::Pattern, &key("Find the population of Lyon")), None);
    }

    #[test]
    fn r7_r8_an_input_is_given_what_similar_requests_taught_and_nothing_else() {
        let note = |kind: &str, question: &str, value: Value| Note {
            kind: kind.into(),
            key: json!(key(question)),
            value,
            reach: NoteScope::User,
            ms_max: None,
        };
        let lyon = "Find the population of the French city Lyon in the year 2020";
        let notes = vec![
            note("plan", lyon, json!("newest")),
            note("plan", lyon, json!("older")),
            note("pattern", "Bake a cake", json!("other")),
            note("reflection", lyon, json!("advice")),
            note("of another version", lyon, json!(1)),
        ];
        let preferences = [("way".to_owned(), json!("agentic"))].into();
        let context = Context { notes, preferences, has_failed_before: true, ..Context::default() };
        let mut input = json!({ "question": lyon });
        assert!(given(&mut input, &context), "text of models about tools is not the user's own");
        let settings = &input["settings"];
        assert_eq!((&settings["prefers"], &settings["previous_failed"]), (&json!("agentic"), &json!(true)));
        let values: Vec<&Value> = settings["remembered"].as_array().unwrap().iter().map(|one| &one["value"]).collect();
        assert_eq!(values, [&json!("newest"), &json!("advice")]);
        let mut other = json!({ "question": "Who are you?", "settings": { "prefers": "direct" } });
        assert!(!given(&mut other, &context));
        assert_eq!(other["settings"], json!({ "prefers": "direct", "previous_failed": true }));
        // The same words after another question have a different meaning.
        let history = vec![graph::Message { role: "user".into(), content: "Who won the cup in 2019?".into() }];
        let lean = Context { notes: vec![note("plan", "And in 2020?", json!("cup"))], history, ..Context::default() };
        let mut input = json!({ "question": "And in 2020?" });
        given(&mut input, &lean);
        assert_eq!(input["settings"].get("remembered"), None);
    }
}

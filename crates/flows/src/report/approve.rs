//! Approval of the outline: the approved outline is the one that is researched; a person may change it, have it revised, or decline it.

use graph::{Ask, Digest, Go, Replies};
use serde::Deserialize;
use serde_json::json;

use super::{Report, SECTIONS_MAX, Section, outline};
use crate::answer;
use crate::approval::{self, Decision, REVISIONS_MAX};

/// How often a person is asked again after an invalid outline.
const ASKED_MAX: u32 = 5;
const DECLINED: &str = "The outline was not approved, so nothing was researched";

#[derive(Default, Deserialize)]
struct Edited {
    #[serde(default)]
    sections: Option<Vec<EditedSection>>,
    #[serde(default)]
    title: Option<String>,
}

#[derive(Deserialize)]
struct EditedSection {
    #[serde(default)]
    heading: String,
    #[serde(default)]
    question: String,
}

/// The hash of an outline: the approved outline is the one that is researched.
pub(super) fn hash(s: &Report) -> String {
    Digest::of(&graph::tool("outline", json!({ "title": s.title, "sections": outline::listed(&s.sections) }))).to_string()
}

pub(super) fn ask(s: &Report) -> Ask {
    let hash = hash(s);
    let mut prompt = format!(
        "Research this outline for {:?}?\n{}\n{}\nPlan {hash}. Approve it, decline it, have it revised, or send other sections.",
        s.question,
        outline::describe_sections(&s.sections),
        s.estimate().words()
    );
    if !s.objection.is_empty() {
        prompt = format!("{}\n{prompt}", s.objection);
    }
    let section = json!({
        "type": "object",
        "required": ["heading"],
        "properties": {
            "heading": { "type": "string", "maxLength": outline::HEADING_CHARS_MAX },
            "question": { "type": "string", "maxLength": outline::QUESTION_CHARS_MAX, "description": "what is looked up for the section" },
        },
    });
    Ask::one(approval::request(prompt, &[("sections", section)], Some(&hash)))
}

pub(super) fn fold(s: &mut Report, replies: &Replies<'_>) -> Go {
    s.asked += 1;
    let edited = match approval::read::<Edited>(replies, Some(&hash(s))) {
        Decision::Approved(edited) => edited,
        Decision::Declined(reason) => return declined(s, &reason),
        Decision::Revise(_) if s.revisions.len() >= REVISIONS_MAX => {
            return ask_again(s, &format!("the outline was revised {REVISIONS_MAX} times already"));
        }
        Decision::Revise(reason) => {
            s.revisions.push(reason.clone());
            return Go::to("outline").note("approval", json!({ "revise": reason }));
        }
        Decision::Wrong(why) => return ask_again(s, &why),
    };
    let is_edited = edited.sections.is_some() || edited.title.is_some();
    if let Some(sections) = edited.sections {
        let sections: Vec<Section> = sections.iter().filter_map(|one| outline::section(&one.heading, &one.question)).collect();
        match sections.len() {
            0 => return ask_again(s, "an outline needs at least one section with a heading"),
            count if count > SECTIONS_MAX as usize => {
                return ask_again(s, &format!("there are {count} sections, but at most {SECTIONS_MAX} are possible"));
            }
            _ => s.sections = sections,
        }
    }
    if let Some(title) = edited.title.map(|title| outline::line(&title, outline::TITLE_CHARS_MAX)).filter(|title| !title.is_empty()) {
        s.title = title;
    }
    let mut go = Go::to("sections").note("approval", json!({ "approved": hash(s), "edited": is_edited, "sections": outline::listed(&s.sections) }));
    if is_edited {
        go = go.note("estimate", json!(s.estimate()));
    }
    go
}

fn ask_again(s: &mut Report, why: &str) -> Go {
    if s.asked >= ASKED_MAX {
        return declined(s, &format!("{why}; asked {ASKED_MAX} times"));
    }
    s.objection = format!("That cannot be run: {why}");
    Go::to("approve").note("approval", json!({ "again": why }))
}

fn declined(s: &mut Report, reason: &str) -> Go {
    s.is_declined = true;
    s.answer = answer::finish(&approval::declined_words(DECLINED, reason), &[], false);
    let note = if reason.is_empty() { "declined" } else { reason };
    s.end().note("approval", json!({ "declined": note }))
}

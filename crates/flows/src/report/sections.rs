//! The sections: child runs of `search`, so many at a time, each with what is reserved for it; and what they found, with one numbering of passages for all.

use graph::{Ask, FailureKind, Go, Replies, Request};
use serde_json::{Value, json};

use super::{Progress, RESEARCH, Report, Section, document, estimate};
use crate::no_model;

/// One section, children and their retries included.
const SECTION_MS_MAX: u64 = 20 * 60 * 1_000;
/// A section that does not fit into the budget is tried again alone, with half as much each time.
const TRIES_MAX: u32 = 4;
/// `[1000]` would be read as a year.
const SPANS_MAX: usize = 999;

/// The sections that are started now: all at first, and then, one by one, those that did not fit into the budget.
fn due(s: &Report) -> Vec<usize> {
    let open: Vec<usize> = (0..s.sections.len()).filter(|at| s.sections[*at].state == Progress::Open).collect();
    if !open.is_empty() {
        return open;
    }
    let is_too_large = |section: &Section| matches!(section.state, Progress::TooLarge(_));
    s.sections.iter().position(is_too_large).into_iter().collect()
}

pub(super) fn ask(s: &Report) -> Ask {
    let mut asked = Ask::nothing();
    let parallel = s.settings.parallel.max(1) as usize;
    let count = s.sections.len();
    for (place, at) in due(s).into_iter().enumerate() {
        let section = &s.sections[at];
        let mut input = json!({ "question": section.question, "model": s.model, "docs": s.docs });
        if let Some(settings) = s.settings.each.get(RESEARCH) {
            input["settings"] = settings.clone();
        }
        let mut request = Request::from(graph::agent(RESEARCH, input))
            .label(format!("section {} of {count}: {}", at + 1, section.heading))
            .deadline_ms(SECTION_MS_MAX)
            .estimate(estimate::section(&s.model, 1 << section.tries));
        // One starts when the one `parallel` places before it has ended.
        if let Some(before) = place.checked_sub(parallel) {
            request = request.after_any_outcome(before);
        }
        asked.add(request);
    }
    asked
}

pub(super) fn fold(s: &mut Report, replies: &Replies<'_>) -> Go {
    let mut is_model_down = None;
    for (place, at) in due(s).into_iter().enumerate() {
        s.sections[at].tries += 1;
        let tries = s.sections[at].tries;
        s.sections[at].state = match replies.value(place) {
            Ok(output) => read(s, output),
            Err(failure) if failure.kind == FailureKind::Budget && tries < TRIES_MAX => Progress::TooLarge(failure.message),
            Err(failure) => {
                if no_model::is_cause(&failure.message) {
                    is_model_down = Some(failure.message.clone());
                }
                Progress::Failed(failure.message)
            }
        };
    }
    let note = progress(s);
    if s.sections.iter().any(|section| matches!(section.state, Progress::TooLarge(_))) {
        return Go::to("sections").note("sections", note);
    }
    let is_written = s.sections.iter().any(|section| matches!(section.state, Progress::Written { .. }));
    match is_model_down.filter(|_| !is_written) {
        // The message names the cause already; what the sections found is in their own notes.
        Some(why) => Go::fail(why).note("sections", note),
        None if !is_written => document::nothing(s).note("sections", note),
        None => Go::to("summary").note("sections", note),
    }
}

fn progress(s: &Report) -> Value {
    let one = |section: &Section| match &section.state {
        Progress::Open => json!({ "heading": section.heading, "status": "open" }),
        Progress::Written { .. } => json!({ "heading": section.heading, "status": "written" }),
        Progress::TooLarge(why) => json!({ "heading": section.heading, "status": "waiting for budget", "error": why }),
        Progress::Failed(why) => json!({ "heading": section.heading, "status": "failed", "error": why }),
    };
    s.sections.iter().map(one).collect()
}

/// A section's answer with the numbers of the report; its passages are added to those of the report.
fn read(s: &mut Report, output: &Value) -> Progress {
    let found = match document::Found::read(output) {
        Ok(found) => found,
        Err(why) => return Progress::Failed(format!("what the section found cannot be read: {why}")),
    };
    if found.is_empty() {
        return Progress::Failed("nothing was found".to_owned());
    }
    found.renumbered(&mut s.spans, SPANS_MAX)
}

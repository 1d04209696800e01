//! Ends a run whose model did not answer: as failed, with the cause, and with the results so far in the note [`FOUND`].
//!
//! ```text
//! is_down(&failure) -> bool                    the model could not be reached or refused; not: a limit was reached, or its reply was unusable
//! fail(flow, why, &shown) -> Go                ends the run as failed
//! is_cause(message) -> bool                    whether a run failed for this reason
//! ```

use evidence::Span;
use graph::{Failure, FailureKind, Go};

use crate::answer;
use crate::claims::DraftAnswer;

/// The note with the results found before the run failed: `answer`, `plain`, `sources` and `sentences`, as in an output, and `body`, the passages alone.
pub const FOUND: &str = "found_before_failure";

const CAUSE: &str = "no model answered";
const INTRO: &str = "No model wrote an answer. Found until then:";

/// After an exhausted budget, a time limit or a malformed reply, a flow can still answer with what it has.
pub(crate) fn is_down(failure: &Failure) -> bool {
    match failure.kind {
        FailureKind::Network
        | FailureKind::Timeout
        | FailureKind::Refused
        | FailureKind::Tool
        | FailureKind::Need
        | FailureKind::Reference
        | FailureKind::InDoubt
        | FailureKind::Internal => true,
        FailureKind::Invalid | FailureKind::Limit | FailureKind::Budget | FailureKind::Cancelled => false,
    }
}

/// The passages are listed without a written answer. They are not the answer, so nothing is added to the conversation.
pub(crate) fn fail(flow: &str, why: &str, shown: &[Span]) -> Go {
    let go = Go::fail(format!("{CAUSE}: {}", why.trim()));
    if shown.is_empty() {
        return go;
    }
    // The flow's own words are no claims, and the passages are quoted.
    let found = answer::finish_own(DraftAnswer { markdown: answer::listed(INTRO, shown), short: None }, shown);
    let mut output = found.output(flow);
    let body = found.body.strip_prefix(INTRO).map_or(found.body.as_str(), str::trim_start);
    output.insert("body".into(), body.into());
    go.note(FOUND, output)
}

/// Another flow would need the same model.
pub(crate) fn is_cause(message: &str) -> bool {
    message.contains(CAUSE)
}

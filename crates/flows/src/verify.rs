//! The check of an answer by the verifier, as an effect: its judgements are in the journal, so a replay decides as the run did.
//!
//! ```text
//! is_wanted(model, &shown)           the world has a verifier, and there is something to hold an answer to
//! ask(&said, &shown) -> Ask         each sentence with the passages that may support it, in one call; nothing if there is nothing to judge
//! judged(&said, &shown, &replies)   the judgements, for `answer::finish_judged`
//! ```

use evidence::{JUDGE, JudgeReply, JudgeRequest, Judged, Questions, Span, Spans};
use graph::{Ask, Failure, FailureKind, Replies, Request};
use serde_json::json;

use crate::claims::Said;
use crate::input::ModelProfile;

const DEADLINE_MS: u64 = 20_000;

pub(crate) fn is_wanted(model: &ModelProfile, shown: &[Span]) -> bool {
    model.has_verifier && !shown.is_empty()
}

pub(crate) fn ask(said: &Said, shown: &[Span]) -> Ask {
    let questions = Questions::of(&said.markdown, &Spans::new(shown));
    if questions.is_empty() {
        return Ask::nothing();
    }
    let call = graph::tool(JUDGE, json!(JudgeRequest::new(questions.pairs())));
    Ask::one(Request::from(call).label("checking the answer").deadline_ms(DEADLINE_MS).last())
}

/// `Ok(None)` if there was nothing to judge.
pub(crate) fn judged(said: &Said, shown: &[Span], replies: &Replies<'_>) -> Result<Option<Judged>, Failure> {
    if replies.is_empty() {
        return Ok(None);
    }
    let JudgeReply { judgements, weights } = replies.parse(0)?;
    let judged = Questions::of(&said.markdown, &Spans::new(shown)).judged(&judgements, weights);
    judged.map(Some).ok_or_else(|| Failure::new(FailureKind::Invalid, "the verifier returned another number of judgements than pairs"))
}

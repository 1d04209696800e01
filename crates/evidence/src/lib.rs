//! The replies of tools, in numbered spans that the sentences of an answer are checked against.
//!
//! Deliberately absent: IO, models, and knowledge of any tool. Flows and `world` both stand on this.
//!
//! ```text
//! tool's reply ── found ──▶ spans ── pick ──▶ evidence messages ──▶ a model ──▶ raw answer ── cite ──▶ clean answer
//!                             └──────────────── Spans::new, once ───────────────────────────────┘   with each sentence's status
//! ```
//!
//! ```
//! use baton_evidence::{Options, PickOptions, Spans, Status, Strict, Trust, cite, found, pick};
//! use serde_json::json;
//!
//! // What a tool replied, cut into spans. A tool may list its passages; other text is split here.
//! let reply = json!({"passages": [
//!     {"text": "After a crash the log is replayed from the last checkpoint.", "title": "Recovery", "address": "https://example.org/wal"},
//!     {"text": "A commit took 0.34 ms on the NVMe disk.", "title": "Benchmarks", "address": "https://example.org/bench"},
//! ]});
//! let found = found("docs.search", Trust::Own, "", Some(&reply));
//! let all = Spans::new(&found.spans);
//!
//! // What the model is shown: whole spans, as many as the budget has room for, each the content of a message of role `evidence`.
//! let picked = pick("How does it survive a crash?", &all, 2_000, &PickOptions::default());
//! assert_eq!(picked.spans[0].content, "Source: Recovery · https://example.org/wal\nAfter a crash the log is replayed from the last checkpoint.");
//! // `[1]` means the first message shown, so the answer is held to just those spans, in that order.
//! let shown: Vec<_> = picked.spans.iter().map(|one| found.spans[one.number - 1].clone()).collect();
//!
//! // What it replied: one citation is right, one missing, one of nothing, and a number is made up.
//! let raw = "After a crash, the log is replayed from the last checkpoint [1]. A commit took 0.34 ms. The disk was 8 TB large [2][9].";
//! let cited = cite(raw, &Spans::new(&shown), Strict::Mark, &Options::default());
//! assert_eq!(
//!     cited.body,
//!     "After a crash, the log is replayed from the last checkpoint [1]. A commit took 0.34 ms [2]. \
//!      The disk was 8 TB large [2]. *(not supported by the sources)*"
//! );
//! assert_eq!(cited.refused, [9]);
//! let last = &cited.checked.sentences[2];
//! assert_eq!((last.status, last.problems[1].words.as_str()), (Status::Unsupported, "the number 8 TB is not in [2]"));
//! assert!(cited.to_markdown().ends_with("1. [Recovery](<https://example.org/wal>)\n2. [Benchmarks](<https://example.org/bench>)"));
//!
//! // `--strict`: what is not supported goes.
//! let strict = cite(raw, &Spans::new(&shown), Strict::Remove, &Options::default());
//! assert_eq!((strict.removed.len(), strict.checked.count(Status::Supported)), (1, 2));
//! ```
//!
//! # What a check can and cannot see
//!
//! Every number, date, name, quotation, identifier and address of a sentence must be in its spans, or be a count, sum, extreme or mean of rows that the
//! sentence names; that is checked strictly, so a right fact in a form the rules do not know (a converted currency) is refused too. Negation, opposites and swapped places are seen where the words
//! are shared. A true paraphrase in wholly other words is `weak` unless `Options::likeness` (vectors) vouches for it, and a false one that uses only
//! the span's words in a new order may pass. Code blocks, headings without citations and questions are not checked. Word lists are English.
//! `tests/checked` has the numbers.

#![warn(missing_docs)]

mod check;
mod citation;
mod cite;
mod claim;
mod conflict;
mod date;
mod decide;
mod derive;
mod entail;
mod fact;
mod fence;
mod fields;
mod judge;
mod judged;
mod label;
mod language;
mod limit;
mod link;
mod lists;
mod number;
mod overlap;
mod pick;
mod place;
mod polarity;
mod quantities;
mod sentences;
mod span;
mod spans;
mod split;
mod table;
#[cfg(test)]
mod testing;
mod words;

pub use check::{Checked, Likeness, Options, Problem, ProblemKind, Sentence, Status, check};
pub use citation::{Citation, citations};
pub use cite::{CONTRADICTED_MARK, CUT_NOTE, Cited, NOTHING_LEFT, Source, Strict, UNSUPPORTED_MARK, WEAK_MARK, answer_body, cite};
pub use conflict::Conflict;
pub use decide::{ClaimStatus, Claimed, Decided, DecidedBy, decide};
pub use entail::{DecisionWeights, Entailment, JUDGE, JudgeReply, JudgeRequest, Judgement, Pair, ShortAnswer, TitledText};
pub use fact::{Fact, FactKind, Filter};
pub use fence::{defused, fenced, fenced_all, message_content, source_line, visible};
pub use judged::{Judged, ModelDecision, ModelWord, Questions};
pub use label::task_label;
pub use overlap::{content_words, has_words, shared_words};
pub use pick::{PickOptions, Picked, PickedSpan, by_rank, pick, tokens};
pub use place::reply_at;
pub use span::{Form, Found, Passage, Span, Trust};
pub use spans::Spans;
pub use split::{SPAN_BYTES_MAX, SPANS_MAX, found};

//! Drafts with known faults, and correct ones: the data set of `baton eval critics`.
//!
//! 40 have one planted fault (wrong number, wrong name, no source, off topic; 10 each), 20 have none. They were written before the rules.
//! Two more sets are for `--data`: `tuned.jsonl` (46 drafts used to choose the weight of the verifier) and `unseen.jsonl` (40 drafts that
//! were only measured).

use evidence::{Judged as Judgements, Span, Trust, found, task_label};
use graph::{Ask, END, Go, Graph, GraphError, Replies};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::critics::{CriticDecision, ask_about, judge};
use super::review::Draft;
use crate::input::ModelProfile;
use crate::verify::{Check, CheckOptions, Verify};

const DRAFTS: &str = include_str!("drafts.jsonl");

/// A draft with its known fault.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelledDraft {
    /// Its id in the set.
    pub id: String,
    /// Its planted fault.
    pub fault: Fault,
    /// The user's question.
    pub question: String,
    /// The research step, if it is not an answer.
    #[serde(default)]
    pub step: Option<String>,
    /// The text.
    pub draft: String,
    #[serde(default)]
    passages: Vec<Passage>,
    #[serde(default)]
    replies: Vec<ToolReply>,
}

/// The planted fault of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// A number that no source has.
    WrongNumber,
    /// A name that no source has.
    WrongName,
    /// A claim without a source.
    NoSource,
    /// Text about something else.
    OffTopic,
    /// No fault.
    None,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Passage {
    title: String,
    text: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolReply {
    tool: String,
    arguments: Value,
    #[serde(default)]
    text: String,
    #[serde(default)]
    data: Value,
}

/// The built-in set.
pub fn builtin() -> Result<Vec<LabelledDraft>, String> {
    read(DRAFTS)
}

/// One JSON object per line.
pub fn read(text: &str) -> Result<Vec<LabelledDraft>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(at, line)| serde_json::from_str(line).map_err(|error| format!("line {} is no labelled draft: {error}", at + 1))).collect()
}

/// One judgement as a graph, so that a measurement makes exactly the calls that a panel makes. Its input is `{draft, model, verify?}`, its
/// output a [`CriticDecision`] or `{error}`.
pub fn critic() -> Result<Graph, GraphError> {
    Graph::of::<DraftReview>("panel_critic")
        .node("check", (ask_check, fold_check), &["check", "judge"])
        .node("judge", (ask, fold), &[END])
        .input(|task: DraftReview| task)
        .output(output)
        .build()
}

#[derive(Serialize, Deserialize)]
struct DraftReview {
    draft: LabelledDraft,
    model: ModelProfile,
    #[serde(default)]
    verify: Verify,
    #[serde(default)]
    check: Option<Check>,
    #[serde(default)]
    outcome: Option<Result<CriticDecision, String>>,
}

impl DraftReview {
    fn means(&self) -> CheckOptions<'_> {
        CheckOptions { verify: self.verify, model: &self.model }
    }

    fn check(&self, spans: &[Span]) -> Check {
        self.check.clone().unwrap_or_else(|| Check::new(self.draft.draft(spans, None).claims(), spans, self.means()))
    }
}

fn ask_check(s: &DraftReview) -> Ask {
    let spans = s.draft.spans();
    Ask { requests: s.check(&spans).request(&spans, s.means()).into_iter().collect() }
}

fn fold_check(s: &mut DraftReview, replies: &Replies<'_>) -> Go {
    let spans = s.draft.spans();
    let mut check = s.check(&spans);
    if !check.is_done() {
        check.take(&spans, s.means(), replies.value(0));
    }
    let to = if check.is_done() { "judge" } else { "check" };
    s.check = Some(check);
    Go::to(to)
}

fn ask(s: &DraftReview) -> Ask {
    let spans = s.draft.spans();
    let judged = s.check(&spans).judged(&spans);
    Ask { requests: ask_about(&s.model, &s.draft.draft(&spans, judged.as_ref())).into_iter().collect() }
}

fn fold(s: &mut DraftReview, replies: &Replies<'_>) -> Go {
    let spans = s.draft.spans();
    let judged = s.check(&spans).judged(&spans);
    let draft = s.draft.draft(&spans, judged.as_ref());
    s.outcome = Some(match replies.is_empty() {
        true => judge(&s.model, &draft, None),
        false => replies.value(0).map_err(|failure| failure.to_string()).and_then(|value| judge(&s.model, &draft, Some(value))),
    });
    Go::end()
}

fn output(s: &DraftReview) -> Value {
    match &s.outcome {
        Some(Ok(judged)) => json!(judged),
        Some(Err(why)) => json!({ "error": why }),
        None => json!({ "error": "it was not judged" }),
    }
}

impl LabelledDraft {
    /// The passages that tools found for it.
    pub fn spans(&self) -> Vec<Span> {
        let passages = self.passages.iter().map(|passage| Span {
            text: passage.text.clone(),
            title: Some(passage.title.clone()),
            source: "docs.search".to_owned(),
            ..Span::default()
        });
        let replies = self.replies.iter().flat_map(|reply| {
            let label = task_label(&reply.tool, &reply.arguments);
            let spans = found(&reply.tool, Trust::Untrusted, &reply.text, Some(&reply.data)).spans;
            spans.into_iter().map(move |span| Span { task: Some(label.clone()), ..span })
        });
        passages.chain(replies).collect()
    }

    /// The draft for [`super::review`].
    pub fn draft<'d>(&'d self, spans: &'d [Span], judged: Option<&'d Judgements>) -> Draft<'d> {
        Draft { question: &self.question, step: self.step.as_deref(), text: &self.draft, reasoning: "", spans, judged }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::panel::review::{feedback, is_rejected, review};

    /// How many of these were rejected, and how many there are.
    fn measured(text: &str, is_wanted: impl Fn(Fault) -> bool) -> (usize, usize) {
        let drafts: Vec<LabelledDraft> = read(text).unwrap().into_iter().filter(|draft| is_wanted(draft.fault)).collect();
        let mut rejected = 0;
        for one in &drafts {
            let spans = one.spans();
            let findings = review(&one.draft(&spans, None));
            let is_out = is_rejected(&findings);
            rejected += usize::from(is_out);
            if is_out == (one.fault == Fault::None) {
                println!("  {} {} | {findings:?}", one.id, one.draft);
            }
        }
        (rejected, drafts.len())
    }

    #[test]
    fn k6_rules_alone_find_faults_and_leave_sound_drafts() {
        for fault in [Fault::WrongNumber, Fault::WrongName, Fault::NoSource, Fault::OffTopic] {
            let (rejected, all) = measured(DRAFTS, |one| one == fault);
            println!("{fault:?}: {rejected} of {all} rejected");
            assert_eq!(all, 10);
        }
        let (rejected, all) = measured(DRAFTS, |fault| fault != Fault::None);
        assert!(rejected * 100 >= all * 70, "{rejected} of {all} faulty drafts were rejected");
        let (wrongly, all) = measured(DRAFTS, |fault| fault == Fault::None);
        assert_eq!(all, 20);
        assert!((all - wrongly) * 100 >= all * 90, "{wrongly} of {all} sound drafts were rejected");
    }

    /// Drafts with freer wording and their own calculations. Half of them were written after the rules; of that half, 13 of 14 faulty ones
    /// were rejected and 11 of 14 correct ones passed in the first measurement.
    #[test]
    fn k6_rules_leave_sound_drafts_in_other_words() {
        let text = include_str!("paraphrased.jsonl");
        let (rejected, all) = measured(text, |fault| fault != Fault::None);
        assert!(all == 29 && rejected * 100 >= all * 85, "{rejected} of {all} faulty drafts were rejected");
        let (wrongly, all) = measured(text, |fault| fault == Fault::None);
        assert!(all == 30 && (all - wrongly) * 100 >= all * 90, "{wrongly} of {all} sound drafts were rejected");
    }

    /// 42 drafts on other topics, written without knowledge of the sets above. In the first measurement 20 of 21 faulty ones were rejected
    /// and 13 of 21 correct ones passed; `doubt.rs` was written after that. Of 22 drafts then written for one measurement, all 8 faulty
    /// ones were rejected and 9 of 14 correct ones passed, as before: the doubts found in this set do not generalize yet.
    #[test]
    fn k6_rules_leave_sound_drafts_on_other_topics() {
        let text = include_str!("fresh.jsonl");
        let (rejected, all) = measured(text, |fault| fault != Fault::None);
        assert!(all == 21 && rejected * 100 >= all * 85, "{rejected} of {all} faulty drafts were rejected");
        let (wrongly, all) = measured(text, |fault| fault == Fault::None);
        assert!(all == 21 && (all - wrongly) * 100 >= all * 90, "{wrongly} of {all} sound drafts were rejected");
    }

    #[test]
    fn k6_feedback_names_the_sentence_and_the_content_of_the_sources() {
        let drafts = builtin().unwrap();
        let feedback = |id: &str| {
            let one = drafts.iter().find(|one| one.id == id).unwrap();
            feedback(&review(&one.draft(&one.spans(), None)))
        };
        let number = feedback("wrong_number-01");
        assert!(
            number.contains("height of 3 metres") && number.contains("the number 3 metres") && number.contains("a height of 2 metres"),
            "{number}"
        );
        let name = feedback("wrong_name-01");
        assert!(name.contains("Röntgen") && name.contains("Henri Becquerel"), "{name}");
        assert!(feedback("off_topic-01").contains("what was asked"));
    }

    /// The graph calls a model only if the rules do not decide.
    #[test]
    fn k6_a_measured_critic_is_the_panels() {
        let small = json!({ "is_small": true, "context_tokens": 4_096 });
        let large = json!({ "is_small": false, "context_tokens": 32_000 });
        let line = |id: &str| DRAFTS.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).find(|one| one["id"] == id).unwrap();
        let verdict = |decision: &str| Ok(json!({ "decision": decision, "feedback": "because" }));
        let cases = [
            ("wrong_number-01", &small, "approve", true, 0),
            ("wrong_number-01", &large, "approve", false, 1),
            ("none-01", &large, "reject", true, 1),
            ("none-01", &small, "approve", false, 1),
        ];
        for (id, model, decision, is_rejected, asked) in cases {
            let run = crate::driven::drive(&critic().unwrap(), json!({ "draft": line(id), "model": model }), |_, _| verdict(decision));
            assert_eq!((&run.output()["is_rejected"], run.models("critic").len()), (&json!(is_rejected), asked), "{id} {model}");
        }
        let run = crate::driven::drive(&critic().unwrap(), json!({ "draft": line("none-01"), "model": small }), |_, _| Ok(json!("no idea")));
        assert!(run.output()["error"].as_str().unwrap().contains("not a verdict"), "{}", run.output());
    }

    #[test]
    fn a_line_that_is_no_draft_is_named() {
        assert!(read("{}\n").unwrap_err().starts_with("line 1 is no labelled draft"));
    }
}

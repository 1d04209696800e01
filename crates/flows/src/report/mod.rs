//! A report: an outline that a person may change, sections that are researched side by side by runs of `search`, one checked document with one bibliography.
//!
//! ```text
//!   start ► outline ◄──────► clarify       a question, only if its answer changes the outline
//!           model │ ◄──────► approve       a person approves, changes or declines the outline, or has it revised
//!                 └─► sections ─► summary ─► check ─► end
//!                     child runs  model      every part, by the same judge as any answer
//! ```
//!
//! A model that gives no usable outline is replaced by a fixed one. A section that nothing was found for, or whose run failed, is named at the end of the report; if
//! no section was researched because the model is down, the run fails. What a section may use is reserved in the budget of the run before its child starts
//! ([`estimate`]), so parallel sections together stay within it; one that does not fit is tried again alone with less.

mod approve;
mod document;
mod estimate;
mod outline;
mod sections;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use evidence::Span;
use graph::{Ask, END, Go, Graph, GraphError, Message, Replies};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::context;
use crate::descriptor::{Calls, Descriptor, PlanNote};
use crate::input::{self, Approve, Input, ModelProfile};
use crate::settings::SettingsType;
use crate::verify::{Check, CheckOptions, Verify};

pub use estimate::{Estimate, estimate};

/// The name of the flow.
pub const NAME: &str = "report";
/// The flow that researches a section.
const RESEARCH: &str = "search";

/// Descriptor of this flow.
pub const FLOW: Descriptor = Descriptor {
    title: "Write a report",
    description: "Researches the sections of an outline side by side and writes one checked document with a bibliography",
    phrases: &[
        "write a report on",
        "write a report about",
        "write me a report on",
        "write me a report about",
        "prepare a report on",
        "prepare a report about",
        "draft a report on",
        "draft a report about",
        "create a report on",
        "create a report about",
        "schreibe einen bericht über",
        "schreib einen bericht über",
        "erstelle einen bericht über",
        "rédige un rapport sur",
        "écris un rapport sur",
        "escribe un informe sobre",
        "redacta un informe sobre",
        "写一份报告",
        "写一份关于",
    ],
    calls: Calls::Named(&[RESEARCH]),
    approvals: &["approve"],
    plan: Some(PlanNote { note: "plan", lists: &["sections"] }),
    settings: Some(SettingsType::of::<Settings>()),
    ..Descriptor::new(NAME, |_| flow())
};

/// The graph of the flow.
pub fn flow() -> Result<Graph, GraphError> {
    Graph::of::<Report>(NAME)
        .node("outline", (outline::ask, outline::fold), &["clarify", "approve", "sections"])
        .node("clarify", (outline::ask_person, outline::fold_person), &["outline"])
        .node("approve", (approve::ask, approve::fold), &["approve", "outline", "sections", END])
        .node("sections", (sections::ask, sections::fold), &["sections", "summary", END])
        .node("summary", (document::ask, document::fold), &["check", END])
        .node("check", (ask_check, fold_check), &["check", END])
        .calls("sections", [RESEARCH])
        .input(Report::of)
        .output(output)
        .recall(context::recall(HISTORY_TURNS_MAX))
        .build()
}

/// User settings of this flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Sections at most; if not set, 5, and 3 where a small model answers.
    #[schemars(range(min = SECTIONS_MIN, max = SECTIONS_MAX))]
    pub sections: Option<u32>,
    /// Sections that are researched at the same time.
    #[schemars(range(min = 1, max = PARALLEL_MAX))]
    pub parallel: u32,
    /// Whether the run waits until a person has approved the outline.
    pub approve_outline: bool,
    /// Whether the planner may ask a person one question, where the answer changes the outline.
    pub clarify: bool,
    /// Who checks the document: `fast` (rules and the verifier), `model` (a large model also decides what stays uncertain), or `rules`.
    pub verify: Verify,
    /// Settings for the runs that research sections, by the name of their flow.
    #[schemars(skip)]
    pub each: BTreeMap<String, Value>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { sections: None, parallel: 3, approve_outline: true, clarify: true, verify: Verify::default(), each: BTreeMap::new() }
    }
}

impl Settings {
    fn sections_max(&self, model: &ModelProfile) -> usize {
        self.sections.unwrap_or(if model.is_small { 3 } else { 5 }) as usize
    }
}

/// Fewest sections a user can set.
pub const SECTIONS_MIN: u32 = 2;
/// Most sections a user can set.
pub const SECTIONS_MAX: u32 = 12;
const PARALLEL_MAX: u32 = 8;
const HISTORY_TURNS_MAX: usize = 3;

#[derive(Serialize, Deserialize)]
struct Report {
    question: String,
    history: Vec<Message>,
    model: ModelProfile,
    strict: bool,
    docs: bool,
    settings: Settings,
    /// A person approves the outline, by the setting or by request of the caller.
    asks_approval: bool,
    title: String,
    sections: Vec<Section>,
    /// The question to the user before the outline.
    question_to_user: Option<String>,
    clarified: Vec<outline::Clarification>,
    /// Requested changes, newest last.
    revisions: Vec<String>,
    /// Number of approval questions about this outline.
    asked: u32,
    /// Why the person is asked again.
    objection: String,
    /// Every passage that a section cites, once; `[1]` in the parts is the first.
    spans: Vec<Span>,
    /// The summary and the sections as they will be read, in order.
    parts: Vec<String>,
    checks: Vec<Check>,
    is_declined: bool,
    answer: Answer,
}

/// A section of the outline and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Section {
    heading: String,
    /// The query of its research.
    question: String,
    #[serde(default)]
    state: Progress,
    /// Number of attempts.
    #[serde(default)]
    tries: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Progress {
    #[default]
    Open,
    /// With the numbers of [`Report::spans`].
    Written {
        text: String,
        /// A sentence of it that its sources support, for a summary; empty if there is none.
        lead: String,
    },
    /// It did not fit into what the budget had left.
    TooLarge(String),
    /// Why there is no text.
    Failed(String),
}

impl Report {
    fn of(input: Input<Settings>) -> Report {
        let Input { question, history, model, strict, docs, approve, settings, .. } = input;
        let settings = settings.unwrap_or_default();
        Report {
            question,
            history: input::recent(&history, HISTORY_TURNS_MAX),
            model,
            strict,
            docs,
            asks_approval: settings.approve_outline || approve == Approve::Plan,
            settings,
            title: String::new(),
            sections: Vec::new(),
            question_to_user: None,
            clarified: Vec::new(),
            revisions: Vec::new(),
            asked: 0,
            objection: String::new(),
            spans: Vec::new(),
            parts: Vec::new(),
            checks: Vec::new(),
            is_declined: false,
            answer: Answer::default(),
        }
    }

    fn means(&self) -> CheckOptions<'_> {
        CheckOptions { verify: self.settings.verify, model: &self.model }
    }

    fn estimate(&self) -> Estimate {
        estimate(self.sections.len(), &self.model)
    }

    /// The final output.
    fn end(&self) -> Go {
        Go::end().say("user", self.question.as_str()).say("assistant", self.answer.text.as_str())
    }
}

fn ask_check(s: &Report) -> Ask {
    Ask { requests: s.checks.iter().filter_map(|check| check.request(&s.spans, s.means())).collect() }
}

fn fold_check(s: &mut Report, replies: &Replies<'_>) -> Go {
    let means = CheckOptions { verify: s.settings.verify, model: &s.model };
    for (at, check) in s.checks.iter_mut().filter(|check| !check.is_done()).enumerate() {
        check.take(&s.spans, means, replies.value(at));
    }
    document::checked(s)
}

fn output(s: &Report) -> Value {
    let mut output = s.answer.output(NAME);
    let sections: Vec<Value> = s
        .sections
        .iter()
        .map(|section| {
            let (state, why) = match &section.state {
                Progress::Open => ("open", None),
                Progress::Written { .. } => ("written", None),
                Progress::TooLarge(why) | Progress::Failed(why) => ("failed", Some(why)),
            };
            json!({ "heading": section.heading, "question": section.question, "status": state, "error": why })
        })
        .collect();
    output.insert("title".into(), json!(s.title));
    output.insert("sections".into(), json!(sections));
    output.insert("declined".into(), json!(s.is_declined));
    // No model was shown all of them, so citations are resolved from here.
    output.insert("passages".into(), json!(crate::answer::cited_passages(&s.answer, &s.spans)));
    Value::Object(output)
}

//! The researcher: decides whether a request needs research, runs the panel's researcher loop for it, and returns the contract.
//!
//! ```text
//!   start ► discover ► triage ─── nothing to look up: a reply ───► end
//!           registry   model  └─► research ────► report ► check ► end
//!                                 panel_researcher  model
//! ```
//!
//! `tool_used` reports whether a tool replied, according to the recorded calls. Sources are those that the summary cites and that were
//! really found; if the model fails, the gathered passages are used instead.

use evidence::Span;
use graph::{Ask, END, Failure, Go, Graph, GraphError, Replies, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::closing;
use crate::answer;
use crate::claims::DraftAnswer;
use crate::descriptor::{Agent, Descriptor, InputKind, Visibility};
use crate::input::ModelProfile;
use crate::panel;
use crate::prompt::{self, Prompt};
use crate::settings::SettingsType;
use crate::toolbox::{self, PlanPurpose, Tool, Toolbox};
use crate::turn::{self, Turn, Visit};
use crate::verify::{CheckOptions, Unchecked, Verify};

/// The flow's name.
pub const NAME: &str = "researcher";
/// Its capability in plans.
pub const CAPABILITY: &str = "research";

/// Descriptor of this flow.
pub const FLOW: Descriptor = Descriptor {
    title: "Researcher",
    description: "looks a subject up with tools and sums up what was found, with sources",
    visibility: Visibility::Internal,
    input: InputKind::Messages,
    settings: Some(SettingsType::of::<Settings>()),
    agent: Some(Agent { capability: CAPABILITY, aliases: &[], port: 8001 }),
    ..Descriptor::new(NAME, |_| flow())
};

/// Builds the graph.
pub fn flow() -> Result<Graph, GraphError> {
    Graph::of::<Researcher>(NAME)
        .node("discover", (|s: &Researcher| Ask::one(toolbox::ask_named(&s.request(), &s.settings.enabled_tools)), fold_tools), &["triage"])
        .node("triage", (ask_triage, fold_triage), &["research", END])
        .node("research", (ask_research, fold_research), &["report", END])
        .node("report", (ask_report, fold_report), &["check", END])
        .node("check", (ask_check, fold_check), &["check", END])
        .calls("research", [panel::RESEARCHER])
        .input(Researcher::of)
        .output(|s| closing(&s.messages, &s.context, NAME, &s.last, &s.report, CAPABILITY))
        .recall(turn::recall(HISTORY_TURNS_MAX))
        .build()
}

/// User settings of this flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Tools or servers that may be used; all that fit if empty.
    pub enabled_tools: Vec<String>,
    /// Tool calls that may be made for one question.
    #[schemars(range(min = 1, max = panel::TOOL_CALLS_MAX))]
    pub tool_calls_max: u32,
    /// Who checks the report: `fast` (rules and the verifier), `model` (a large model also decides what stays uncertain), or `rules`.
    pub verify: Verify,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { enabled_tools: Vec::new(), tool_calls_max: 4, verify: Verify::default() }
    }
}

const TRIAGE: Prompt = Prompt { long: include_str!("triage.md"), short: include_str!("triage.small.md") };
const REPORT: Prompt = Prompt { long: include_str!("report.md"), short: include_str!("report.small.md") };
const TRIAGE_TOKENS_MAX: u32 = 300;
const REPORT_TOKENS_MAX: u32 = 1_500;
const SMALL_REPORT_TOKENS_MAX: u32 = 450;
const RESEARCH_MS_MAX: u64 = 12 * 60 * 1_000;
const HISTORY_TURNS_MAX: usize = 5;
const STEPS_MAX: usize = 3;
const KEY_POINTS_MAX: usize = 10;
/// The results are passed on in a message that other agents must be able to read.
const SUMMARY_TOKENS_MAX: usize = 4_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Researcher {
    messages: Vec<Turn>,
    context: Map<String, Value>,
    model: ModelProfile,
    settings: Settings,
    tools: Vec<Tool>,
    topic: String,
    steps: Vec<String>,
    /// The result of the loop.
    result: String,
    spans: Vec<Span>,
    tool_used: bool,
    /// The summary until it is checked, and its key points.
    #[serde(default)]
    unchecked: Option<Unchecked>,
    #[serde(default)]
    key_points: Vec<String>,
    last: Option<Turn>,
    report: String,
}

impl Researcher {
    fn of(visit: Visit<Settings>) -> Researcher {
        Researcher {
            settings: visit.settings.unwrap_or_default(),
            messages: visit.messages,
            context: visit.context,
            model: visit.model,
            tools: Vec::new(),
            topic: String::new(),
            steps: Vec::new(),
            result: String::new(),
            spans: Vec::new(),
            tool_used: false,
            unchecked: None,
            key_points: Vec::new(),
            last: None,
            report: String::new(),
        }
    }

    fn request(&self) -> String {
        turn::request_text(&self.messages)
    }

    /// The supervisor has planned research, so it is needed.
    fn is_sent_for(&self) -> bool {
        self.context.get("capability").and_then(Value::as_str) == Some(CAPABILITY)
    }

    fn reply_tokens(&self) -> u32 {
        if self.model.is_small { SMALL_REPORT_TOKENS_MAX } else { REPORT_TOKENS_MAX }
    }

    fn instructions(&self) -> Vec<graph::Message> {
        let text = prompt::render(REPORT.of(&self.model), json!({ "topic": self.topic, "has_evidence": !self.spans.is_empty() }));
        vec![prompt::system(text)]
    }

    /// The passages shown to the model, `[1]` first.
    fn shown(&self) -> Vec<Span> {
        let used = prompt::tokens_of(&self.instructions()) + evidence::tokens(&self.result);
        answer::pick(&self.spans, &self.topic, self.model.evidence_tokens(used, self.reply_tokens()))
    }

    fn reply(&mut self, words: impl Into<String>) -> Go {
        self.last = Some(Turn::by(NAME, words));
        self.end()
    }

    fn end(&self) -> Go {
        let words = self.last.as_ref().map_or("", |turn| turn.content.as_str());
        let reply = if self.report.is_empty() { words.to_owned() } else { self.report.clone() };
        Go::end().say("user", self.request()).say("assistant", reply)
    }

    fn means(&self) -> CheckOptions<'_> {
        CheckOptions { verify: self.settings.verify, model: &self.model }
    }

    fn hand_in(&mut self, unchecked: Unchecked) -> Go {
        if !unchecked.is_done() {
            self.unchecked = Some(unchecked);
            return Go::to("check");
        }
        let (checked, failure) = unchecked.finish();
        let sources: Vec<String> = checked
            .sources
            .iter()
            .map(|source| match &source.address {
                Some(address) if !source.title.is_empty() && source.title != *address => format!("{} ({address})", source.title),
                Some(address) => address.clone(),
                None => source.title.clone(),
            })
            .collect();
        let data = json!({
            "research_summary": {
                "topic": self.topic,
                "summary": prompt::clipped(checked.body.trim(), SUMMARY_TOKENS_MAX),
                "key_points": self.key_points,
                "sources": sources,
            },
            "tool_used": self.tool_used,
        });
        self.last = Some(Turn::contract(NAME, CAPABILITY, &data));
        self.report.clone_from(&checked.text);
        let go = self
            .end()
            .note("research", json!({ "topic": self.topic, "sources": sources.len(), "tool_used": self.tool_used }))
            .note("answer", checked.summary());
        failure.into_iter().fold(go, |go, why| go.note("check_failed", why))
    }
}

fn fold_tools(s: &mut Researcher, replies: &Replies<'_>) -> Go {
    match Toolbox::read(replies, 0) {
        Ok(found) => {
            let named = &s.settings.enabled_tools;
            let found = found.enabled(named);
            let found = if named.is_empty() { found.fitting(&s.model, PlanPurpose::Answers, false) } else { found };
            s.tools = found.tools;
            Go::to("triage").note("tools", json!(s.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>()))
        }
        Err(failure) => Go::to("triage").note("no_tools", failure.to_string()),
    }
}

fn ask_triage(s: &Researcher) -> Ask {
    let mut messages = vec![prompt::system(prompt::render(TRIAGE.of(&s.model), json!({ "steps_max": STEPS_MAX })))];
    messages.push(prompt::user(prompt::clipped(&s.request(), s.model.question_tokens())));
    let schema = json!({
        "type": "object",
        "required": ["needs_research", "topic", "questions", "reply"],
        "additionalProperties": false,
        "properties": {
            "needs_research": { "type": "boolean" },
            "topic": { "type": "string", "maxLength": 160 },
            "questions": { "type": "array", "maxItems": STEPS_MAX, "items": { "type": "string", "maxLength": 200 } },
            "reply": { "type": "string", "maxLength": 600 },
        },
    });
    Ask::one(prompt::call("triage", messages, Some(schema), TRIAGE_TOKENS_MAX).label("choosing what to research"))
}

fn fold_triage(s: &mut Researcher, replies: &Replies<'_>) -> Go {
    #[derive(Deserialize)]
    struct Triage {
        needs_research: bool,
        #[serde(default)]
        topic: String,
        #[serde(default)]
        questions: Vec<String>,
        #[serde(default)]
        reply: String,
    }
    let request = s.request();
    let first_line = || request.lines().next().unwrap_or_default().chars().take(160).collect::<String>();
    match prompt::read::<Triage>(replies, 0) {
        Ok(triage) if !triage.needs_research && !triage.reply.trim().is_empty() && !s.is_sent_for() => {
            return s.reply(evidence::visible(triage.reply.trim()));
        }
        Ok(triage) => {
            s.topic = if triage.topic.trim().is_empty() { first_line() } else { triage.topic.trim().to_owned() };
            s.steps = triage.questions.into_iter().map(|step| step.trim().to_owned()).filter(|step| !step.is_empty()).take(STEPS_MAX).collect();
        }
        // If triage fails, the request is researched.
        Err(_) => s.topic = first_line(),
    }
    if s.steps.is_empty() {
        s.steps = vec![request.clone()];
    }
    Go::to("research").note("triage", json!({ "topic": s.topic, "questions": s.steps }))
}

fn ask_research(s: &Researcher) -> Ask {
    let task = json!({
        "question": s.request(),
        "steps": s.steps,
        "model": s.model,
        "tools": s.tools,
        "tool_calls_max": s.settings.tool_calls_max,
    });
    Ask::one(Request::from(graph::agent(panel::RESEARCHER, task)).label("researching").deadline_ms(RESEARCH_MS_MAX))
}

fn fold_research(s: &mut Researcher, replies: &Replies<'_>) -> Go {
    #[derive(Deserialize)]
    struct Handed {
        #[serde(default)]
        result: String,
        memory: Memory,
        #[serde(default)]
        error: Option<Failure>,
    }
    #[derive(Deserialize)]
    struct Memory {
        spans: Vec<Span>,
        calls: Vec<Made>,
    }
    #[derive(Deserialize)]
    struct Made {
        #[serde(rename = "came")]
        result: Result<String, String>,
    }
    match replies.parse::<Handed>(0) {
        Ok(Handed { result, memory, error }) => {
            s.tool_used = memory.calls.iter().any(|made| made.result.is_ok());
            s.spans = memory.spans;
            s.result = result;
            match error {
                // The passages found are still used.
                Some(failure) if s.spans.is_empty() => s.reply(format!("The research could not be done: {}", failure.message)),
                _ => Go::to("report"),
            }
        }
        Err(failure) => s.reply(format!("The research could not be done: {}", failure.message)),
    }
}

fn ask_report(s: &Researcher) -> Ask {
    let mut messages = s.instructions();
    messages.extend(answer::messages(&s.shown()));
    if !s.result.trim().is_empty() {
        messages.push(prompt::message("assistant", prompt::clipped(&s.result, s.model.history_tokens())));
    }
    messages.push(prompt::user(prompt::clipped(&s.request(), s.model.question_tokens())));
    let schema = json!({
        "type": "object",
        "required": ["summary", "key_points"],
        "additionalProperties": false,
        "properties": {
            "summary": { "type": "string", "minLength": 1, "maxLength": if s.model.is_small { 1_200 } else { 6_000 } },
            "key_points": { "type": "array", "maxItems": KEY_POINTS_MAX, "items": { "type": "string", "maxLength": 300 } },
        },
    });
    Ask::one(prompt::call("report", messages, Some(schema), s.reply_tokens()).label("summarizing").last())
}

fn ask_check(s: &Researcher) -> Ask {
    s.unchecked.as_ref().map_or_else(Ask::nothing, |unchecked| unchecked.ask(s.means()))
}

fn fold_check(s: &mut Researcher, replies: &Replies<'_>) -> Go {
    let mut unchecked = s.unchecked.take().unwrap_or_default();
    unchecked.fold(s.means(), replies);
    s.hand_in(unchecked)
}

fn fold_report(s: &mut Researcher, replies: &Replies<'_>) -> Go {
    #[derive(Deserialize)]
    struct Report {
        summary: String,
        #[serde(default)]
        key_points: Vec<String>,
    }
    let shown = s.shown();
    let read = prompt::read::<Report>(replies, 0);
    let (summary, key_points) = match read {
        Ok(report) if !report.summary.trim().is_empty() => (report.summary, report.key_points),
        // Text in another form than requested.
        Ok(_) => (String::new(), Vec::new()),
        Err(failure) => (failure.output.as_deref().and_then(prompt::prose).unwrap_or_default(), Vec::new()),
    };
    let summary = match (summary.trim().is_empty(), s.result.trim().is_empty(), shown.is_empty()) {
        (false, _, _) => summary,
        (true, false, true) => s.result.clone(),
        (true, _, false) => answer::listed("This was found:", &shown),
        (true, true, true) => return s.reply("The research found nothing."),
    };
    s.key_points = key_points
        .into_iter()
        .map(|point| panel::uncited(&evidence::visible(&point)))
        .filter(|point| !point.is_empty())
        .take(KEY_POINTS_MAX)
        .collect();
    let draft = DraftAnswer { markdown: summary, short: None };
    s.hand_in(Unchecked::new(draft, shown, false, s.means()))
}

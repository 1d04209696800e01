//! Search: one model call plans, tools look up, one model call writes the answer.
//!
//! ```text
//!                                   no tools ────────────────────────────┐
//!                                      │                                 ▼
//!   start ► initialize ► discover ─────┴─► plan ─► approve ─► execute ► synthesize ─► end
//!                        registry.tools    model   a person,   tools,    model    │
//!                                            ▲     if asked     a DAG             │
//!                                            └── something is missing, and ───────┘
//!                                                max_turn_iterations allows
//! ```
//!
//! Two model calls, however many tasks. An unusable plan becomes one task, a failed task is left out of the evidence and named to the model, and a
//! synthesis that is not JSON is read as text. If the model is down, the run fails and its note `found_before_failure` lists the results; if a budget
//! ended or the reply was unusable, that list is the answer. The answer comes as Markdown and as HTML (`response_content`), both from the same checked
//! text.
//!
//! Every tool is offered to the planner, labelled as read-only or not; the host's permission check decides whether one that may change something runs.
//! A call that may have taken effect is never repeated automatically.
//!
//! The planner sees the tools that fit the question best. With `max_turn_iterations` above 1 it can also request others by a tool-search step, which
//! costs an extra model call and so is not available with the default of two calls; the listing is long enough ([`toolbox`]) that most installations
//! need no such step.

mod approve;
pub mod html;
mod plan;
mod sanitize;
mod synthesis;

#[cfg(test)]
mod results_tests;
#[cfg(test)]
mod tests;

use evidence::{Passage, Span};
use graph::{Ask, END, Go, Graph, GraphError, Message, Replies};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::answer::{self, Answer};
use crate::claims::{self, DraftAnswer};
use crate::context;
use crate::descriptor::{Descriptor, Needs, PlanNote, Routing};
use crate::follow_up;
use crate::input::{self, Approve, Input, ModelProfile};
use crate::no_model;
use crate::prompt::{self, Prompt};
use crate::settings::SettingsType;
use crate::toolbox::{self, PlanPurpose, REGISTRY, Tool, Toolbox};
use crate::verify::{CheckOptions, Unchecked, Verify};

pub use plan::{Status, Task};

/// Descriptor of this flow.
pub const FLOW: Descriptor = Descriptor {
    title: "Search",
    description: "Plans, searches with tools, and answers with sources",
    routing: Some(Routing {
        purpose: "facts that must be looked up: news, prices, versions, who holds an office now, records that a tool can find; sources",
        examples: &["Who is the mayor of Madrid at the moment?"],
        needs: Needs::Tools,
        substitutes: &["reason", "direct", "chat"],
        may_be_replaced: true,
    }),
    approvals: &["approve"],
    plan: Some(PlanNote { note: "plan", lists: &["tasks"] }),
    settings: Some(SettingsType::of::<Settings>()),
    ..Descriptor::new("search", |_| flow())
};

/// Builds the graph.
pub fn flow() -> Result<Graph, GraphError> {
    Graph::of::<Search>("search")
        .node("initialize", (|_: &Search| Ask::nothing(), initialize), &["discover"])
        .node(
            "discover",
            (|s: &Search| Ask::one(toolbox::ask_named(&s.full_question(), &s.settings.enabled_tools)), discover),
            &["plan", "synthesize"],
        )
        .node("plan", (ask_plan, fold_plan), &["approve", "execute", "synthesize", "find_tools", END])
        .node("find_tools", (ask_tools, fold_tools), &["plan"])
        .node("approve", (approve::ask, approve::fold), &["approve", "plan", "execute", END])
        .node("execute", (ask_tasks, fold_tasks), &["approve", "execute", "synthesize"])
        .node("synthesize", (ask_synthesis, fold_synthesis), &["plan", "check", END])
        .node("check", (ask_check, fold_check), &["check", "plan", END])
        .input(Search::of)
        .output(output)
        .recall(context::recall(HISTORY_TURNS_MAX))
        .build()
}

/// User settings of this flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How often a plan is made; with more than one, what is missing in the answer is planned for again.
    #[schemars(range(min = 1, max = TURNS_MAX))]
    pub max_turn_iterations: u32,
    /// Tools or servers that may be planned; all if empty.
    pub enabled_tools: Vec<String>,
    /// Who checks the answer: `fast` (rules and the verifier), `model` (a large model also decides what stays uncertain), or `rules`.
    pub verify: Verify,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { max_turn_iterations: 1, enabled_tools: Vec::new(), verify: Verify::default() }
    }
}

const PLAN: Prompt = Prompt { long: include_str!("plan.md"), short: include_str!("plan.small.md") };
const SYNTHESIS: Prompt = Prompt { long: include_str!("synthesis.md"), short: include_str!("synthesis.small.md") };

/// Turns of the conversation in the prompts.
const HISTORY_TURNS_MAX: usize = 10;
const TURNS_MAX: u32 = 10;
const SMALL_TASKS_MAX: usize = 3;
const PLAN_TOKENS_MAX: u32 = 1_500;
const SMALL_PLAN_TOKENS_MAX: u32 = 300;
const SYNTHESIS_TOKENS_MAX: u32 = 2_000;
const SMALL_SYNTHESIS_TOKENS_MAX: u32 = 500;
/// Maximum number of tool-search steps of one run.
const TOOL_SEARCHES_MAX: u32 = 2;

const NOTHING_FOUND: &str = "Nothing was found, and no model answered";
const GATHERED: &str = "No model wrote an answer; this is what was found:";

#[derive(Serialize, Deserialize)]
struct Search {
    question: String,
    history: Vec<Message>,
    model: ModelProfile,
    strict: bool,
    approve: Approve,
    settings: Settings,
    tools: Toolbox,
    /// The planner's query for tools that were not listed.
    wanted_tools: Option<String>,
    /// Tool-search steps so far.
    tool_searches: u32,
    /// Turns of planning so far.
    iteration: u32,
    /// The model's explanation of the plan.
    plan_reasoning: String,
    /// Every task of every iteration, with its whole result.
    thinking_steps: Vec<Task>,
    /// The hash of the approved plan.
    approved: Option<String>,
    asked: u32,
    /// Why the person is asked again.
    objection: String,
    /// The plan that a person wants changed, and their comments on it and on those before it.
    #[serde(default)]
    revised: String,
    #[serde(default)]
    revisions: Vec<String>,
    /// The passages shown to the model, `[1]` first.
    shown: Vec<Span>,
    missing: String,
    reasoning: String,
    /// The model's answer and missing information, until it is checked.
    #[serde(default)]
    unchecked: Option<(Unchecked, String)>,
    answer: Answer,
    /// The passages that the answer cites, by the numbers its sentences have.
    #[serde(default)]
    passages: Vec<Passage>,
}

impl Search {
    fn of(input: Input<Settings>) -> Search {
        let Input { question, history, model, strict, approve, settings, .. } = input;
        Search {
            question,
            history,
            model,
            strict,
            approve,
            settings: settings.unwrap_or_default(),
            tools: Toolbox::default(),
            wanted_tools: None,
            tool_searches: 0,
            iteration: 0,
            plan_reasoning: String::new(),
            thinking_steps: Vec::new(),
            approved: None,
            asked: 0,
            objection: String::new(),
            revised: String::new(),
            revisions: Vec::new(),
            shown: Vec::new(),
            missing: String::new(),
            reasoning: String::new(),
            unchecked: None,
            answer: Answer::default(),
            passages: Vec::new(),
        }
    }

    /// The question in full, for tools that are not given the conversation.
    fn full_question(&self) -> String {
        follow_up::in_full(&self.question, &self.history)
    }

    /// The tasks of the current iteration.
    fn current(&self) -> &[Task] {
        let from = self.thinking_steps.iter().position(|task| task.iteration == self.iteration).unwrap_or(self.thinking_steps.len());
        &self.thinking_steps[from..]
    }

    fn current_mut(&mut self) -> impl Iterator<Item = &mut Task> {
        let iteration = self.iteration;
        self.thinking_steps.iter_mut().filter(move |task| task.iteration == iteration)
    }

    fn means(&self) -> CheckOptions<'_> {
        CheckOptions { verify: self.settings.verify, model: &self.model }
    }

    fn may_go_on(&self) -> bool {
        self.iteration < self.settings.max_turn_iterations && !self.tools.is_empty()
    }

    fn spans(&self) -> Vec<Span> {
        self.thinking_steps.iter().filter_map(|task| task.result.as_ref()).flat_map(|found| found.spans.iter().cloned()).collect()
    }

    /// System prompt, conversation, evidence, and the question, last and alone.
    fn messages(&self, instructions: String, evidence: Vec<Message>) -> Vec<Message> {
        let mut messages = vec![prompt::system(instructions)];
        messages.extend(input::fitted(&self.history, self.model.history_tokens()));
        messages.extend(evidence);
        messages.push(prompt::user(prompt::clipped(&self.question, self.model.question_tokens())));
        messages
    }

    /// Selects the passages that fit beside the rest of the prompt.
    fn pick(&mut self) {
        let bare = self.messages(self.instructions(true), Vec::new());
        let budget = self.model.evidence_tokens(prompt::tokens_of(&bare), self.reply_tokens());
        self.shown = answer::pick(&self.spans(), &self.full_question(), budget);
    }

    fn reply_tokens(&self) -> u32 {
        if self.model.is_small { SMALL_SYNTHESIS_TOKENS_MAX } else { SYNTHESIS_TOKENS_MAX }
    }

    fn instructions(&self, has_evidence: bool) -> String {
        let failed: Vec<String> = self.thinking_steps.iter().filter_map(failed_line).collect();
        let claims = claims::with_abstention(claims::PROMPT, &self.model, usize::from(has_evidence));
        let context = json!({ "has_evidence": has_evidence, "may_go_on": self.may_go_on(), "failed": failed.join("\n"), "claims": claims });
        prompt::render(SYNTHESIS.of(&self.model), context)
    }

    fn begin_tasks(&mut self) {
        for task in self.current_mut().filter(|task| task.status == Status::Pending) {
            task.status = Status::Executing;
        }
    }
}

fn failed_line(task: &Task) -> Option<String> {
    let error = task.error.as_ref()?;
    let line = evidence::defused(error).split_whitespace().collect::<Vec<_>>().join(" ");
    Some(format!("- {}: {}", task.tool_name, line.chars().take(160).collect::<String>()))
}

fn initialize(s: &mut Search, _: &Replies<'_>) -> Go {
    s.history = input::recent(&s.history, HISTORY_TURNS_MAX);
    Go::to("discover")
}

fn discover(s: &mut Search, replies: &Replies<'_>) -> Go {
    let found = Toolbox::read(replies, 0).map(|all| {
        let named = &s.settings.enabled_tools;
        let listed = all.enabled(named);
        if !named.is_empty() {
            return listed;
        }
        let (is_full, count) = (listed.is_full(), listed.tools.len());
        let tools = listed.fitting(&s.model, PlanPurpose::Answers, false);
        let may_search = (is_full || tools.tools.len() < count) && s.settings.max_turn_iterations > 1;
        if may_search { tools.with_finder() } else { tools }
    });
    match found {
        Ok(tools) if tools.is_empty() => Go::to("synthesize").note("tools", json!([])).note("no_tools", "no tool is enabled; nothing is looked up"),
        Ok(tools) => {
            s.tools = tools;
            Go::to("plan").note("tools", json!(s.tools.names()))
        }
        Err(failure) => Go::to("synthesize").note("no_tools", format!("the tools could not be listed: {failure}")),
    }
}

fn ask_tools(s: &Search) -> Ask {
    s.wanted_tools.as_deref().map_or_else(Ask::nothing, |query| Ask::one(toolbox::ask_more(query)))
}

fn fold_tools(s: &mut Search, replies: &Replies<'_>) -> Go {
    let query = s.wanted_tools.take().unwrap_or_default();
    let found = Toolbox::read(replies, 0).unwrap_or_default();
    let note = json!({ "query": query, "found": found.names() });
    // Tools found come first; after the last search the step is not offered again.
    let known = std::mem::take(&mut s.tools);
    s.tools = found.with(known);
    if s.tool_searches >= TOOL_SEARCHES_MAX {
        s.tools.tools.retain(|tool| tool.name != REGISTRY);
    }
    Go::to("plan").note("tools_found", note)
}

fn ask_plan(s: &Search) -> Ask {
    let tasks_max = if s.model.is_small { SMALL_TASKS_MAX } else { plan::TASKS_MAX };
    let tried: Vec<String> = s
        .thinking_steps
        .iter()
        .map(|task| format!("- {} {} ({})", task.tool_name, task.tool_arguments, json!(task.status).as_str().unwrap_or_default()))
        .collect();
    let example = s.tools.tools.iter().find(|tool| tool.text_argument() == Some("query")).map(|tool| &tool.name);
    let context = json!({
        "tools": s.tools.describe(&s.model),
        "tasks_max": tasks_max,
        "missing": s.missing,
        "tried": tried.join("\n"),
        "example": example,
        "revised": s.revised,
        "revisions": s.revisions,
    });
    let evidence = if s.missing.is_empty() { Vec::new() } else { answer::messages(&s.shown) };
    let messages = s.messages(prompt::render(PLAN.of(&s.model), context), evidence);
    let mut more = Map::new();
    if !s.model.is_small {
        more.insert("task_number".into(), json!({ "type": "integer" }));
        more.insert("description".into(), json!({ "type": "string" }));
    }
    let task = s.tools.call_schema(&s.model, "tool_name", "tool_arguments", &more);
    let tasks_min = usize::from(s.missing.is_empty());
    let mut properties = json!({ "tasks": { "type": "array", "items": task, "minItems": tasks_min, "maxItems": tasks_max } });
    let mut required = vec!["tasks"];
    if !s.model.is_small {
        properties["reasoning"] = json!({ "type": "string" });
        required.push("reasoning");
    }
    let schema = json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false });
    let tokens_max = if s.model.is_small { SMALL_PLAN_TOKENS_MAX } else { PLAN_TOKENS_MAX };
    Ask::one(prompt::call("plan", messages, Some(schema), tokens_max).label("planning"))
}

fn fold_plan(s: &mut Search, replies: &Replies<'_>) -> Go {
    s.iteration += 1;
    s.approved = None;
    let is_again = s.iteration > 1;
    let read = prompt::read::<plan::Planned>(replies, 0);
    let (mut tasks, unusable) = match read {
        Ok(planned) if planned.wanted_tools().is_some() && s.tools.get(REGISTRY).is_some() => {
            s.wanted_tools = planned.wanted_tools();
            s.tool_searches += 1;
            s.iteration -= 1;
            return Go::to("find_tools");
        }
        Ok(planned) => {
            s.plan_reasoning = planned.reasoning;
            let tasks = plan::tasks(planned.tasks, &s.tools, s.iteration);
            let why = match tasks.is_empty() {
                true => "it has no tasks".to_owned(),
                false => format!("none of its tasks can be called:\n{}", plan::describe_plan(&tasks)),
            };
            (tasks, why)
        }
        Err(failure) => (Vec::new(), failure.to_string()),
    };
    let is_usable = tasks.iter().any(|task| task.status == Status::Pending);
    if !is_usable && is_again {
        // There is an answer already, so an empty plan changes nothing.
        s.iteration -= 1;
        return done(s, Go::end().note("plan_again", format!("nothing more to look up: {unusable}")));
    }
    let mut notes = Vec::new();
    if !is_usable {
        // The errors of the model's tasks are in the note; only the fallback step counts.
        tasks = plan::fallback(&s.full_question(), &s.tools, s.iteration).into_iter().collect();
        let instead = tasks.first().map_or("nothing is looked up, because no tool takes a plain question".to_owned(), |task| {
            format!("one task takes its place: {} {}", task.tool_name, task.tool_arguments)
        });
        notes.push(("plan_fallback", json!({ "why": unusable, "instead": instead })));
    }
    let own_words = plan::own_words(&s.full_question(), &tasks, &s.tools).filter(|_| s.model.is_small && !is_again);
    tasks.extend(own_words);
    s.thinking_steps.extend(tasks);
    let noted = json!({ "reasoning": s.plan_reasoning, "iteration": s.iteration, "hash": plan::hash(s.current()), "tasks": listed(s.current()) });
    notes.insert(0, ("plan", noted));
    let go = match s.current().iter().any(|task| task.status == Status::Pending) {
        false => {
            s.pick();
            Go::to("synthesize")
        }
        true if s.approve == Approve::Plan => {
            (s.asked, s.objection) = (0, String::new());
            Go::to("approve")
        }
        true => {
            s.begin_tasks();
            Go::to("execute")
        }
    };
    notes.into_iter().fold(go, |go, (name, value)| go.note(name, value))
}

fn listed(tasks: &[Task]) -> Value {
    let one = |task: &Task| {
        json!({
            "task_number": task.task_number,
            "tool_name": task.tool_name,
            "tool_arguments": task.tool_arguments,
            "description": task.description,
            "status": task.status,
            "error": task.error,
        })
    };
    tasks.iter().map(one).collect()
}

/// Only the approved plan runs: if the plan has changed, the person is asked again.
fn is_agreed(s: &Search) -> bool {
    s.approve != Approve::Plan || s.approved.as_deref() == Some(plan::hash(s.current()).as_str())
}

fn ask_tasks(s: &Search) -> Ask {
    if is_agreed(s) { plan::ask(s.current(), &s.tools) } else { Ask::nothing() }
}

fn fold_tasks(s: &mut Search, replies: &Replies<'_>) -> Go {
    if !is_agreed(s) {
        s.current_mut().filter(|task| task.status == Status::Executing).for_each(|task| task.status = Status::Pending);
        return Go::to("approve").note("approval", json!({ "again": "the plan is not the one that was approved" }));
    }
    for (index, task) in s.current_mut().filter(|task| task.status == Status::Executing).enumerate() {
        match replies.value(index) {
            Ok(value) => {
                task.result = Some(found(&task.tool_name, &task.tool_arguments, value));
                task.status = Status::Completed;
            }
            Err(failure) => {
                task.error = Some(failure.to_string());
                task.status = Status::Failed;
            }
        }
    }
    if let Some(task) = instead(s) {
        let note = json!({ "why": "the tasks of the plan found nothing", "instead": format!("{} {}", task.tool_name, task.tool_arguments) });
        let statuses = plan::statuses(s.current());
        s.thinking_steps.push(task);
        s.begin_tasks();
        return Go::to("execute").note("tasks", statuses).note("plan_fallback", note);
    }
    s.pick();
    Go::to("synthesize").note("tasks", plan::statuses(s.current())).note("evidence", json!({ "passages": s.spans().len(), "shown": s.shown.len() }))
}

/// The question itself, looked up, after a small model's plan that found nothing and did not use the tool that is best for it: such a model often picks
/// one that cannot help, or the web where there are documents.
fn instead(s: &Search) -> Option<Task> {
    if !s.model.is_small || s.approve == Approve::Plan || !s.spans().is_empty() {
        return None;
    }
    let mut task = plan::fallback(&s.full_question(), &s.tools, s.iteration)?;
    task.task_number = s.current().iter().map(|task| task.task_number).max().unwrap_or(0) + 1;
    let is_tried = s.thinking_steps.iter().any(|tried| tried.tool_name == task.tool_name);
    (!is_tried && s.tools.get(&task.tool_name).is_some_and(Tool::is_look_up)).then_some(task)
}

/// A tool's reply with its spans, each labelled with its task, also if the host does not split or label them.
fn found(tool: &str, arguments: &Value, value: &Value) -> evidence::Found {
    let is_found =
        value.as_object().is_some_and(|fields| !fields.is_empty() && fields.keys().all(|name| ["text", "data", "spans"].contains(&name.as_str())));
    let whole = |text: &str, data: Option<&Value>| evidence::found(tool, evidence::Trust::Untrusted, text, data);
    let mut found = match serde_json::from_value::<evidence::Found>(value.clone()) {
        Ok(found) if is_found && !found.spans.is_empty() => found,
        Ok(found) if is_found => whole(&found.text, Some(&found.data).filter(|data| !data.is_null())),
        _ => match value {
            Value::String(text) => whole(text, None),
            other => whole("", Some(other)),
        },
    };
    answer::label(&mut found.spans, tool, arguments);
    found
}

fn ask_synthesis(s: &Search) -> Ask {
    let messages = s.messages(s.instructions(!s.shown.is_empty()), answer::messages(&s.shown));
    let schema = synthesis::schema(&s.model, s.shown.len(), s.may_go_on());
    Ask::one(prompt::call("synthesis", messages, Some(schema), s.reply_tokens()).label("writing the answer").last())
}

fn fold_synthesis(s: &mut Search, replies: &Replies<'_>) -> Go {
    let mut notes: Vec<(&str, Value)> = Vec::new();
    // Text written by this flow is not checked.
    let draft = match synthesis::read(replies.value(0)) {
        Ok(read) => {
            if let Some(how) = read.salvaged {
                notes.push(("synthesis_salvaged", json!(how)));
            }
            s.reasoning = read.reasoning;
            let unchecked = Unchecked::new(read.draft, s.shown.clone(), s.strict, s.means()).for_question(&s.full_question(), s.means());
            let go = checked(s, unchecked, read.missing);
            return notes.into_iter().fold(go, |go, (name, value)| go.note(name, value));
        }
        Err(failure) => {
            notes.push(("synthesis_failed", json!(failure.to_string())));
            if !s.answer.text.is_empty() {
                // An earlier iteration wrote one.
                return notes.into_iter().fold(done(s, Go::end()), |go, (name, value)| go.note(name, value));
            }
            if no_model::is_down(&failure) {
                let go = no_model::fail("search", &failure.message, &s.shown);
                return notes.into_iter().fold(go, |go, (name, value)| go.note(name, value));
            }
            let raw = match s.shown.is_empty() {
                // The reason is included: a user can raise a budget.
                true => format!("{NOTHING_FOUND}: {}.", failure.message.trim_end_matches('.')),
                false => answer::listed(GATHERED, &s.shown),
            };
            DraftAnswer { markdown: raw, short: None }
        }
    };
    let answer = answer::finish_draft(draft, &s.shown, false);
    let go = concluded(s, answer, String::new());
    notes.into_iter().fold(go, |go, (name, value)| go.note(name, value))
}

fn ask_check(s: &Search) -> Ask {
    s.unchecked.as_ref().map_or_else(Ask::nothing, |(unchecked, _)| unchecked.ask(s.means()))
}

fn fold_check(s: &mut Search, replies: &Replies<'_>) -> Go {
    let (mut unchecked, missing) = s.unchecked.take().unwrap_or_default();
    unchecked.fold(s.means(), replies);
    checked(s, unchecked, missing)
}

fn checked(s: &mut Search, unchecked: Unchecked, missing: String) -> Go {
    if !unchecked.is_done() {
        s.unchecked = Some((unchecked, missing));
        return Go::to("check");
    }
    let (answer, failure) = unchecked.finish();
    let go = concluded(s, answer, missing);
    failure.into_iter().fold(go, |go, why| go.note("check_failed", why))
}

/// Plans again for missing information, or ends with this answer.
fn concluded(s: &mut Search, answer: Answer, missing: String) -> Go {
    let is_found = !s.shown.is_empty();
    s.passages = answer::cited_passages(&answer, &s.shown);
    s.answer = answer;
    s.answer.html = Some(html::from_markdown(&s.answer.text));
    let summary = s.answer.summary();
    let go = if s.may_go_on() && (!missing.is_empty() || !is_found) {
        s.missing = if missing.is_empty() { "nothing was found".to_owned() } else { missing };
        Go::to("plan").note("missing", s.missing.as_str())
    } else {
        done(s, Go::end())
    };
    go.note("answer", summary)
}

/// The final output.
fn done(s: &Search, go: Go) -> Go {
    go.say("user", s.question.as_str()).say("assistant", s.answer.text.as_str())
}

fn output(s: &Search) -> Value {
    let mut output = s.answer.output("search");
    output.insert("reasoning".into(), json!(s.reasoning));
    output.insert("response_content".into(), json!(s.answer.html));
    output.insert("thinking_steps".into(), json!(s.thinking_steps));
    output.insert("iterations".into(), json!(s.iteration));
    output.insert("passages".into(), json!(s.passages));
    Value::Object(output)
}

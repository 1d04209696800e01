//! Answers by intent: searches, summarizes earlier answers, or answers about the conversation itself.
//!
//! ```text
//!                 ┌ conversation_query ────────────────────────► recall ────────┐
//!   start ► intent ┤                                              model          ▼
//!           model  └ search, summarize ► plan ► run the stages ► answer ───────► end
//!                                        model   search.search    model, over the results
//!                                                summary.summarize
//! ```
//!
//! Only necessary stages run, and results that a row already has are not computed again ([`Row`]; search results are kept in their thread for a day and
//! reused for the same question). If a model's reply is not usable, keywords decide the intent and the intent decides the stages. With a small model the
//! intent decides the stages always. A summary of what was just found is checked against it like any answer.
//!
//! The specification calls the stage `summarize` when it is planned and `summary` when it was executed; here it has one name.

mod csv;
mod import;
mod review;
mod rows;
mod stages;
mod words;

#[cfg(test)]
mod tests;

use evidence::Span;
use graph::{Ask, END, Go, Graph, GraphError, Message, Replies, WITHOUT_FINDINGS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::answer::{self, Answer};
use crate::claims::{self, DraftAnswer};
use crate::descriptor::{Descriptor, Needs, Routing};
use crate::direct::ANSWER;
use crate::follow_up;
use crate::input::{self, Input, ModelProfile};
use crate::no_model;
use crate::prompt::{self, Prompt};
use crate::settings::SettingsType;
use crate::verify::{CheckOptions, Unchecked, Verify};

pub use self::csv::{COLUMNS, CsvError, export, import};
pub use self::import::{FLOW as IMPORT_FLOW, IMPORT, flow as importer};
pub use self::review::review;
pub use words::intent_by_words;

/// Descriptor of this flow.
pub const FLOW: Descriptor = Descriptor {
    title: "Conversation",
    description: "Recognizes the intent of each message: search, summarize, or talk about earlier messages",
    routing: Some(Routing {
        purpose: "about this conversation: a summary of it, an earlier question or answer, a short follow-up",
        examples: &["What was my second question?"],
        needs: Needs::Conversation,
        substitutes: &["direct", "search", "reason"],
        may_be_replaced: true,
    }),
    answer: Some(ANSWER),
    settings: Some(SettingsType::of::<Settings>()),
    ..Descriptor::new("chat", |_| flow())
};

/// Builds the graph.
pub fn flow() -> Result<Graph, GraphError> {
    Graph::of::<Chat>("chat")
        .node("intent", (ask_intent, fold_intent), &["plan", "recall"])
        .node("plan", (ask_plan, fold_plan), &["run", "answer"])
        .node("run", (stages::ask, stages::fold), &["run", "answer"])
        .node("answer", (ask_answer, fold_answer), &["check", END])
        .node("check", (ask_check, fold_check), &["check", END])
        .node("recall", (ask_recall, fold_recall), &[END])
        .input(begin)
        .output(output)
        .recall(rows::recall)
        .keep(rows::keep)
        .build()
}

const MESSAGES_MAX: usize = 5;
const INTENT_TOKENS_MAX: u32 = 40;
const PLAN_TOKENS_MAX: u32 = 80;
const ANSWER_TOKENS_MAX: u32 = 1_024;
const SMALL_ANSWER_TOKENS_MAX: u32 = 480;
const LISTED_TOKENS_MAX: usize = 1_500;
/// Limit on recalled messages. All are stored, but a model can be shown only so many.
pub(crate) const RECALLED_MESSAGES_MAX: usize = 200;

const INTENT: Prompt = Prompt { long: include_str!("intent.md"), short: include_str!("intent.small.md") };
const PLAN: &str = include_str!("plan.md");
const RESPOND: Prompt = Prompt { long: include_str!("answer.md"), short: claims::PROMPT };
const RECALL: Prompt = Prompt { long: include_str!("recall.md"), short: include_str!("recall.small.md") };

/// What a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// Something to look up.
    Search,
    /// A summary.
    Summarize,
    /// Something that was said earlier in the conversation.
    ConversationQuery,
}

/// A stage of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Looking up.
    Search,
    /// Summarizing what was found.
    Summarize,
    /// Answering from the conversation.
    ConversationQuery,
}

/// The stored row of one turn, with the specification's column names. An empty text means that there is no result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Row {
    /// The user's message.
    pub query: String,
    /// Number of the turn in its thread.
    pub turn: u64,
    /// Result of the search stage.
    pub search_results: String,
    /// Its confidence, 0 to 1.
    pub search_confidence: Option<f64>,
    /// Result of the summary stage.
    pub summary: String,
    /// Its confidence, 0 to 1.
    pub summary_confidence: Option<f64>,
    /// The supported sentences of the summary.
    pub reviewed_summary: String,
    /// Share of supported statements, 0 to 1.
    pub review_confidence: Option<f64>,
    /// What the turn adds to earlier turns.
    pub insights: String,
    /// Its confidence, 0 to 1.
    pub insights_confidence: Option<f64>,
}

/// User settings of this flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Who checks the answer: `fast` (rules and the verifier), `model` (a large model also decides what stays uncertain), or `rules`.
    pub verify: Verify,
    /// The stored row for this question, if it was asked before.
    #[schemars(skip)]
    pub row: Option<Row>,
    /// The number of this turn in the thread.
    #[schemars(skip)]
    pub turn: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Chat {
    question: String,
    history: Vec<Message>,
    /// Indexes into `history` of answers without findings; they are not summarized.
    #[serde(default)]
    without_findings: Vec<usize>,
    model: ModelProfile,
    strict: bool,
    /// The user named documents; they are searched in addition.
    #[serde(default)]
    docs: bool,
    row: Row,
    intent: Intent,
    planned: Vec<Stage>,
    executed: Vec<Stage>,
    /// Stages that failed, and why.
    failed: Vec<(Stage, String)>,
    spans: Vec<Span>,
    /// Why the intent could not be classified, if the model is down.
    #[serde(default)]
    model_failure: Option<String>,
    /// The summary was extracted from the texts because no model wrote it.
    #[serde(default)]
    is_summary_extracted: bool,
    #[serde(default)]
    verify: Verify,
    /// The model's answer until it is checked.
    #[serde(default)]
    unchecked: Option<Unchecked>,
    answer: Option<Answer>,
}

fn begin(input: Input<Settings>) -> Chat {
    let settings = input.settings.unwrap_or_default();
    let turn = settings.turn.unwrap_or_else(|| input.history.iter().filter(|message| message.role == "user").count() as u64 + 1);
    // A follow-up question has a different meaning each time.
    let stands_alone = follow_up::in_full(&input.question, &input.history) == input.question;
    let is_same = |row: &Row| stands_alone && row.query.trim().eq_ignore_ascii_case(input.question.trim());
    let row = settings.row.filter(is_same).unwrap_or_default();
    Chat {
        row: Row { query: input.question.clone(), turn, ..row },
        question: input.question,
        history: input.history,
        without_findings: input.without_findings,
        model: input.model,
        strict: input.strict,
        docs: input.docs,
        intent: Intent::Search,
        planned: Vec::new(),
        executed: Vec::new(),
        failed: Vec::new(),
        spans: Vec::new(),
        model_failure: None,
        is_summary_extracted: false,
        verify: settings.verify,
        unchecked: None,
        answer: None,
    }
}

impl Chat {
    /// The question in full, for tools that are not given the conversation.
    fn full_question(&self) -> String {
        follow_up::in_full(&self.question, &self.history)
    }

    /// Earlier answers that hold findings, oldest first: the material of a summary.
    fn findings(&self) -> Vec<&str> {
        let is_finding = |index: usize, message: &Message| message.role == "assistant" && !self.without_findings.contains(&index);
        let found = self.history.iter().enumerate().filter(|(index, message)| is_finding(*index, message));
        found.map(|(_, message)| message.content.trim()).filter(|text| !text.is_empty()).collect()
    }

    fn means(&self) -> CheckOptions<'_> {
        CheckOptions { verify: self.verify, model: &self.model }
    }

    fn last_messages(&self) -> Vec<Message> {
        input::last_messages(&self.history, MESSAGES_MAX)
    }

    fn holds(&self, stage: Stage) -> bool {
        match stage {
            Stage::Search => !self.row.search_results.trim().is_empty(),
            Stage::Summarize => !self.row.summary.trim().is_empty(),
            Stage::ConversationQuery => false,
        }
    }

    fn answer_tokens(&self) -> u32 {
        if self.model.is_small { SMALL_ANSWER_TOKENS_MAX } else { ANSWER_TOKENS_MAX }
    }

    /// System prompt, the last messages, the question.
    fn prompt_messages(&self, system: String) -> Vec<Message> {
        let mut messages = vec![prompt::system(system)];
        messages.extend(input::fitted(&self.last_messages(), self.model.history_tokens()));
        messages.push(prompt::user(prompt::clipped(&self.question, self.model.question_tokens())));
        messages
    }
}

/// Results of executed stages only; a result taken from the stored row is listed under `reused`.
fn output(s: &Chat) -> Value {
    let mut output = s.answer.clone().unwrap_or_default().output("chat");
    let mut results = Map::new();
    for stage in &s.executed {
        match stage {
            Stage::Search => {
                results.insert("search_results".into(), json!(s.row.search_results));
                results.insert("search_confidence".into(), json!(s.row.search_confidence));
            }
            Stage::Summarize => {
                results.insert("summary".into(), json!(s.row.summary));
                results.insert("summary_confidence".into(), json!(s.row.summary_confidence));
            }
            Stage::ConversationQuery => {
                results.insert("conversation_response".into(), json!(s.answer.as_ref().map(|answer| &answer.text)));
            }
        }
    }
    let mut last = s.history.clone();
    last.push(prompt::user(s.question.as_str()));
    last.extend(s.answer.as_ref().map(|answer| prompt::message("assistant", answer.text.as_str())));
    let more = json!({
        "intent": s.intent,
        "planned_stages": s.planned,
        "executed_stages": s.executed,
        "failed_stages": s.failed.iter().map(|(stage, why)| json!({ "stage": stage, "why": why })).collect::<Vec<_>>(),
        "results": results,
        "last_messages": input::last_messages(&last, MESSAGES_MAX),
        "row": s.row,
        WITHOUT_FINDINGS: s.row.search_results.trim().is_empty() && s.row.summary.trim().is_empty(),
    });
    if let Value::Object(more) = more {
        output.extend(more);
    }
    Value::Object(output)
}

fn ask_intent(s: &Chat) -> Ask {
    let schema = json!({
        "type": "object",
        "required": ["intent"],
        "additionalProperties": false,
        "properties": { "intent": { "enum": ["search", "summarize", "conversation_query"] } },
    });
    let text = prompt::render(INTENT.of(&s.model), json!({}));
    Ask::one(prompt::call("intent", s.prompt_messages(text), Some(schema), INTENT_TOKENS_MAX).label("recognizing the intent"))
}

fn fold_intent(s: &mut Chat, replies: &Replies<'_>) -> Go {
    #[derive(Deserialize)]
    struct Detected {
        intent: Intent,
    }
    let (intent, by) = match prompt::read::<Detected>(replies, 0) {
        Ok(detected) => (detected.intent, "model"),
        Err(failure) => {
            s.model_failure = no_model::is_down(&failure).then(|| failure.message.clone());
            match failure.output.as_deref().and_then(words::intent_named) {
                Some(intent) => (intent, "model"),
                None => (intent_by_words(&s.question), "words"),
            }
        }
    };
    s.intent = intent;
    let note = json!({ "intent": intent, "by": by });
    if intent == Intent::ConversationQuery {
        s.planned = vec![Stage::ConversationQuery];
        return Go::to("recall").note("intent", note).note("stages", json!(s.planned));
    }
    Go::to("plan").note("intent", note)
}

/// The stage that the intent itself requires. The planner may omit it or add the other one.
fn own_stage(intent: Intent) -> Stage {
    match intent {
        Intent::Search => Stage::Search,
        Intent::Summarize => Stage::Summarize,
        Intent::ConversationQuery => Stage::ConversationQuery,
    }
}

/// If the row already has the results, there is nothing to plan. A small model plans summaries that nobody asked for, so with it the intent decides.
fn ask_plan(s: &Chat) -> Ask {
    if s.model.is_small || s.holds(own_stage(s.intent)) {
        return Ask::nothing();
    }
    let held: Vec<Stage> = [Stage::Search, Stage::Summarize].into_iter().filter(|stage| s.holds(*stage)).collect();
    let text = prompt::render(PLAN, json!({ "intent": s.intent, "held": held, "responses": s.findings().len() }));
    let schema = json!({
        "type": "object",
        "required": ["stages"],
        "additionalProperties": false,
        "properties": { "stages": { "type": "array", "maxItems": 2, "items": { "enum": ["search", "summarize"] } } },
    });
    Ask::one(prompt::call("plan", s.prompt_messages(text), Some(schema), PLAN_TOKENS_MAX).label("planning"))
}

fn fold_plan(s: &mut Chat, replies: &Replies<'_>) -> Go {
    #[derive(Deserialize)]
    struct Planned {
        stages: Vec<Stage>,
    }
    let own = own_stage(s.intent);
    let mut stages = match prompt::read::<Planned>(replies, 0) {
        Ok(planned) => planned.stages,
        Err(_) => vec![own],
    };
    stages.retain(|stage| *stage != Stage::ConversationQuery);
    // The user asked for it, so it is never left out.
    if !stages.contains(&own) {
        stages.push(own);
    }
    // In dependency order, each once, without stages whose result already exists.
    s.planned = [Stage::Search, Stage::Summarize].into_iter().filter(|stage| stages.contains(stage) && !s.holds(*stage)).collect();
    let reused: Vec<Stage> = stages.into_iter().filter(|stage| s.holds(*stage)).collect();
    let to = if s.planned.is_empty() { "answer" } else { "run" };
    Go::to(to).note("stages", json!({ "planned": s.planned, "reused": reused }))
}

/// The evidence of an answer: passages, or the row's text where only that is left.
fn spans(s: &Chat) -> Vec<Span> {
    if !s.spans.is_empty() || s.row.search_results.trim().is_empty() {
        return s.spans.clone();
    }
    evidence::found(stages::SEARCH, evidence::Trust::Untrusted, &s.row.search_results, None).spans
}

fn prompt_messages(s: &Chat) -> (Vec<Message>, Vec<Span>) {
    let instructions = claims::with_abstention(&prompt::render(RESPOND.of(&s.model), json!({})), &s.model, spans(s).len());
    answer::with_evidence(s.prompt_messages(instructions), &spans(s), &s.full_question(), &s.model, s.answer_tokens())
}

/// A summary is the answer; search results need one written, if there are any.
fn ask_answer(s: &Chat) -> Ask {
    if s.holds(Stage::Summarize) || spans(s).is_empty() {
        return Ask::nothing();
    }
    let (messages, shown) = prompt_messages(s);
    let schema = claims::schema(&s.model, shown.len());
    Ask::one(prompt::call(ANSWER, messages, schema, s.answer_tokens()).label("answering").last())
}

fn fold_answer(s: &mut Chat, replies: &Replies<'_>) -> Go {
    if s.holds(Stage::Summarize) && (s.intent == Intent::Summarize || s.executed.contains(&Stage::Summarize)) {
        if let Some(why) = s.model_failure.as_ref().filter(|_| s.is_summary_extracted) {
            let found = Span { text: s.row.summary.clone(), source: stages::SUMMARIZE.to_owned(), ..Span::default() };
            return no_model::fail("chat", why, &[found]);
        }
        let summary = DraftAnswer { markdown: s.row.summary.clone(), short: None };
        let material = if s.executed.contains(&Stage::Search) { spans(s) } else { Vec::new() };
        if material.is_empty() {
            let answer = answer::finish(&summary.markdown, &[], false);
            return end(s, answer);
        }
        return checked(s, Unchecked::new(summary, material, s.strict, s.means()));
    }
    let (_, shown) = prompt_messages(s);
    let answer = match claims::read_reply(replies, claims::is_asked(&s.model, shown.len())) {
        // A search with words that a model would have chosen better, or a summary that no model wrote.
        _ if shown.is_empty() && s.model_failure.is_some() => {
            return no_model::fail("chat", s.model_failure.as_deref().unwrap_or_default(), &[]);
        }
        _ if shown.is_empty() => {
            let why = s.failed.iter().map(|(_, why)| why.as_str()).collect::<Vec<_>>().join("; ");
            let words = match s.intent {
                Intent::Summarize if s.findings().is_empty() => {
                    "There is nothing to sum up yet: nothing was looked up or answered in this conversation.".to_owned()
                }
                _ if why.is_empty() => format!("I found nothing about {:?}.", s.question),
                _ => format!("I could not find anything out: {why}."),
            };
            answer::finish(&words, &[], false)
        }
        Ok(draft) => {
            let unchecked = Unchecked::new(draft, shown, s.strict, s.means()).for_question(&s.full_question(), s.means());
            return checked(s, unchecked);
        }
        Err(failure) if no_model::is_down(&failure) => {
            return no_model::fail("chat", &failure.message, &answer::pick(&spans(s), &s.full_question(), LISTED_TOKENS_MAX));
        }
        Err(_) => {
            let shown = answer::pick(&spans(s), &s.full_question(), LISTED_TOKENS_MAX);
            answer::finish(&answer::listed("No model wrote an answer; this was found:", &shown), &shown, false)
        }
    };
    end(s, answer)
}

fn ask_check(s: &Chat) -> Ask {
    s.unchecked.as_ref().map_or_else(Ask::nothing, |unchecked| unchecked.ask(s.means()))
}

fn fold_check(s: &mut Chat, replies: &Replies<'_>) -> Go {
    let mut unchecked = s.unchecked.take().unwrap_or_default();
    unchecked.fold(s.means(), replies);
    checked(s, unchecked)
}

fn checked(s: &mut Chat, unchecked: Unchecked) -> Go {
    if !unchecked.is_done() {
        s.unchecked = Some(unchecked);
        return Go::to("check");
    }
    let (answer, failure) = unchecked.finish();
    failure.into_iter().fold(end(s, answer), |go, why| go.note("check_failed", why))
}

/// From the conversation alone: no tool, no passage.
fn ask_recall(s: &Chat) -> Ask {
    let all = input::last_messages(&s.history, RECALLED_MESSAGES_MAX);
    if all.is_empty() {
        return Ask::nothing();
    }
    let tokens_max = (s.model.context_tokens as usize / 2).min(if s.model.is_small { 1_500 } else { 16_000 });
    let recalled: Vec<Value> =
        input::fitted(&all, tokens_max).iter().map(|message| json!({ "role": message.role, "content": message.content })).collect();
    let left_out = s.history.len().saturating_sub(recalled.len());
    let text = prompt::render(RECALL.of(&s.model), json!({ "said": recalled, "left_out": left_out }));
    let messages = vec![prompt::system(text), prompt::user(prompt::clipped(&s.question, s.model.question_tokens()))];
    Ask::one(prompt::call(ANSWER, messages, None, s.answer_tokens()).label("reading the conversation").last())
}

fn fold_recall(s: &mut Chat, replies: &Replies<'_>) -> Go {
    let text = match replies.value(0).map(prompt::text_of) {
        _ if replies.is_empty() => "We have not talked about anything yet.".to_owned(),
        Ok(Some(text)) => text,
        Err(failure) if no_model::is_down(&failure) => return no_model::fail("chat", &failure.message, &[]),
        Ok(None) | Err(_) => {
            let asked = input::last_messages(&s.history, RECALLED_MESSAGES_MAX);
            let asked: Vec<String> =
                asked.iter().filter(|message| message.role == "user").map(|message| format!("- {}", prompt::clipped(&message.content, 60))).collect();
            format!("You asked, in this order:\n\n{}", asked.join("\n"))
        }
    };
    s.executed = vec![Stage::ConversationQuery];
    // There are no passages to check it against: it is about the conversation.
    let answer = answer::finish(&text, &[], false);
    end(s, answer)
}

fn end(s: &mut Chat, answer: Answer) -> Go {
    let go = Go::end().note("answer", answer.summary()).say("user", s.question.as_str()).say("assistant", answer.text.as_str());
    s.answer = Some(answer);
    go
}

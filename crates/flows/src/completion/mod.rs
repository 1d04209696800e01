//! Chat clients may want more than an answer: calls of tools that the client has, and an answer in a schema of the client.
//!
//! ```text
//!   start ► offer ─── the model calls a tool of the client ──────────────► end: `tool_calls`
//!             │ model                                                      ▲
//!             └► answer ─── no schema ─────────────────────────────────────┤ end: the flow's output
//!                a child run    └► shape ► shape, retried with the error ──┘ end: `answer` is JSON text
//!                of the flow       model
//! ```
//!
//! The client executes its own tools: the run ends with the calls, and their results arrive in a new request. A client without tools and
//! schema gets the child's output unchanged.

use graph::{Ask, END, Effect, Failure, FailureKind, Go, Graph, GraphError, Message, ModelCall, Replies, Request, ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::descriptor::{Calls, Descriptor, InputKind, Visibility};
use crate::input::{self, ModelProfile};
use crate::prompt;

/// Descriptor of this flow.
pub const FLOW: Descriptor = Descriptor {
    title: "Completion",
    description: "Answers a chat client that has tools or a form of its own",
    visibility: Visibility::Internal,
    calls: Calls::Given,
    input: InputKind::Own(|question| json!({ "flow": "direct", "question": question.text, "input": question.input() })),
    ..Descriptor::new("completion", |_| flow())
};

/// Builds the graph.
pub fn flow() -> Result<Graph, GraphError> {
    Graph::of::<Completion>("completion")
        .node("offer", (ask_offer, fold_offer), &["offer", "answer", END])
        .node("answer", (ask_answer, fold_answer), &["shape", END])
        .node("shape", (ask_shape, fold_shape), &["shape", END])
        .input(|input: Input| Completion { input, attempts: 0, objection: String::new(), calls: Vec::new(), output: Value::Null })
        .output(|s| s.output.clone())
        .delegates()
        .build()
}

/// Input of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The flow that answers, and its input.
    pub flow: String,
    /// The input of that flow.
    pub input: Value,
    /// The last user message.
    pub question: String,
    /// Earlier messages.
    #[serde(default)]
    pub history: Vec<Message>,
    /// Profile of the model.
    #[serde(default)]
    pub model: ModelProfile,
    /// The client's tools.
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
    /// Whether a tool must be called.
    #[serde(default)]
    pub choice: ToolChoice,
    /// The JSON schema of the answer.
    #[serde(default)]
    pub schema: Option<Value>,
    /// Fields of the request that the protocol repeats in its response; not shown to a model.
    #[serde(default)]
    pub request: Value,
}

/// Whether one of the client's tools must be called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// None is called.
    None,
    /// One must be called, whichever.
    Required,
    /// The named tool must be called.
    Named(String),
}

#[derive(Serialize, Deserialize)]
struct Completion {
    input: Input,
    /// Model calls of the current node without a usable reply.
    attempts: u32,
    /// What was wrong with the last reply.
    objection: String,
    calls: Vec<Value>,
    output: Value,
}

/// The purposes of the model calls.
pub const OFFER: &str = "caller_tools";
/// The purpose of the call that shapes the answer.
pub const SHAPE: &str = "format";

const TOKENS_MAX: u32 = 1_024;
const SHAPE_TOKENS_MAX: u32 = 4_096;
const FLOW_MS_MAX: u64 = 30 * 60 * 1_000;
/// Model calls for tools or for the schema; the second includes the error of the first.
const ATTEMPTS_MAX: u32 = 2;

const OFFER_SYSTEM: &str = "Decide whether one of the tools is needed for the user's last message. If so, call it with complete arguments. If none is needed, or the \
     results that are there are enough, reply with the single word NONE.";
const SHAPE_SYSTEM: &str = "Put the given answer into JSON that fits the schema. Add nothing that the answer does not say. Reply with the JSON only.";

fn offered(s: &Completion) -> Vec<ToolSpec> {
    match &s.input.choice {
        ToolChoice::None => Vec::new(),
        ToolChoice::Auto | ToolChoice::Required => s.input.tools.clone(),
        ToolChoice::Named(name) => s.input.tools.iter().filter(|tool| tool.name == *name).cloned().collect(),
    }
}

fn must_call(s: &Completion) -> bool {
    matches!(s.input.choice, ToolChoice::Required | ToolChoice::Named(_))
}

fn ask_offer(s: &Completion) -> Ask {
    let tools = offered(s);
    if tools.is_empty() {
        return Ask::nothing();
    }
    let must = if must_call(s) { " A call is required here." } else { "" };
    let objection = if s.objection.is_empty() { String::new() } else { format!(" The last reply was not usable: {}", s.objection) };
    let mut messages = vec![prompt::system(format!("{OFFER_SYSTEM}{must}{objection}"))];
    messages.extend(input::fitted(&s.input.history, s.input.model.history_tokens()));
    messages.push(prompt::user(prompt::clipped(&s.input.question, s.input.model.question_tokens())));
    let mut request = prompt::call(OFFER, messages, None, TOKENS_MAX).label("choosing among the caller's tools").attempts(1);
    if let Effect::CallModel(ModelCall { tools: named, .. }) = &mut request.effect {
        *named = tools;
    }
    Ask::one(request)
}

fn fold_offer(s: &mut Completion, replies: &Replies<'_>) -> Go {
    if replies.is_empty() {
        return Go::to("answer");
    }
    let calls = match replies.value(0) {
        Ok(value) => value.get("tool_calls").and_then(Value::as_array).cloned().unwrap_or_default(),
        Err(failure) if failure.kind == FailureKind::Invalid => return retry_or_fail(s, "offer", "call a tool", failure.message),
        Err(failure) => return Go::fail(format!("no model answered: {}", failure.message)),
    };
    if calls.is_empty() {
        return if must_call(s) { retry_or_fail(s, "offer", "call a tool", "it called none".to_owned()) } else { Go::to("answer") };
    }
    let words = calls.iter().filter_map(|call| call["name"].as_str()).collect::<Vec<_>>().join(", ");
    s.output = json!({ "answer": "", "tool_calls": calls });
    s.calls = calls;
    Go::end().note("handed_back", words)
}

/// Retries with the objection, or ends the run.
fn retry_or_fail(s: &mut Completion, node: &'static str, task: &str, why: String) -> Go {
    s.attempts += 1;
    if s.attempts < ATTEMPTS_MAX {
        s.objection = why;
        return Go::to(node);
    }
    Go::fail(format!("{UNFIT}: the model was to {task} and did not, in {ATTEMPTS_MAX} attempts; the last time: {why}"))
}

/// Start of the error message of a run whose model did not follow the caller's tools or schema.
pub const UNFIT: &str = "unusable reply";

fn ask_answer(s: &Completion) -> Ask {
    let agent = graph::agent(s.input.flow.as_str(), s.input.input.clone());
    Ask::one(Request::from(agent).label(s.input.flow.as_str()).deadline_ms(FLOW_MS_MAX).last())
}

fn fold_answer(s: &mut Completion, replies: &Replies<'_>) -> Go {
    s.attempts = 0;
    match replies.value(0) {
        Ok(output) => s.output = output.clone(),
        Err(Failure { message, .. }) => return Go::fail(message),
    }
    if s.input.schema.is_some() { Go::to("shape") } else { final_message(s) }
}

fn answer_of(output: &Value) -> String {
    output.get("answer").and_then(Value::as_str).map_or_else(|| output.to_string(), str::to_owned)
}

fn final_message(s: &Completion) -> Go {
    Go::end().say("user", s.input.question.as_str()).say("assistant", answer_of(&s.output))
}

fn ask_shape(s: &Completion) -> Ask {
    let objection = if s.objection.is_empty() { String::new() } else { format!("\nThe last attempt did not fit: {}", s.objection) };
    let answer = prompt::clipped(&answer_of(&s.output), s.input.model.question_tokens());
    let question = prompt::clipped(&s.input.question, s.input.model.question_tokens());
    let messages = vec![prompt::system(SHAPE_SYSTEM), prompt::user(format!("Question: {question}\n\nAnswer: {answer}{objection}"))];
    Ask::one(
        prompt::call(SHAPE, messages, s.input.schema.clone(), SHAPE_TOKENS_MAX)
            .label("converting the answer to the requested form")
            .attempts(1)
            .last(),
    )
}

fn fold_shape(s: &mut Completion, replies: &Replies<'_>) -> Go {
    match replies.value(0) {
        Ok(value) => {
            let json = match value {
                Value::String(text) => prompt::json_in(value).unwrap_or_else(|| json!(text)),
                other => other.clone(),
            };
            if let Some(output) = s.output.as_object_mut() {
                // Sentences and their ranges refer to the text before shaping.
                output.retain(|name, _| matches!(name.as_str(), "sources" | "flow"));
                output.insert("answer".to_owned(), json!(json.to_string()));
                output.insert("parsed".to_owned(), json);
            } else {
                s.output = json!({ "answer": json.to_string(), "parsed": json });
            }
            final_message(s)
        }
        Err(failure) if failure.kind == FailureKind::Invalid => retry_or_fail(s, "shape", "fit the answer into the schema", failure.message),
        Err(failure) => Go::fail(format!("no model answered: {}", failure.message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driven::{DrivenRun, ScriptedReply, drive};

    #[allow(clippy::needless_pass_by_value, reason = "cases read better with values")]
    fn input(more: Value) -> Value {
        let mut input = json!({ "flow": "direct", "question": "Weather in Paris?", "input": { "question": "Weather in Paris?" } });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    }

    fn weather() -> Value {
        json!({ "name": "weather", "description": "", "schema": { "type": "object", "properties": { "city": { "type": "string" } } } })
    }

    fn driven(more: Value, offer: &[ScriptedReply], shape: &[ScriptedReply]) -> DrivenRun {
        drive(&flow().unwrap(), input(more), |effect, before| match effect.name() {
            OFFER => offer[before].clone(),
            SHAPE => shape[before].clone(),
            "direct" => Ok(json!({ "answer": "It rains.", "sources": [], "sentences": [1] })),
            other => panic!("{other} is not asked"),
        })
    }

    fn invalid() -> ScriptedReply {
        Err(Failure::new(FailureKind::Invalid, "city is missing"))
    }

    #[test]
    fn without_tools_and_form_the_flow_answers() {
        let driven = driven(json!({}), &[], &[]);
        assert_eq!((driven.answer(), driven.effects().count()), ("It rains.", 1));
        assert_eq!(driven.messages.len(), 2);
    }

    #[test]
    fn a_call_of_the_callers_tool_ends_the_run_and_the_flow_is_not_asked() {
        let calls = json!({ "text": "", "tool_calls": [{ "name": "weather", "arguments": { "city": "Paris" } }] });
        let driven = driven(json!({ "tools": [weather()] }), &[Ok(calls.clone())], &[]);
        assert_eq!(driven.output()["tool_calls"], calls["tool_calls"]);
        assert_eq!(driven.models(OFFER)[0].tools[0].name, "weather");
        assert_eq!(driven.effects().count(), 1);
    }

    #[test]
    fn a_model_that_calls_none_leaves_the_question_to_the_flow() {
        assert_eq!(driven(json!({ "tools": [weather()] }), &[Ok(json!("NONE"))], &[]).answer(), "It rains.");
        assert_eq!(driven(json!({ "tools": [weather()], "choice": "none" }), &[], &[]).answer(), "It rains.");
        let forced = driven(json!({ "tools": [weather()], "choice": { "named": "weather" } }), &[Ok(json!("NONE")), invalid()], &[]);
        assert!(matches!(&forced.outcome, graph::Outcome::Failed { fault } if fault.to_string().contains(UNFIT)), "{:?}", forced.outcome);
        assert!(forced.models(OFFER)[1].messages[0].content.contains("it called none"));
    }

    #[test]
    fn an_answer_is_put_into_the_form_with_one_more_attempt() {
        let schema = json!({ "type": "object", "required": ["city"], "properties": { "city": { "type": "string" } } });
        let fitted = driven(json!({ "schema": schema }), &[], &[invalid(), Ok(json!({ "city": "Paris" }))]);
        assert_eq!((fitted.answer(), &fitted.output()["parsed"]), (r#"{"city":"Paris"}"#, &json!({ "city": "Paris" })));
        assert!(fitted.models(SHAPE)[1].messages[1].content.contains("city is missing"));
        let unfit = driven(json!({ "schema": schema }), &[], &[invalid(), invalid()]);
        assert!(matches!(unfit.outcome, graph::Outcome::Failed { .. }));
    }
}

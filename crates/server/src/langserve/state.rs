//! A caller's input as a flow takes it, and what a flow answers as its caller takes it.

use engine::{Delivery, Engine, EngineError, History};
use graph::{Effect, Event, Key, Question, RunId, TaskId, ThreadId, UserId, child_run};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use wire::langserve::{Message, MessageKind, state_schema};

use super::Refused;

/// Which input and output a flow has for LangServe's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputShape {
    /// An agent of a team: it takes a state and gives one.
    Agent,
    /// It answers questions. It takes a state, `{"question": …}` or a text; to a state it answers with a state, otherwise with its own output.
    Question,
    /// Its own input and output as they are.
    Bare,
}

impl InputShape {
    pub(crate) fn input_schema(self, flow: &str) -> Value {
        let state = || state_schema(&format!("{flow}Input"));
        match self {
            InputShape::Agent => state(),
            InputShape::Question => {
                let question =
                    json!({ "type": "object", "required": ["question"], "properties": { "question": { "title": "Question", "type": "string" } } });
                let mut schema = state();
                let defs = schema.as_object_mut().and_then(|fields| fields.remove("$defs")).unwrap_or_default();
                json!({ "$defs": defs, "anyOf": [schema, question, { "type": "string" }], "title": format!("{flow}Input") })
            }
            InputShape::Bare => json!({ "title": format!("{flow}Input") }),
        }
    }

    pub(crate) fn output_schema(self, flow: &str) -> Value {
        match self {
            InputShape::Agent => state_schema(&format!("{flow}Output")),
            InputShape::Question | InputShape::Bare => json!({ "title": format!("{flow}Output"), "type": "object" }),
        }
    }
}

/// The form of the request, which decides the form of the response.
pub(crate) enum RequestShape {
    State { messages: Vec<Message>, context: Map<String, Value>, rest: Map<String, Value>, input_shape: InputShape },
    Other,
}

/// A person's answer to a question that was returned under `waiting`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Answer {
    run: RunId,
    task: TaskId,
    attempt: u32,
    value: Value,
}

/// A question of a run, or of one below it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PendingQuestion {
    run: RunId,
    task: TaskId,
    attempt: u32,
    #[serde(flatten)]
    question: Question,
}

/// Names the fields of a state; others in it belong to the caller and are given back.
const FIELDS: [&str; 3] = ["messages", "next", "context"];

/// Fields of `base` replace those of the caller.
pub(super) fn taken(input_shape: InputShape, base: Map<String, Value>, input: Value) -> Result<(Value, RequestShape, Vec<Answer>), Refused> {
    let (mut given, shape, answers) = match (input_shape, input) {
        (InputShape::Bare, input) => (input, RequestShape::Other, Vec::new()),
        (InputShape::Agent | InputShape::Question, Value::Object(fields)) if fields.contains_key("messages") => of_state(input_shape, fields)?,
        (InputShape::Question, Value::Object(mut fields)) => {
            let question = fields.remove("question").ok_or_else(|| Refused::wrong("missing", &["messages"], "Field required"))?;
            (json!({ "question": question }), RequestShape::Other, Vec::new())
        }
        (InputShape::Question, Value::String(question)) => (json!({ "question": question }), RequestShape::Other, Vec::new()),
        (InputShape::Agent, Value::Object(_)) => return Err(Refused::wrong("missing", &["messages"], "Field required")),
        (InputShape::Agent | InputShape::Question, _) => return Err(Refused::wrong("dict_type", &["input"], "Input should be a valid dictionary")),
    };
    if let Value::Object(fields) = &mut given {
        fields.extend(base);
    }
    Ok((given, shape, answers))
}

fn of_state(input_shape: InputShape, mut fields: Map<String, Value>) -> Result<(Value, RequestShape, Vec<Answer>), Refused> {
    let Some(Value::Array(list)) = fields.remove("messages") else {
        return Err(Refused::wrong("list_type", &["messages"], "Input should be a valid list"));
    };
    let mut messages = Vec::with_capacity(list.len());
    for (index, message) in list.into_iter().enumerate() {
        messages.push(Message::try_from(message).map_err(|why| Refused::wrong("value_error", &["messages", &index.to_string()], why))?);
    }
    let mut context = match fields.remove("context") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(context)) => context,
        Some(_) => return Err(Refused::wrong("dict_type", &["context"], "Input should be a valid dictionary")),
    };
    let answers = match context.remove("answers") {
        None | Some(Value::Null) => Vec::new(),
        Some(answers) => {
            serde_json::from_value(answers).map_err(|error| Refused::wrong("value_error", &["context", "answers"], error.to_string()))?
        }
    };
    let next = fields.remove("next").filter(Value::is_string).unwrap_or_else(|| json!(""));
    let given = match input_shape {
        InputShape::Agent => json!({ "messages": messages.iter().map(Message::to_turn).collect::<Vec<_>>(), "next": next, "context": context }),
        InputShape::Question | InputShape::Bare => {
            let last_human = messages.iter().rposition(|message| message.speaker() == MessageKind::Human);
            let last_human = last_human.ok_or_else(|| Refused::wrong("value_error", &["messages"], "there is no human message"))?;
            let turn_of = |message: &Message| match message.speaker() {
                MessageKind::Human => Some(json!({ "role": "user", "content": message.text() })),
                MessageKind::Ai | MessageKind::Chat => Some(json!({ "role": "assistant", "content": message.text() })),
                MessageKind::System | MessageKind::Tool | MessageKind::Function | MessageKind::Remove | MessageKind::Unknown => None,
            };
            let history: Vec<Value> = messages[..last_human].iter().filter_map(turn_of).collect();
            let mut given = json!({ "question": messages[last_human].text() });
            // Without messages of its own, the conversation is the thread's.
            if !history.is_empty() {
                given["history"] = json!(history);
            }
            given
        }
    };
    Ok((given, RequestShape::State { messages, context, rest: fields, input_shape }, answers))
}

impl RequestShape {
    /// Whether it holds words that may not be the user's own.
    pub(super) fn is_tainted(&self) -> bool {
        matches!(self, RequestShape::State { messages, .. } if messages.iter().any(|message| message.speaker() != MessageKind::Human))
    }

    pub(super) fn title(&self) -> Option<String> {
        let RequestShape::State { messages, .. } = self else { return None };
        let question = messages.iter().rev().find(|message| message.speaker() == MessageKind::Human)?;
        Some(question.text().chars().take(120).collect())
    }

    /// The output as the caller takes it.
    pub(super) fn shaped_output(&self, output: &Value) -> Value {
        let RequestShape::State { messages, context, rest, input_shape } = self else { return output.clone() };
        match input_shape {
            InputShape::Agent => {
                let turns = output.get("messages").and_then(Value::as_array);
                let messages: Vec<Message> = turns.into_iter().flatten().map(Message::of_turn).collect();
                let context = output.get("context").cloned().unwrap_or_else(|| json!({}));
                let next = output.get("next").cloned().unwrap_or_else(|| json!(""));
                whole(rest, &messages, &next, &context)
            }
            InputShape::Question | InputShape::Bare => {
                let answer = output.get("answer").and_then(Value::as_str).map_or_else(|| output.to_string(), str::to_owned);
                let mut messages = messages.clone();
                messages.push(Message::ai(answer));
                let mut context = context.clone();
                context.insert("output".into(), output.clone());
                whole(rest, &messages, &json!("FINISH"), &json!(context))
            }
        }
    }

    /// The response while the run waits for a person.
    pub(super) fn waiting(&self, pending: &[PendingQuestion]) -> Value {
        let RequestShape::State { messages, context, rest, .. } = self else { return json!({ "waiting": pending }) };
        let prompts: Vec<&str> = pending.iter().map(|pending| pending.question.prompt.as_str()).collect();
        let mut messages = messages.clone();
        messages.push(Message::ai(format!("A person is needed: {}", prompts.join("\n"))));
        let mut context = context.clone();
        context.insert("waiting".into(), json!(pending));
        whole(rest, &messages, &json!(""), &json!(context))
    }
}

fn whole(rest: &Map<String, Value>, messages: &[Message], next: &Value, context: &Value) -> Value {
    let mut state = Map::new();
    for (name, value) in FIELDS.into_iter().zip([json!(messages), next.clone(), context.clone()]) {
        state.insert(name.to_owned(), value);
    }
    state.extend(rest.clone());
    Value::Object(state)
}

/// The open questions of a run and of those below it.
pub(super) async fn questions(engine: &Engine, run: &RunId) -> Result<Vec<PendingQuestion>, Refused> {
    let mut pending = Vec::new();
    let mut open = vec![run.clone()];
    while let Some(run) = open.pop() {
        match engine.waiting(&run).await {
            Ok(waiting) => {
                pending.extend(waiting.into_iter().map(|one| PendingQuestion {
                    run: run.clone(),
                    task: one.task,
                    attempt: one.attempt,
                    question: one.question,
                }));
            }
            Err(EngineError::Over { .. }) => continue,
            Err(error) => return Err(Refused::of(error)),
        }
        open.extend(children(engine, &run).await?);
    }
    Ok(pending)
}

async fn children(engine: &Engine, run: &RunId) -> Result<Vec<RunId>, Refused> {
    let past = History::of(&**engine.store(), engine.flows(), run).await.map_err(Refused::of)?;
    let Some(thread) = past.start.as_ref().map(|start| start.thread.clone()) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for numbered in &past.events {
        if let Event::Asked { task, effect, .. } = &numbered.event
            && let Effect::CallAgent(call) = &**effect
            && engine.flows().contains_key(&call.agent)
        {
            let child = child_of(&thread, run, *task);
            let is_open = engine.store().run(&child).await.map_err(|error| Refused::of(error.into()))?.is_some_and(|row| !row.status.is_over());
            if is_open && !found.contains(&child) {
                found.push(child);
            }
        }
    }
    Ok(found)
}

fn child_of(thread: &ThreadId, run: &RunId, task: TaskId) -> RunId {
    child_run(Key::of(thread, run, task))
}

/// Delivers answers to the runs that asked, and returns the top-level run to wait for.
pub(super) async fn answer(engine: &Engine, user: &UserId, flow: &str, answers: &[Answer]) -> Result<RunId, Refused> {
    let unknown = |run: &RunId| Refused::wrong("value_error", &["context", "answers"], format!("there is no run {run} here that asks"));
    let mut top = None;
    for answer in answers {
        let mut row = engine.store().run(&answer.run).await.map_err(|error| Refused::of(error.into()))?.ok_or_else(|| unknown(&answer.run))?;
        while let Some(parent) = &row.parent {
            let parent = parent.clone();
            row = engine.store().run(&parent).await.map_err(|error| Refused::of(error.into()))?.ok_or_else(|| unknown(&parent))?;
        }
        // Only runs that were started over LangServe by the same user can be answered here.
        let thread = engine.store().thread(&row.thread).await.map_err(|error| Refused::of(error.into()))?;
        let is_theirs = thread.is_some_and(|thread| thread.user.as_ref() == Some(user));
        if row.flow != flow || !is_theirs {
            return Err(unknown(&answer.run));
        }
        match engine.answer(&answer.run, answer.task, answer.attempt, answer.value.clone()).await {
            Ok(Delivery::Taken | Delivery::Posted) => {}
            // Answered before: this is a retry.
            Err(EngineError::Over { .. } | EngineError::Run(_)) => {}
            Err(error) => return Err(Refused::of(error)),
        }
        top = Some(row.run);
    }
    top.ok_or_else(|| Refused::wrong("value_error", &["context", "answers"], "there are none"))
}

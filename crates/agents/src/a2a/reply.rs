//! Between a state of messages, as flows have it, and messages and tasks of A2A.

use graph::{Failure, FailureKind};
use serde_json::{Value, json};
use wire::a2a::{Artifact, Message, Part, Task, TaskState};

use crate::report::completed;

const QUESTION_CHARS_MAX: usize = 4_000;
const MESSAGE_CHARS_MAX: usize = 400;
const SOURCES_MAX: usize = 50;

pub(super) fn of_message(name: &str, input: &Value, message: &Message) -> Value {
    completed(name, input, &text_of(&message.parts), &[])
}

/// The reply of a task that has ended or waits for an answer.
pub(super) fn of_task(name: &str, input: &Value, task: &Task) -> Result<Value, Failure> {
    let status_text = task.status.message.as_ref().map(|message| text_of(&message.parts)).unwrap_or_default();
    let why = |otherwise: &str| if status_text.is_empty() { otherwise.to_owned() } else { status_text.chars().take(MESSAGE_CHARS_MAX).collect() };
    match task.status.state {
        TaskState::Completed => {
            let artifacts = task.artifacts.as_deref().unwrap_or_default();
            let texts: Vec<String> = artifacts.iter().map(|artifact| text_of(&artifact.parts)).filter(|text| !text.trim().is_empty()).collect();
            let text = if texts.is_empty() { status_text } else { texts.join("\n\n") };
            Ok(completed(name, input, &text, &sources_of(artifacts)))
        }
        TaskState::InputRequired | TaskState::AuthRequired => Ok(question_of(task, &why("It needs input and does not say which."))),
        TaskState::Failed => Err(Failure::new(FailureKind::Tool, format!("its task failed: {}", why("it does not say why")))),
        TaskState::Canceled => Err(Failure::new(FailureKind::Tool, format!("its task was cancelled there: {}", why("it does not say why")))),
        TaskState::Rejected => Err(Failure::new(FailureKind::Refused, format!("it rejected the task: {}", why("it does not say why")))),
        TaskState::Unspecified | TaskState::Submitted | TaskState::Working => {
            Err(Failure::new(FailureKind::Internal, "its task has neither ended nor asked a question"))
        }
    }
}

/// A question for the user, with the task that its answer is sent to.
fn question_of(task: &Task, prompt: &str) -> Value {
    let message = task.status.message.as_ref();
    let data = message.into_iter().flat_map(|message| &message.parts).find_map(|part| part.data.as_ref());
    let prompt = data.and_then(|data| data["question"].as_str()).unwrap_or(prompt);
    let schema = data.map(|data| &data["schema"]).filter(|schema| schema.is_object());
    let prompt: String = prompt.chars().take(QUESTION_CHARS_MAX).collect();
    let question = message.map(|message| message.message_id.as_str()).unwrap_or_default();
    json!({ "messages": [], "context": { "waiting": [{ "prompt": prompt, "schema": schema, "task": task.id, "question": question }] } })
}

/// The text of all parts, joined.
fn text_of(parts: &[Part]) -> String {
    parts.iter().filter_map(|part| part.text.as_deref()).collect()
}

/// Addresses and titles in the parts with data or an address.
fn sources_of(artifacts: &[Artifact]) -> Vec<String> {
    let parts = artifacts.iter().flat_map(|artifact| &artifact.parts);
    let named = |part: &Part| {
        let text = |name: &str| part.data.as_ref().and_then(|data| data[name].as_str());
        part.url.as_deref().or_else(|| text("address")).or_else(|| text("url")).or_else(|| text("title")).map(str::to_owned)
    };
    parts.filter_map(named).take(SOURCES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> Value {
        json!({ "messages": [{ "role": "user", "content": "research tides" }, { "role": "assistant", "content": "noted", "name": "writer" }], "context": { "capability": "research" } })
    }

    #[test]
    fn a_task_that_ended_or_waits_is_a_reply() {
        let task = |state: TaskState, artifacts: Value, message: Value| -> Task {
            serde_json::from_value(json!({ "id": "t", "status": { "state": state, "message": message }, "artifacts": artifacts })).unwrap()
        };
        let answer = json!([{ "artifactId": "a", "parts": [{ "text": "The " }, { "text": "moon." }] }, { "artifactId": "s", "parts": [{ "data": { "address": "https://sea.example" } }] }]);
        let done = of_task("sea", &input(), &task(TaskState::Completed, answer, Value::Null)).unwrap();
        let contract: Value = serde_json::from_str(done["messages"][0]["content"].as_str().unwrap()).unwrap();
        assert_eq!((&contract["completed_capability"], &contract["data"]["research_summary"]["summary"]), (&json!("research"), &json!("The moon.")));
        assert_eq!((&contract["data"]["sources"], &done["context"]["reports"]["research"]), (&json!(["https://sea.example"]), &json!("The moon.")));
        let own = json!([{ "artifactId": "a", "parts": [{ "text": "{\"failed_capability\": \"research\"}" }] }]);
        let own = of_task("sea", &input(), &task(TaskState::Completed, own, Value::Null)).unwrap();
        assert_eq!(own["messages"][0]["content"], "{\"failed_capability\": \"research\"}");
        let asks =
            json!({ "messageId": "q1", "role": "ROLE_AGENT", "parts": [{ "text": "Which sea?" }, { "data": { "schema": { "type": "string" } } }] });
        let asks = of_task("sea", &input(), &task(TaskState::InputRequired, json!([]), asks)).unwrap();
        assert_eq!(asks["context"]["waiting"], json!([{ "prompt": "Which sea?", "schema": { "type": "string" }, "task": "t", "question": "q1" }]));
        for (state, kind) in
            [(TaskState::Failed, FailureKind::Tool), (TaskState::Canceled, FailureKind::Tool), (TaskState::Rejected, FailureKind::Refused)]
        {
            let failure = of_task("sea", &input(), &task(state, json!([]), json!({ "parts": [{ "text": "no" }] }))).unwrap_err();
            assert!(failure.kind == kind && failure.message.ends_with(": no"), "{failure}");
        }
    }
}

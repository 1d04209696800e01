//! A model provider of one's own: an implementation of `Model`, added under a name beside the providers in the table.

use std::sync::Arc;

use async_trait::async_trait;
use baton::models::{Answer, Finish, Model, ModelError, ModelOutput, Models, Name, Table};
use baton::{Ask, END, Engine, Go, Graph, Key, MemoryStore, Message, ModelCall, Order, Progress, Replies, RunState, Settings, Usage, model};
use serde_json::{Value, json};

/// Answers with the last message in capital letters.
struct Capitals;

#[async_trait]
impl Model for Capitals {
    async fn answer(&self, call: &ModelCall, _key: &Key, progress: &Progress) -> Result<Answer, ModelError> {
        let last = call.messages.last().ok_or_else(|| ModelError::user("there is no message to answer"))?;
        let text = last.content.to_uppercase();
        progress.send(&text);
        Ok(Answer { output: ModelOutput::Text(text), usage: Usage::default(), model: None, finish: Finish::Stop, notes: Value::Null })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name: Name = "compat/own/capitals".parse()?;
    let models = Models::new(Table::default(), name.clone(), &|_| None)?.with(name, Arc::new(Capitals));
    let answer = (
        |state: &Value| Ask::one(model("answer", vec![Message::user(state["question"].as_str().unwrap_or_default())])),
        |state: &mut Value, replies: &Replies<'_>| match replies.value(0) {
            Ok(text) => {
                state["answer"] = text.clone();
                Go::end()
            }
            Err(failure) => Go::fail(failure.message),
        },
    );
    let flow = Graph::of::<Value>("shout").node("answer", answer, &[END]).build()?;
    let engine = Engine::new(Arc::new(MemoryStore::new()), Arc::new(models), [flow], Settings::default());
    let (_, at) = engine.perform(Order::new("shout", json!({ "question": "is anybody there?" }))).await?;
    let RunState::Over(closing) = at else { return Err("the run has not ended".into()) };
    println!("{}", closing.outcome.output().ok_or("the run failed")?["answer"]);
    Ok(())
}

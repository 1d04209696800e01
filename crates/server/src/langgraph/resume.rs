//! `Command(resume=…)`: a person's answers, for the questions that a run waits with.

use engine::{Delivery, Engine, EngineError, OpenQuestion};
use serde_json::{Value, json};
use store::RunRow;

use super::interrupts::is_breakpoint;
use super::{LangGraph, ids, invalid};
use crate::langserve::Refused;

/// Each open question with its answer.
pub(super) struct Answers(Vec<(OpenQuestion, Value)>);

impl Answers {
    pub(super) async fn give(self, engine: &Engine) -> Result<(), Refused> {
        for (open, value) in self.0 {
            // Resuming a run that only waits continues it, with any value.
            let value = if is_breakpoint(&open) && value.get("continue").is_none() { json!({ "continue": true }) } else { value };
            match engine.answer(&open.run, open.waiting.task, open.waiting.attempt, value).await {
                Ok(Delivery::Taken | Delivery::Posted) => {}
                // Answered a moment ago, by somebody else or by the same client.
                Err(EngineError::Over { .. }) => {}
                Err(EngineError::Run(error)) => return Err(invalid(error.to_string())),
                Err(error) => return Err(Refused::of(error)),
            }
        }
        Ok(())
    }
}

/// Pairs what a client sends with the questions: one value for one question, or values by the ids of the interrupts.
pub(super) async fn answers(graph: &LangGraph, head: &RunRow, resume: Value) -> Result<Answers, Refused> {
    let open = graph.open_questions(Some(head)).await?;
    if open.is_empty() {
        return Err(invalid("this thread waits for no answer; send input instead of a command"));
    }
    let id_of = |open: &OpenQuestion| ids::interrupt_id(&open.run, open.waiting.task, open.waiting.attempt);
    if let Value::Object(by_id) = &resume
        && !by_id.is_empty()
        && by_id.keys().all(|key| open.iter().any(|open| id_of(open) == *key))
    {
        let answered = open.into_iter().filter_map(|open| by_id.get(&id_of(&open)).cloned().map(|value| (open, value)));
        return Ok(Answers(answered.collect()));
    }
    match <[OpenQuestion; 1]>::try_from(open) {
        Ok([open]) => Ok(Answers(vec![(open, resume)])),
        Err(open) => {
            let all: Vec<String> = open.iter().map(id_of).collect();
            Err(invalid(format!("{} questions are open; send {{\"resume\": {{id: answer}}}} with the ids {}", all.len(), all.join(", "))))
        }
    }
}

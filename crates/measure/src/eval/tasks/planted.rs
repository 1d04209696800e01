//! Errors planted in a plan, to measure whether reflection notices and corrects them.
//!
//! [`PlantingHandler`] changes the first plan that a model makes in a run, and nothing else: the model, the tools and later plans are as they are.

use std::sync::Mutex;
use std::sync::PoisonError;

use async_trait::async_trait;
use effects::{EffectHandler, LookUp, Progress, Repeatability};
use graph::{Effect, Job, Objection, Reply};
use serde::Serialize;
use serde_json::{Value, json};

/// What is wrong with the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum PlantedError {
    /// A call that its tool rejects: a syntax error, or a path that does not exist.
    Rejected,
    /// A call that succeeds with another result: other numbers, or a search for something else.
    Wrong,
    /// The last step is missing.
    MissingStep,
}

impl PlantedError {
    pub(super) const ALL: [PlantedError; 3] = [PlantedError::Rejected, PlantedError::Wrong, PlantedError::MissingStep];

    pub(super) fn name(self) -> &'static str {
        match self {
            PlantedError::Rejected => "rejected",
            PlantedError::Wrong => "wrong",
            PlantedError::MissingStep => "missing_step",
        }
    }
}

/// The purpose of the call that makes a plan.
const PLAN: &str = "plan";

/// Tools that only read or compute, so that a wrong call leaves nothing behind, and the argument that is changed.
const PLANTABLE: [(&str, &str); 7] = [
    ("calc.calculate", "expression"),
    ("code.run_python", "code"),
    ("files.read", "path"),
    ("files.find", "pattern"),
    ("docs.search", "query"),
    ("sql.query", "sql"),
    ("tickets.get_ticket", "id"),
];
/// Searches accept any words, so no call of them is rejected.
const SEARCH: &str = "docs.search";
const UNRELATED_QUERY: &str = "opening hours of the swimming pool";

/// Performs effects through another handler and plants one error in the first plan that can have it.
pub(super) struct PlantingHandler<H> {
    inner: H,
    error: PlantedError,
    /// The changed plan, once there is one.
    planted: Mutex<Option<Value>>,
}

impl<H: EffectHandler> PlantingHandler<H> {
    pub(super) fn new(inner: H, error: PlantedError) -> Self {
        PlantingHandler { inner, error, planted: Mutex::default() }
    }

    pub(super) fn is_planted(&self) -> bool {
        self.planted.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn plant(&self, reply: &mut Reply) {
        let Ok(value) = &mut reply.result else { return };
        let mut planted = self.planted.lock().unwrap_or_else(PoisonError::into_inner);
        if planted.is_some() {
            return;
        }
        if let Some(changed) = with_error(value, self.error) {
            *value = changed.clone();
            *planted = Some(changed);
        }
    }
}

#[async_trait]
impl<H: EffectHandler> EffectHandler for PlantingHandler<H> {
    fn repeatability(&self, job: &Job) -> Repeatability {
        self.inner.repeatability(job)
    }

    fn objection(&self, job: &Job) -> Option<Objection> {
        self.inner.objection(job)
    }

    fn may_change(&self, job: &Job) -> bool {
        self.inner.may_change(job)
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        let mut reply = self.inner.perform(job, progress).await;
        if matches!(&*job.effect, Effect::CallModel(call) if call.purpose == PLAN) {
            self.plant(&mut reply);
        }
        reply
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        self.inner.look_up(job).await
    }

    async fn abandon(&self, job: &Job) {
        self.inner.abandon(job).await;
    }
}

/// The plan with the error in it, if it can have one.
fn with_error(plan: &Value, error: PlantedError) -> Option<Value> {
    let mut plan = plan.clone();
    let steps = plan.get_mut("steps")?.as_array_mut()?;
    match error {
        PlantedError::MissingStep => {
            steps.pop().filter(|_| !steps.is_empty())?;
        }
        PlantedError::Rejected | PlantedError::Wrong => {
            let change = |step: &mut Value| {
                let (tool, argument) = PLANTABLE.into_iter().find(|(tool, _)| step["tool"] == *tool)?;
                let text = step["arguments"].get(argument)?.as_str()?;
                step["arguments"][argument] = json!(changed(tool, text, error)?);
                Some(())
            };
            steps.iter_mut().find_map(change)?;
        }
    }
    // A draft of the answer belongs to the plan as it was.
    if let Some(answer) = plan.get_mut("answer") {
        *answer = Value::Null;
    }
    Some(plan)
}

fn changed(tool: &str, text: &str, error: PlantedError) -> Option<String> {
    match (error, tool) {
        (PlantedError::Rejected, SEARCH) | (PlantedError::MissingStep, _) => None,
        // No expression, program or query is valid with an open bracket at its end, and no file is called so.
        (PlantedError::Rejected, _) => Some(format!("{text} ((")),
        (PlantedError::Wrong, SEARCH) => Some(UNRELATED_QUERY.to_owned()),
        (PlantedError::Wrong, _) => {
            let other = |c: char| c.to_digit(10).and_then(|digit| char::from_digit((digit + 3) % 10, 10)).unwrap_or(c);
            let changed: String = text.chars().map(other).collect();
            (changed != text).then_some(changed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_planted_where_nothing_can_be_changed_by_it() {
        let calc = json!({ "tool": "calc.calculate", "arguments": { "expression": "12% of 4350" } });
        let write = json!({ "tool": "files.write", "arguments": { "path": "a.txt", "content": "{{1}}" } });
        let plan = json!({ "steps": [calc, write], "answer": "It is {{1}}." });
        let expression = |error| with_error(&plan, error).unwrap()["steps"][0]["arguments"]["expression"].clone();
        assert_eq!(expression(PlantedError::Rejected), json!("12% of 4350 (("));
        assert_eq!(expression(PlantedError::Wrong), json!("45% of 7683"));
        let missing = with_error(&plan, PlantedError::MissingStep).unwrap();
        assert_eq!((missing["steps"].as_array().unwrap().len(), &missing["answer"]), (1, &Value::Null));
        for error in PlantedError::ALL {
            assert_eq!(with_error(&json!({ "steps": [write] }), error), None, "{error:?}");
            assert_eq!(with_error(&json!({ "steps": [] }), error), None, "{error:?}");
            assert_eq!(with_error(&json!("no plan"), error), None, "{error:?}");
        }
        let search = json!({ "steps": [{ "tool": "docs.search", "arguments": { "query": "days of leave" } }] });
        assert_eq!(with_error(&search, PlantedError::Rejected), None);
        assert_eq!(with_error(&search, PlantedError::Wrong).unwrap()["steps"][0]["arguments"]["query"], json!(UNRELATED_QUERY));
    }
}

//! Approval of a plan: the plan that a person approves is the plan that runs; they may also send an edited plan.

use graph::{Ask, Digest, Effect, Go, Question, Replies, Request};
use serde::Deserialize;
use serde_json::{Value, json};

use super::plan::{Plan, Step};
use super::{Reason, execute, plan, respond};

pub(super) fn ask(s: &Reason) -> Ask {
    let Some(plan) = &s.plan else { return Ask::nothing() };
    let schema = json!({
        "type": "object",
        "required": ["approve"],
        "properties": { "approve": { "type": "boolean" }, "steps": { "type": "array", "items": { "type": "object" } } },
    });
    let steps = plan.steps.iter().enumerate().map(|(at, step)| format!("{}. {} {} {}", at + 1, step.description, step.tool, step.arguments));
    let listed = steps.collect::<Vec<_>>().join("\n");
    let prompt = format!("May this plan be carried out for {:?}?\n\n{listed}\n\nplan {}", s.question, digest(plan));
    Ask::one(Request::from(Effect::AskPerson(Question { prompt, schema: Some(schema) })).label("asking for approval of the plan"))
}

/// The hash of a plan: the plan that was approved is the plan that runs.
fn digest(plan: &Plan) -> Digest {
    Digest::of(&graph::tool("plan", json!(plan.steps)))
}

pub(super) fn fold(s: &mut Reason, replies: &Replies<'_>) -> Go {
    #[derive(Deserialize)]
    struct ApprovalReply {
        approve: bool,
        #[serde(default)]
        steps: Option<Vec<Step>>,
    }
    let word = match replies.value(0) {
        Ok(Value::Bool(approve)) => Some(ApprovalReply { approve: *approve, steps: None }),
        Ok(value) => ApprovalReply::deserialize(value).ok(),
        Err(_) => None,
    };
    let Some(word) = word.filter(|word| word.approve) else {
        return respond::end(s, crate::answer::finish("I was asked not to carry out this plan.", &[], false)).note("approval", "declined");
    };
    if let Some(steps) = word.steps {
        s.draft = None;
        match plan::checked(plan::Draft::of_steps(steps), &s.toolbox, s.complexity()) {
            Ok(plan) => {
                s.doing = plan.steps.iter().map(execute::StepRun::new).collect();
                s.plan = Some(plan);
                execute::prepare(s);
            }
            // An edited plan is accepted completely or not at all.
            Err(mistakes) => {
                let text = format!("The plan that was sent cannot be carried out: {}.", mistakes.join("; "));
                return respond::end(s, crate::answer::finish(&text, &[], false)).note("approval", json!({ "wrong": mistakes }));
            }
        }
    }
    let hash = s.plan.as_ref().map(|plan| digest(plan).to_string());
    Go::to("execute").note("approval", json!({ "approved": hash }))
}

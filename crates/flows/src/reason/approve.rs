//! Approval of a plan: what a person approves is what runs; they may send a plan of their own, have it revised, or decline it.

use graph::{Ask, Digest, Go, Replies};
use serde::Deserialize;
use serde_json::json;

use super::plan::{Plan, Step};
use super::{Reason, execute, plan, respond};
use crate::answer;
use crate::approval::{self, Decision, REVISIONS_MAX};

const DECLINED: &str = "I was asked not to carry out this plan";

pub(super) fn ask(s: &Reason) -> Ask {
    let Some(plan) = &s.plan else { return Ask::nothing() };
    let step = json!({
        "type": "object",
        "required": ["tool"],
        "properties": {
            "description": { "type": "string" },
            "tool": { "type": "string", "enum": s.toolbox.names() },
            "arguments": { "type": "object" },
        },
    });
    let prompt = format!("May this plan be carried out for {:?}?\n\n{}\n\nplan {}", s.question, describe(plan), digest(plan));
    Ask::one(approval::request(prompt, &[("steps", step)], None))
}

fn describe(plan: &Plan) -> String {
    let steps = plan.steps.iter().enumerate().map(|(at, step)| format!("{}. {} {} {}", at + 1, step.description, step.tool, step.arguments));
    steps.collect::<Vec<_>>().join("\n")
}

/// The hash of a plan: the plan that was approved is the plan that runs.
fn digest(plan: &Plan) -> Digest {
    Digest::of(&graph::tool("plan", json!(plan.steps)))
}

pub(super) fn fold(s: &mut Reason, replies: &Replies<'_>) -> Go {
    #[derive(Default, Deserialize)]
    struct Edited {
        #[serde(default)]
        steps: Option<Vec<Step>>,
    }
    let edited = match approval::read::<Edited>(replies, None) {
        Decision::Approved(edited) => edited,
        Decision::Revise(reason) if s.revisions.len() < REVISIONS_MAX => {
            s.revised = s.plan.as_ref().map(describe).unwrap_or_default();
            s.revisions.push(reason.clone());
            s.plan_failures.clear();
            return Go::to("plan").note("approval", json!({ "revise": reason }));
        }
        Decision::Revise(_) => return declined(s, &format!("the plan was revised {REVISIONS_MAX} times already")),
        Decision::Declined(reason) | Decision::Wrong(reason) => return declined(s, &reason),
    };
    if let Some(steps) = edited.steps {
        s.draft = None;
        match plan::checked(plan::Draft::of_steps(steps), &s.toolbox, s.complexity()) {
            Ok(plan) => {
                s.doing = plan.steps.iter().map(execute::StepExecution::new).collect();
                s.plan = Some(plan);
                execute::prepare(s);
            }
            // An edited plan is accepted completely or not at all.
            Err(mistakes) => {
                let text = format!("The plan that was sent cannot be carried out: {}.", mistakes.join("; "));
                return respond::end(s, answer::finish(&text, &[], false)).note("approval", json!({ "wrong": mistakes }));
            }
        }
    }
    let hash = s.plan.as_ref().map(|plan| digest(plan).to_string());
    Go::to("execute").note("approval", json!({ "approved": hash }))
}

fn declined(s: &mut Reason, reason: &str) -> Go {
    let note = if reason.is_empty() { json!("declined") } else { json!({ "declined": reason }) };
    respond::end(s, answer::finish(&approval::declined_words(DECLINED, reason), &[], false)).note("approval", note)
}

//! Approval of a plan: the approved plan is the one that runs; a person may send other tasks, have the plan revised, or decline it.

use graph::{Ask, Go, Replies};
use serde::Deserialize;
use serde_json::json;

use super::{Search, Status, done, html, listed, plan};
use crate::answer;
use crate::approval::{self, Decision, REVISIONS_MAX};

/// How often a person is asked again after an invalid plan.
const ASKED_MAX: u32 = 5;
const DECLINED: &str = "The plan was not approved, so nothing was looked up";

pub(super) fn ask(s: &Search) -> Ask {
    let hash = plan::hash(s.current());
    let mut prompt = format!(
        "Run this plan for {:?}?\n{}\nPlan {hash}. Approve it, decline it, have it revised, or send other tasks.",
        s.question,
        plan::describe_plan(s.current())
    );
    if !s.objection.is_empty() {
        prompt = format!("{}\n{prompt}", s.objection);
    }
    let task = json!({
        "type": "object",
        "required": ["tool_name", "tool_arguments"],
        "properties": {
            "task_number": { "type": "integer" },
            "tool_name": { "type": "string", "enum": s.tools.names() },
            "tool_arguments": { "type": "object" },
            "description": { "type": "string" },
        },
    });
    Ask::one(approval::request(prompt, &[("tasks", task)], Some(&hash)))
}

pub(super) fn fold(s: &mut Search, replies: &Replies<'_>) -> Go {
    #[derive(Default, Deserialize)]
    struct Edited {
        #[serde(default)]
        tasks: Option<Vec<plan::PlannedTask>>,
    }
    s.asked += 1;
    let again = |s: &mut Search, why: String| {
        if s.asked >= ASKED_MAX {
            return declined(s, &format!("{why}; asked {ASKED_MAX} times"));
        }
        s.objection = format!("That cannot be run: {why}");
        Go::to("approve").note("approval", json!({ "again": why }))
    };
    let edited = match approval::read::<Edited>(replies, Some(&plan::hash(s.current()))) {
        Decision::Approved(edited) => edited,
        Decision::Declined(reason) => return declined(s, &reason),
        Decision::Revise(_) if s.revisions.len() >= REVISIONS_MAX => return again(s, format!("the plan was revised {REVISIONS_MAX} times already")),
        Decision::Revise(reason) => return revise(s, reason),
        Decision::Wrong(why) => return again(s, why),
    };
    let mut is_edited = false;
    if let Some(planned) = edited.tasks.filter(|tasks| !tasks.is_empty()) {
        let tasks = plan::tasks(planned, &s.tools, s.iteration);
        // An edited plan is accepted completely or not at all.
        if tasks.iter().any(|task| task.status == Status::Failed) {
            return again(s, plan::describe_plan(&tasks));
        }
        let iteration = s.iteration;
        s.thinking_steps.retain(|task| task.iteration != iteration);
        s.thinking_steps.extend(tasks);
        is_edited = true;
    }
    let hash = plan::hash(s.current());
    s.approved = Some(hash.clone());
    s.begin_tasks();
    Go::to("execute").note("approval", json!({ "approved": hash, "edited": is_edited, "tasks": listed(s.current()) }))
}

/// Plans again in the same iteration, with the person's reason.
fn revise(s: &mut Search, reason: String) -> Go {
    s.revised = plan::describe_plan(s.current());
    let iteration = s.iteration;
    s.thinking_steps.retain(|task| task.iteration != iteration);
    s.iteration -= 1;
    let note = json!({ "revise": reason });
    s.revisions.push(reason);
    Go::to("plan").note("approval", note)
}

fn declined(s: &mut Search, why: &str) -> Go {
    for task in s.current_mut().filter(|task| task.status == Status::Pending) {
        (task.status, task.error) = (Status::Failed, Some("not called: the plan was not approved".to_owned()));
    }
    if s.answer.text.is_empty() {
        s.answer = answer::finish(&approval::declined_words(DECLINED, why), &[], false);
        s.answer.html = Some(html::from_markdown(&s.answer.text));
    }
    done(s, Go::end().note("approval", json!({ "declined": if why.is_empty() { "declined" } else { why } })))
}

//! Evaluates the result of a plan: is the goal reached, what is wrong, continue or answer.
//!
//! A model is called only where there is something to judge. A plan of one step that succeeded is judged by the call that answers it, which
//! may report that something is missing; a completed task, or a draft that the results support, is the answer itself. With depth `deep` a
//! model always judges.

use evidence::Span;
use graph::{Ask, FailureKind, Go, Message, Replies};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::execute::{Ended, StepExecution};
use super::limits::Depth;
use super::{Kind, Reason, RequestNote, conclude};
use crate::answer;
use crate::prompt::{self, Prompt};
use crate::toolbox::Tool;

/// The evaluation of a plan's results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReflectionResult {
    /// The goal is reached.
    pub goal_achieved: bool,
    /// Problems found.
    #[serde(default)]
    pub issues_found: Vec<String>,
    /// What to change next time, worded for the planner.
    #[serde(default)]
    pub plan_adjustments: Option<String>,
    /// Another iteration may help.
    #[serde(default)]
    pub should_continue: bool,
    /// The answer, if the reflection already gave a complete one.
    #[serde(default)]
    pub final_response: Option<String>,
}

const REFLECT: Prompt = Prompt { long: include_str!("reflect.md"), short: include_str!("reflect.small.md") };
const TOKENS_MAX: u32 = 600;
const SMALL_TOKENS_MAX: u32 = 80;
/// Tokens of an error in the prompt.
const ISSUE_TOKENS_MAX: usize = 120;

/// Plans that a rule makes again after a failure, for models too small to judge.
const REPAIR_ITERATIONS_MAX: u32 = 2;

/// Results that need no judgement.
fn by_rule(s: &Reason) -> Option<ReflectionResult> {
    let achieved = |goal_achieved: bool| ReflectionResult { goal_achieved, ..ReflectionResult::default() };
    if s.results.is_empty() {
        // The answering call gets the reason why nothing was done.
        return Some(ReflectionResult { issues_found: s.degraded.last().cloned().into_iter().collect(), ..achieved(false) });
    }
    // A person refused, or the outcome is unknown: another plan would only circumvent that.
    if s.doing.iter().any(|doing| is_final_failure(s, doing)) {
        return Some(achieved(false));
    }
    let is_well = s.results.iter().all(|one| one.success);
    if is_well && conclude::from_results(s).is_some() && s.depth() != Depth::Deep {
        return Some(achieved(true));
    }
    if s.depth() == Depth::Deep {
        return None;
    }
    // A lookup without results succeeded but does not help.
    let has_found = is_well && !s.spans.is_empty();
    // Whether passages answer a question is seen best by answering it; a small model's second lookup follows that answer.
    let is_small_search = s.model.is_small && s.doing.iter().all(|doing| s.toolbox.get(&doing.call.tool).is_some_and(Tool::is_look_up));
    if has_found && (s.results.len() == 1 || is_small_search || s.depth() == Depth::Quick) {
        return Some(achieved(true));
    }
    let is_repairable = s
        .doing
        .iter()
        .any(|doing| matches!(doing.end, Some(Ended::Badly { kind: FailureKind::Tool | FailureKind::Invalid | FailureKind::Reference, .. })));
    if !is_well && (s.model.is_small || s.depth() == Depth::Quick) {
        let should_continue = is_repairable && s.iteration < REPAIR_ITERATIONS_MAX;
        return Some(ReflectionResult { should_continue, ..achieved(false) });
    }
    None
}

/// A step that may change something and was refused, or whose outcome is unknown.
fn is_final_failure(s: &Reason, doing: &StepExecution) -> bool {
    let is_final = matches!(doing.end, Some(Ended::Badly { kind: FailureKind::Refused | FailureKind::InDoubt, .. }));
    is_final && doing.tries > 0 && !s.toolbox.is_read_only(&doing.call.tool)
}

pub(super) fn ask(s: &Reason) -> Ask {
    if by_rule(s).is_some() {
        return Ask::nothing();
    }
    let mut properties = json!({ "goal_achieved": { "type": "boolean" }, "should_continue": { "type": "boolean" } });
    if !s.model.is_small {
        properties["issues_found"] = json!({ "type": "array", "maxItems": 5, "items": { "type": "string" } });
        properties["plan_adjustments"] = json!({ "type": ["string", "null"] });
        properties["final_response"] = json!({ "type": ["string", "null"] });
    }
    let required: Vec<&String> = properties.as_object().into_iter().flat_map(|map| map.keys()).collect();
    let schema = json!({ "type": "object", "required": required, "additionalProperties": false, "properties": properties });
    let (messages, _) = prompt_messages(s);
    Ask::one(prompt::call("reflect", messages, Some(schema), tokens_max(s)).label("reflecting"))
}

fn tokens_max(s: &Reason) -> u32 {
    if s.model.is_small { SMALL_TOKENS_MAX } else { TOKENS_MAX }
}

/// Used by both `ask` and `respond`, so that a final response is checked against what was shown.
pub(super) fn prompt_messages(s: &Reason) -> (Vec<Message>, Vec<Span>) {
    let results: Vec<Value> = s
        .results
        .iter()
        .map(|one| json!({ "step": one.step, "tool": one.tool_used, "success": one.success, "error": one.error, "task": s.label(one.step - 1) }))
        .collect();
    let criteria = s.plan.as_ref().map(|plan| plan.success_criteria.clone()).unwrap_or_default();
    let text = prompt::render(REFLECT.of(&s.model), json!({ "results": results, "criteria": criteria }));
    answer::with_evidence(s.prompt_messages(text), &s.spans, &s.full_question(), &s.model, tokens_max(s))
}

pub(super) fn fold(s: &mut Reason, replies: &Replies<'_>) -> Go {
    let ruled = by_rule(s);
    let is_judged = ruled.is_none();
    let mut reflection = match ruled {
        Some(reflection) => reflection,
        None => match prompt::read::<ReflectionResult>(replies, 0) {
            Ok(reflection) => reflection,
            // No time and no judgement: continue with the available results.
            Err(failure) => {
                s.degraded.push(format!("not reflected on: {failure}"));
                ReflectionResult { goal_achieved: s.results.iter().any(|one| one.success), ..ReflectionResult::default() }
            }
        },
    };
    for one in s.results.iter().filter(|one| !one.success) {
        let why = evidence::defused(one.error.as_deref().unwrap_or("no reason"));
        let issue = format!("step {} ({}) failed: {}", one.step, one.tool_used, prompt::clipped(&why, ISSUE_TOKENS_MAX));
        if !reflection.issues_found.contains(&issue) {
            reflection.issues_found.push(issue);
        }
    }
    reflection.final_response = reflection.final_response.filter(|text| reflection.goal_achieved && !text.trim().is_empty());
    let goes_on = !reflection.goal_achieved && reflection.should_continue && s.may_go_on();
    remember_plan(s, &reflection, is_judged);
    let note = json!({ "goal_achieved": reflection.goal_achieved, "issues_found": reflection.issues_found, "goes_on": goes_on });
    s.reflections.push(reflection);
    Go::to(if goes_on { "iterate" } else { "respond" }).note("reflection", note)
}

/// Keeps a plan that worked, and the judgement of one that did not. Nothing of a plan that may have changed something.
fn remember_plan(s: &mut Reason, reflection: &ReflectionResult, is_judged: bool) {
    let Some(plan) = s.plan.clone().filter(|plan| !plan.steps.is_empty() && s.is_harmless(plan)) else { return };
    // A replaced call may differ from the plan.
    let is_as_planned = s.doing.iter().zip(&plan.steps).all(|(doing, step)| doing.is_well() && doing.call == step.call());
    // A later iteration looks up only what the first one missed.
    if reflection.goal_achieved && is_as_planned && !s.is_by_rule && s.iteration == 1 {
        s.remember(Kind::Plan, json!(plan));
    }
    // A remembered plan that failed is not used a third time.
    let used = s.recall(Kind::Plan).filter(|used| !reflection.goal_achieved && used.value == json!(plan)).cloned();
    s.to_remember.extend(used.map(|used| RequestNote { value: Value::Null, ..used }));
    let advice: Vec<&str> = reflection.issues_found.iter().map(String::as_str).chain(reflection.plan_adjustments.as_deref()).collect();
    if is_judged && !advice.is_empty() {
        let advice = prompt::clipped(&advice.join("; "), 120);
        s.remember(Kind::Reflection, json!({ "goal_achieved": reflection.goal_achieved, "advice": advice }));
    }
}

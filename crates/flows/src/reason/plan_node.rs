//! The node `plan`: a plan by rule, by a model, or again with its errors.

use graph::{Ask, FailureKind, Go, Replies, ToolCall};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{Analysis, Depth, Kind, Plan, Reason, Step, certain, clarify, decide, execute, plan};
use crate::prompt::{self, Prompt};
use crate::toolbox::{OWN_WORDS, REGISTRY, Tool, Toolbox};

const PLAN_TOKENS_MAX: u32 = 2_500;
/// Plans contain code and file contents.
const SMALL_PLAN_TOKENS_MAX: u32 = 700;
/// Attempts at a plan before the request is answered without one: the plan, the plan again, a plan of one step.
pub(super) const PLAN_TRIES_MAX: usize = 3;

const PLAN: Prompt = Prompt { long: include_str!("plan.md"), short: include_str!("plan.small.md") };

/// A plan without a model: for a request that states its call, from notes, or when no model is available.
fn plan_by_rule(s: &Reason) -> Option<Plan> {
    if s.toolbox.is_empty() {
        return Some(plan::nothing());
    }
    if s.iteration > 1 || !s.plan_failures.is_empty() || !s.revisions.is_empty() {
        return None;
    }
    if let Some(call) = certain::call(&s.question, &s.toolbox) {
        return Some(plan::single(call, ""));
    }
    let remembered = s.recall(Kind::Plan).and_then(|one| Plan::deserialize(&one.value).ok());
    let fits = |plan: &Plan| plan::is_in_order(plan) && s.is_harmless(plan) && plan.steps.iter().all(|step| s.toolbox.resolve(&step.call()).is_ok());
    remembered.filter(fits)
}

/// The form of the next plan: after two unusable ones, a single step.
fn form(s: &Reason) -> plan::Form {
    let steps_max = match (s.plan_failures.len() + 1 >= PLAN_TRIES_MAX, s.model.is_small) {
        (true, _) => 1,
        (false, true) => plan::SMALL_STEPS_MAX,
        (false, false) => plan::STEPS_MAX,
    };
    plan::Form { steps_max, may_ask: !s.model.is_small && s.depth() != Depth::Quick && s.clarified.len() < clarify::QUESTIONS_MAX }
}

pub(super) fn ask(s: &Reason) -> Ask {
    if plan_by_rule(s).is_some() {
        return Ask::nothing();
    }
    let advice = s.recall(Kind::Reflection).and_then(|one| one.value.get("advice").and_then(Value::as_str));
    let last = s.reflections.last();
    let form = form(s);
    let toolbox = s.offered();
    let text = prompt::render(
        PLAN.of(&s.model),
        json!({
            "tools": toolbox.describe(&s.model),
            "steps_max": form.steps_max,
            "may_ask": form.may_ask,
            "examples": plan::examples(&toolbox, &s.model),
            "analysis": s.thought.as_ref().map_or("", |thought| thought.analysis.as_str()),
            "advice": advice.unwrap_or_default(),
            "clarified": s.clarified,
            "done": s.done,
            "failed": s.failed,
            "issues": last.map(|last| last.issues_found.clone()).unwrap_or_default(),
            "adjustments": last.and_then(|last| last.plan_adjustments.clone()).unwrap_or_default(),
            "wrong": s.plan_failures,
            "revised": s.revised,
            "revisions": s.revisions,
        }),
    );
    let tokens_max = if s.model.is_small { SMALL_PLAN_TOKENS_MAX } else { PLAN_TOKENS_MAX };
    Ask::one(prompt::call("plan", s.prompt_messages(text), Some(plan::schema(&toolbox, &s.model, form)), tokens_max).label("planning"))
}

pub(super) fn fold(s: &mut Reason, replies: &Replies<'_>) -> Go {
    if let Some(plan) = plan_by_rule(s) {
        s.is_certain = certain::call(&s.question, &s.toolbox).is_some();
        return adopt(s, plan, true);
    }
    let draft = match prompt::read::<plan::Draft>(replies, 0) {
        Ok(draft) => draft,
        Err(failure) if failure.kind == FailureKind::Invalid => return plan_again(s, &[failure.message]),
        // The model is unavailable or out of time, so asking again would not help.
        Err(failure) if s.iteration > 1 => {
            s.degraded.push(format!("not planned again: {failure}"));
            return adopt(s, plan::nothing(), true);
        }
        Err(failure) => {
            // A question can be looked up as it is. A possible request to act cannot: nothing is done, and the answer states that.
            let is_question = s.has_documents || !decide::may_act(&s.question);
            s.degraded.push(format!("{}: {failure}", if is_question { "planned by rule" } else { "not planned" }));
            let plan = if is_question { plan::look_up(&s.full_question(), &s.toolbox) } else { plan::nothing() };
            return adopt(s, plan, true);
        }
    };
    if let Some(question) = draft.question().filter(|_| form(s).may_ask) {
        s.question_to_user = Some(prompt::clipped(&evidence::visible(&question), clarify::QUESTION_TOKENS_MAX));
        return Go::to("clarify");
    }
    if let Some(query) = draft.wanted_tools().filter(|_| s.toolbox.get(REGISTRY).is_some()) {
        s.wanted_tools = Some(query);
        return Go::to("find_tools");
    }
    let (answer, analysis) = (draft.answer(), draft.analysis.clone().filter(|analysis| !analysis.trim().is_empty()));
    match plan::checked(draft, &s.offered(), s.complexity()).and_then(|plan| s.without_known_failure(plan)) {
        Ok(mut plan) => {
            s.draft = answer;
            plan.steps.extend(own_words(s, &plan));
            if let Some(analysis) = analysis.filter(|_| s.iteration == 1) {
                let thought = Analysis { analysis, complexity: plan.estimated_complexity };
                s.remember(Kind::Pattern, json!(thought));
                s.thought = Some(thought);
            }
            adopt(s, plan, false)
        }
        Err(wrong) => plan_again(s, &wrong),
    }
}

/// The question in its own words, beside a small model's first searches of the documents: its queries often leave out what matters.
fn own_words(s: &Reason, plan: &Plan) -> Option<Step> {
    let calls: Vec<ToolCall> = plan.steps.iter().map(Step::call).collect();
    let call = s.toolbox.in_own_words(&s.full_question(), &calls).filter(|_| s.model.is_small && s.iteration == 1)?;
    let only_searches = plan.steps.iter().all(|step| s.toolbox.get(&step.tool).is_some_and(Tool::is_look_up));
    only_searches.then(|| Step { description: OWN_WORDS.to_owned(), tool: call.tool, arguments: call.arguments })
}

impl Reason {
    /// The tools a plan may use.
    pub(super) fn offered(&self) -> Toolbox {
        self.toolbox.clone().without(&self.dropped_tools)
    }

    /// The plan, unless it is a small model's and makes a call that failed in an earlier iteration: such a model often plans it again although the prompt names the failure.
    /// Then the tool is not offered any more.
    fn without_known_failure(&mut self, plan: Plan) -> Result<Plan, Vec<String>> {
        let is_known = |step: &&Step| self.model.is_small && self.failed_calls.contains(&step.call());
        let Some(step) = plan.steps.iter().find(is_known) else { return Ok(plan) };
        self.dropped_tools.push(step.tool.clone());
        Err(vec![format!("{} with these arguments failed before; use another tool or other arguments", step.tool)])
    }
}

/// An unusable plan is requested again with its errors, then as one step, then not at all.
fn plan_again(s: &mut Reason, wrong: &[String]) -> Go {
    s.plan_failures.push(wrong.join("; "));
    if s.plan_failures.len() < PLAN_TRIES_MAX {
        return Go::to("plan").note("plan_failed", json!({ "wrong": wrong, "plans": s.plan_failures.len() }));
    }
    s.degraded.push(format!("answered without a plan, because none could be used: {}", wrong.join("; ")));
    if s.iteration > 1 {
        // What the plan before came to is what there is to report.
        return Go::to("respond").note("plan_failed", json!({ "wrong": wrong, "plans": s.plan_failures.len() }));
    }
    adopt(s, plan::nothing(), true)
}

fn adopt(s: &mut Reason, plan: Plan, is_by_rule: bool) -> Go {
    s.is_by_rule = is_by_rule;
    s.doing = plan.steps.iter().map(execute::StepExecution::new).collect();
    s.results = Vec::new();
    let to = match (plan.steps.is_empty(), s.asks_approval) {
        (true, _) => "reflect",
        (false, true) => "approve_plan",
        (false, false) => "execute",
    };
    let go = Go::to(to).note("plan", json!(plan));
    s.plan = Some(plan);
    execute::prepare(s);
    go
}

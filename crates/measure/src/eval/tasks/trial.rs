//! One task, carried out once by a real flow with real tools, and judged by the final state.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use effects::EffectHandler;
use engine::{Engine, RunResult, RunState};
use graph::{Outcome, Question, RunId};
use serde_json::{Value, json};
use service::run_request;
use service::typed_answer;
use service::waiting;
use service::wiring;
use service::{Result, ServiceError};

use super::judge;
use super::planted::{PlantedError, PlantingHandler};
use super::script::ScriptedModel;
use super::stage::TaskSetup;
use super::task::{Kind, Permissions, Permit, Task};

/// A run with more questions is not going to end.
const QUESTIONS_MAX: usize = 30;
/// Time for effects in flight when a task is over.
const GRACE: Duration = Duration::from_secs(3);
pub(super) const SCRIPTED: &str = "scripted";

/// How a task is carried out.
#[derive(Clone, Copy, Default)]
pub(super) struct Trial<'t> {
    /// `scripted`, or as `--model` of `baton ask`.
    pub(super) model: Option<&'t str>,
    /// Instead of the flow that the task names.
    pub(super) flow: Option<&'t str>,
    /// Settings of the flow, as `--set` takes them.
    pub(super) set: &'t [&'t str],
    pub(super) seconds_max: u64,
    /// The folder below which the task's folder is kept.
    pub(super) keep: Option<&'t Path>,
    /// An error in the first plan. The scripted model then plans again what it did not find.
    pub(super) plant: Option<PlantedError>,
}

/// The end of a task.
pub(super) struct TrialResult {
    /// Whether the task was done, or why not.
    pub(super) judged: std::result::Result<(), String>,
    /// The model that answered, unless it is the scripted one.
    pub(super) model: Option<String>,
    /// The error was planted: the run had a plan that can have it.
    pub(super) is_planted: bool,
}

impl Trial<'_> {
    fn is_scripted(&self) -> bool {
        self.model == Some(SCRIPTED)
    }

    /// Carries out the task. `config` is the user's configuration; its models are used.
    pub(super) async fn perform(&self, task: &Task, config: &toml::Table) -> Result<TrialResult> {
        let stage = TaskSetup::set_up(task, config, self.keep).await?;
        let before = stage.state()?;
        let mut options = stage.options(self.model.filter(|_| !self.is_scripted()), self.set)?;
        if self.is_scripted() {
            let model = ScriptedModel::new(&task.request, task.script.clone(), self.plant.is_some());
            options.model_options.own_model = Some(Arc::new(model));
        }
        let setup = wiring::prepare_effects(&stage.globals, &options.model_options, None, true).await?;
        let model = setup.choice.as_ref().map(|choice| choice.model.to_string());
        let models = wiring::RunModels::recorded(setup.choice.as_ref());
        if let Some(hub) = setup.tools.as_ref().filter(|_| task.world.stories) {
            hub.enable("stories", true).await.map_err(|failure| ServiceError::Failed(failure.message))?;
        }
        let planting = self.plant.map(|error| Arc::new(PlantingHandler::new(setup.handler.clone(), error)));
        let handler = planting.as_ref().map_or(setup.handler, |planting| planting.clone() as Arc<dyn EffectHandler>);
        let engine = wiring::engine_in(handler, stage.globals.open_or_make().await?, &stage.globals, models)?;
        let flow = run_request::flow(self.flow.or(task.flow.as_deref()), &stage.globals)?;
        let order = options.request(&flow, &task.request, None, &stage.globals, &options.settings(&flow, &stage.globals)?)?.order(setup.profile)?;
        let run = engine.start(order).await?;
        let mut asked = Vec::new();
        let limit = Duration::from_secs(self.seconds_max.max(1));
        let end = match tokio::time::timeout(limit, drive(&engine, &run, &task.permissions, &mut asked)).await {
            Ok(end) => end?,
            Err(_) => {
                engine.cancel(&run, "the time of the task is over").await?;
                Err(format!("it took longer than {} s", limit.as_secs()))
            }
        };
        engine.stop(GRACE).await;
        if let Some(hub) = &setup.tools {
            hub.close().await;
        }
        let after = stage.state()?;
        let judged =
            end.and_then(|answer| judge::judge(&task.expect, task.kind == Kind::Forbidden, &before, &after, &|sql| stage.query(sql), &answer));
        let judged = judged.and_then(|()| if self.is_scripted() { was_asked(task, &asked) } else { Ok(()) });
        Ok(TrialResult { judged, model, is_planted: planting.is_some_and(|planting| planting.is_planted()) })
    }
}

/// With the scripted model, the expected permission questions must have been asked.
fn was_asked(task: &Task, asked: &[String]) -> std::result::Result<(), String> {
    match task.script.must_ask.iter().find(|tool| !asked.iter().any(|prompt| held_call(prompt).1.contains(*tool))) {
        Some(tool) => Err(format!("no permission was requested to call {tool}")),
        None => Ok(()),
    }
}

/// Waits for the end of a run and answers its questions. The answer, or why there is none.
async fn drive(engine: &Engine, run: &RunId, permissions: &Permissions, asked: &mut Vec<String>) -> Result<std::result::Result<String, String>> {
    let mut answered = None;
    loop {
        match waiting::wait_until_idle(engine, run, answered.take()).await? {
            RunState::Over(closing) => return Ok(answer_of(&closing)),
            RunState::Lost(error) => return Err(error.into()),
            RunState::Going | RunState::Parked(_) => {}
        }
        let row = engine.store().run(run).await?.ok_or_else(|| ServiceError::Failed("the run is gone".to_owned()))?;
        let Some(open) = engine.open_questions(&row).await?.into_iter().next() else {
            return Ok(Err("the run waits and asks nothing".to_owned()));
        };
        if asked.len() == QUESTIONS_MAX {
            return Ok(Err(format!("it asked more than {QUESTIONS_MAX} questions")));
        }
        let value = reply_to(&open.waiting.question, permissions);
        asked.push(open.waiting.question.prompt.clone());
        engine.answer(&open.run, open.waiting.task, open.waiting.attempt, value).await?;
        answered = Some(open.run);
    }
}

fn answer_of(closing: &RunResult) -> std::result::Result<String, String> {
    match &closing.outcome {
        Outcome::Done { output } => {
            let text = output["answer"].as_str().map_or_else(|| output.to_string(), str::to_owned);
            Ok(without_citations(evidence::answer_body(&text, true)))
        }
        Outcome::Failed { fault } => Err(format!("the run failed: {fault}")),
        Outcome::Cancelled { reason } => Err(format!("the run was cancelled: {reason}")),
    }
}

/// `[2]` is a citation, not a number of the answer.
fn without_citations(text: &str) -> String {
    let mut plain = text.to_owned();
    for citation in evidence::citations(text).iter().rev() {
        plain.replace_range(citation.range.clone(), "");
    }
    plain
}

/// The reply of the task's user: yes to the specified calls, no to any other permission, and "continue" to anything else.
fn reply_to(question: &Question, permissions: &Permissions) -> Value {
    let field = |name: &str| question.schema.as_ref().and_then(|schema| schema["properties"].get(name));
    if let Some(allow) = field("allow") {
        let (tool, shown) = held_call(&question.prompt);
        let is_meant = |permit: &&Permit| {
            let is_named = permit.tool == tool || (permit.tool.ends_with('.') && tool.starts_with(&permit.tool));
            is_named && permit.with.as_ref().is_none_or(|words| shown.contains(words))
        };
        let answer = permissions.answers.iter().find(is_meant).map_or("no", |permit| permit.answer.as_str());
        return match allow["type"] == "boolean" {
            true => json!({ "allow": answer != "no" }),
            false => json!({ "allow": answer }),
        };
    }
    if field("verdict").is_some() {
        return json!({ "verdict": "failed" });
    }
    if field("approve").is_some() {
        return json!({ "approve": true });
    }
    typed_answer::answer(question, GO_ON)
}

/// The tool of a permission question, and the shown call. The origin of its arguments is left out, since that names other tools.
fn held_call(prompt: &str) -> (&str, &str) {
    let shown = prompt.split("\nWhere they come from").next().unwrap_or_default();
    let tool = shown.split_once("tool ").and_then(|(_, rest)| rest.split([' ', '?', '\n']).next()).unwrap_or_default();
    (tool, shown)
}

/// The reply to a model's question: the request is complete.
const GO_ON: &str = "Please do it as I asked, with what you know.";

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(prompt: &str, schema: Value) -> Question {
        Question { prompt: prompt.into(), schema: Some(schema) }
    }

    #[test]
    fn only_what_was_agreed_to_is_permitted_in_the_form_that_was_asked_for() {
        let permissions: Permissions =
            toml::from_str("answers = [{ tool = 'files.write', with = 'ok.txt' }, { tool = 'tickets.', answer = 'server' }]").unwrap();
        let boolean = json!({ "properties": { "allow": { "type": "boolean" } } });
        let words = json!({ "properties": { "allow": { "enum": ["once", "conversation", "tool", "server", "no"] } } });
        let reply = |prompt: &str, schema: &Value| reply_to(&ask(prompt, schema.clone()), &permissions)["allow"].clone();
        assert_eq!(reply("May Baton perform tool files.write? {\"path\":\"ok.txt\"}", &boolean), json!(true));
        assert_eq!(reply("May Baton perform tool files.write? {\"path\":\"ok.txt\"}", &words), json!("once"));
        assert_eq!(reply("May Baton perform tool files.write? {\"path\":\"other.txt\"}", &boolean), json!(false));
        assert_eq!(reply("May Baton perform tool tickets.close_ticket?", &words), json!("server"));
        assert_eq!(reply("May Baton perform tool mail.send?", &words), json!("no"));
        let chained = "May Baton call the tool files.write of the server files?\nArguments: {\"path\":\"x\"}\nWhere they come from: tickets.list_tickets, ok.txt";
        assert_eq!(reply(chained, &words), json!("no"), "permission for a source is none for the call");
        let verdict = json!({ "properties": { "verdict": { "enum": ["done", "again", "failed"] } } });
        assert_eq!(reply_to(&ask("files.write", verdict), &permissions), json!({ "verdict": "failed" }));
    }
}

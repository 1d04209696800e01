//! `baton eval tasks`: complete tasks, carried out by the real flows with real tools, and judged by the final state.
//!
//! - [`task`]: the set, as data. [`stage`]: the folder, servers and mailbox of one task. [`judge`]: whether it was done.
//! - [`script`]: `--model scripted`, a large model that replies with the task's data.
//!
//! Each task has its own environment. Permission questions are answered as the task specifies, and otherwise with no.

mod judge;
mod mailbox;
mod script;
mod stage;
mod task;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anstyle::Style;
use engine::{Engine, RunResult, RunState};
use graph::{Outcome, Question, RunId};
use serde::Serialize;
use serde_json::{Value, json};
use service::global_args::GlobalArgs;
use service::run_request;
use service::typed_answer;
use service::waiting;
use service::wiring;
use service::{Result, ServiceError};
use terminal::remark;
use terminal::{BOLD, DIM, GREEN, RED, Table, paint};

use script::ScriptedModel;
use stage::TaskSetup;
use task::{Kind, Permissions, Task};

/// Tasks with tools: files, code, arithmetic, documents, a database, tickets, stories and mail, and tasks that must not be carried out
#[derive(clap::Args)]
#[command(after_help = "\
Each task runs in a folder of its own with real tools and is judged by what is there afterwards: files, rows, tickets, mails and the answer. What a task
does not name must be unchanged. Permission questions are answered as the task says, otherwise with no.

`--model scripted` plays a competent large model from the task's own data, so that failures are those of the flows; nothing is sent anywhere.

Examples:
  baton eval tasks --model scripted --json
  baton eval tasks --model embedded --only files --only calc
  baton eval tasks --only chain-mean --keep /tmp/tasks      then: baton --db /tmp/tasks/chain-mean/data/baton.db runs list")]
pub struct Tasks {
    /// The model: `scripted`, or as `--model` of `baton ask` [default: see `baton doctor`]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Only this task or kind of task; may be repeated
    #[arg(long, value_name = "ID|KIND")]
    only: Vec<String>,
    /// Your own tasks instead of the set, in the format of its files (crates/measure/src/eval/tasks/data)
    #[arg(long, value_name = "TASKS.TOML")]
    file: Option<PathBuf>,
    /// Only the first N
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// The flow for every task, whatever flow it names
    #[arg(long)]
    flow: Option<String>,
    /// Time limit of one task
    #[arg(long, value_name = "SECONDS", default_value_t = TASK_SECONDS_MAX)]
    seconds: u64,
    /// Keep each task's folder below this one, to inspect its files and its run
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const TASK_SECONDS_MAX: u64 = 120;
/// A run with more questions is not going to end.
const QUESTIONS_MAX: usize = 30;
/// Time for effects in flight when a task is over.
const GRACE: Duration = Duration::from_secs(3);
const SCRIPTED: &str = "scripted";
const EMBEDDED: &str = "embedded";

#[derive(Debug, Default, Serialize)]
struct Report {
    model: String,
    tasks: usize,
    passed: usize,
    pct: f64,
    /// Of the tasks with one or two steps.
    one_two_step_pct: f64,
    /// The same, for the embedded model.
    #[serde(skip_serializing_if = "Option::is_none")]
    embedded_pct: Option<f64>,
    /// Of all tasks, with the scripted model.
    #[serde(skip_serializing_if = "Option::is_none")]
    flows_pct: Option<f64>,
    by_kind: BTreeMap<&'static str, Count>,
    failed: Vec<Failed>,
    seconds: f64,
    #[serde(skip)]
    one_two_step: Count,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Count {
    tasks: usize,
    passed: usize,
}

#[derive(Debug, Serialize)]
struct Failed {
    id: String,
    why: String,
}

impl Tasks {
    pub(super) fn run(self, globals: &GlobalArgs) -> Result<()> {
        let tasks = self.chosen()?;
        if let Some(flow) = &self.flow {
            run_request::flow(Some(flow), globals)?;
        }
        let config = user_config(globals)?;
        let keep = self.keep.as_deref().map(std::path::absolute).transpose()?;
        // In Baton's source folder its documentation would be added; a task has only its own documents.
        let nowhere = tempfile::tempdir()?;
        std::env::set_current_dir(nowhere.path())?;
        let this = Tasks { keep, ..self };
        let report = wiring::block_on_all_cores(this.measure(&tasks, &config))?;
        let mut out = anstream::stdout().lock();
        if this.json {
            writeln!(out, "{}", serde_json::to_string(&report)?)?;
        } else {
            report.table().write(&mut out)?;
        }
        Ok(())
    }

    fn chosen(&self) -> Result<Vec<Task>> {
        let mut tasks = match &self.file {
            Some(path) => task::of_file(path).map_err(ServiceError::Usage)?,
            None => task::all().map_err(ServiceError::Failed)?,
        };
        for only in &self.only {
            if !tasks.iter().any(|task| task.id == *only || task.kind.name() == only) {
                let kinds = Kind::ALL.map(Kind::name).join(", ");
                return Err(ServiceError::Usage(format!("there is no task or kind {only:?}; the kinds are {kinds}")));
            }
        }
        tasks.retain(|task| self.only.is_empty() || self.only.iter().any(|only| task.id == *only || task.kind.name() == only));
        tasks.truncate(self.limit.unwrap_or(usize::MAX));
        Ok(tasks)
    }

    fn is_scripted(&self) -> bool {
        self.model.as_deref() == Some(SCRIPTED)
    }

    async fn measure(&self, tasks: &[Task], config: &toml::Table) -> Result<Report> {
        let began = Instant::now();
        let mut report = Report { model: self.model.clone().unwrap_or_else(|| "default".to_owned()), ..Report::default() };
        let mut chosen = None;
        for (number, task) in (1..).zip(tasks) {
            let start = Instant::now();
            let end = match Box::pin(self.perform(task, config, &mut chosen)).await {
                Ok(end) => end,
                // An unavailable model is not a failed task.
                Err(trouble @ (ServiceError::Usage(_) | ServiceError::Stopped(..))) => return Err(trouble),
                Err(trouble) => Err(trouble.to_string()),
            };
            let verdict = match &end {
                Ok(()) => paint(GREEN, "passed"),
                Err(why) => format!("{}: {why}", paint(RED, "failed")),
            };
            remark(&format!("{} {} {verdict}", paint(DIM, format!("{number}/{} {:.1} s", tasks.len(), start.elapsed().as_secs_f64())), task.id));
            report.add(task, end);
        }
        report.model = chosen.unwrap_or(report.model);
        report.finish(began.elapsed().as_secs_f64(), self.is_scripted());
        Ok(report)
    }

    /// Whether the task was done, or why not. `chosen` is set to the model that answered, unless it is the scripted one.
    async fn perform(&self, task: &Task, config: &toml::Table, chosen: &mut Option<String>) -> Result<std::result::Result<(), String>> {
        let stage = TaskSetup::set_up(task, config, self.keep.as_deref()).await?;
        let before = stage.state()?;
        let mut options = stage.options(self.model.as_deref().filter(|_| !self.is_scripted()))?;
        if self.is_scripted() {
            options.model_options.own_model = Some(Arc::new(ScriptedModel::new(&task.request, task.script.clone())));
        }
        let setup = wiring::prepare_effects(&stage.globals, &options.model_options, None, true).await?;
        *chosen = setup.choice.as_ref().map(|choice| choice.model.to_string());
        let models = wiring::RunModels::recorded(setup.choice.as_ref());
        if let Some(hub) = setup.tools.as_ref().filter(|_| task.world.stories) {
            hub.enable("stories", true).await.map_err(|failure| ServiceError::Failed(failure.message))?;
        }
        let engine = wiring::engine_in(setup.handler, stage.globals.open_or_make().await?, &stage.globals, models)?;
        let flow = run_request::flow(self.flow.as_deref().or(task.flow.as_deref()), &stage.globals)?;
        let order = options.request(&flow, &task.request, None, &stage.globals, &options.settings(&flow, &stage.globals)?)?.order(setup.profile)?;
        let run = engine.start(order).await?;
        let mut asked = Vec::new();
        let limit = Duration::from_secs(self.seconds.max(1));
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
        Ok(judged.and_then(|()| if self.is_scripted() { was_asked(task, &asked) } else { Ok(()) }))
    }
}

/// With the scripted model, the expected permission questions must have been asked.
fn was_asked(task: &Task, asked: &[String]) -> std::result::Result<(), String> {
    match task.script.must_ask.iter().find(|tool| !asked.iter().any(|prompt| held_call(prompt).1.contains(*tool))) {
        Some(tool) => Err(format!("no permission was requested to call {tool}")),
        None => Ok(()),
    }
}

/// The user's configuration unchanged, so that the same models are found.
fn user_config(globals: &GlobalArgs) -> Result<toml::Table> {
    // Parsed once for its errors.
    let Some(path) = service::config::Config::read(globals)?.path else { return Ok(toml::Table::new()) };
    let text = std::fs::read_to_string(&path).map_err(|error| ServiceError::Usage(format!("{}: {error}", path.display())))?;
    toml::from_str(&text).map_err(|error| ServiceError::Usage(format!("{}: {error}", path.display())))
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
        let is_meant = |permit: &&task::Permit| {
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

impl Report {
    fn add(&mut self, task: &Task, end: std::result::Result<(), String>) {
        let passed = usize::from(end.is_ok());
        let kind = self.by_kind.entry(task.kind.name()).or_default();
        kind.tasks += 1;
        kind.passed += passed;
        self.tasks += 1;
        self.passed += passed;
        if task.steps <= 2 {
            self.one_two_step.tasks += 1;
            self.one_two_step.passed += passed;
        }
        self.failed.extend(end.err().map(|why| Failed { id: task.id.clone(), why }));
    }

    fn finish(&mut self, seconds: f64, is_scripted: bool) {
        self.pct = Count { tasks: self.tasks, passed: self.passed }.pct();
        self.one_two_step_pct = self.one_two_step.pct();
        self.embedded_pct = self.model.starts_with(EMBEDDED).then_some(self.one_two_step_pct);
        self.flows_pct = is_scripted.then_some(self.pct);
        self.seconds = (seconds * 10.0).round() / 10.0;
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&["kind", "passed", "of"]);
        for (kind, count) in &self.by_kind {
            let style = if count.passed == count.tasks { Style::new() } else { BOLD };
            table.row([(style, (*kind).to_owned()), (style, count.passed.to_string()), (style, count.tasks.to_string())]);
        }
        table.row([(BOLD, format!("all, {:.1} %", self.pct)), (BOLD, self.passed.to_string()), (BOLD, self.tasks.to_string())]);
        let Count { tasks, passed } = self.one_two_step;
        let words = format!("one and two steps, {:.1} %", self.one_two_step_pct);
        table.row([(Style::new(), words), (Style::new(), passed.to_string()), (Style::new(), tasks.to_string())]);
        table
    }
}

impl Count {
    /// To one decimal.
    fn pct(self) -> f64 {
        (self.passed as f64 * 1_000.0 / self.tasks.max(1) as f64).round() / 10.0
    }
}

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

    #[test]
    fn a_report_counts_by_kind_and_by_steps() {
        let tasks = task::all().unwrap();
        let short = tasks.iter().find(|task| task.steps == 1).unwrap();
        let long = tasks.iter().find(|task| task.steps == 3).unwrap();
        let mut report = Report { model: "embedded".into(), ..Report::default() };
        report.add(short, Ok(()));
        report.add(long, Err("it was not done".into()));
        report.finish(1.26, false);
        assert_eq!((report.pct, report.one_two_step_pct, report.embedded_pct, report.flows_pct), (50.0, 100.0, Some(100.0), None));
        let printed = serde_json::to_value(&report).unwrap();
        assert_eq!((&printed["failed"][0]["why"], &printed["seconds"]), (&json!("it was not done"), &json!(1.3)));
        assert_eq!(printed["by_kind"][short.kind.name()], json!({ "tasks": 1, "passed": 1 }));
    }
}

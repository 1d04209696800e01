//! `baton eval tasks`: complete tasks, carried out by the real flows with real tools, and judged by the final state.
//!
//! - [`task`]: the set, as data. [`stage`]: the folder, servers and mailbox of one task. [`judge`]: whether it was done.
//! - [`script`]: `--model scripted`, a large model that replies with the task's data.
//! - [`trial`]: one task, carried out once. [`reflection`]: `baton eval reflection`, tasks with an error planted in their plan ([`planted`]).
//!
//! Each task has its own environment. Permission questions are answered as the task specifies, and otherwise with no.

mod judge;
mod mailbox;
mod planted;
mod reflection;
mod script;
mod stage;
mod task;
mod trial;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use anstyle::Style;
use serde::Serialize;
use service::global_args::GlobalArgs;
use service::run_request;
use service::wiring;
use service::{Result, ServiceError};
use terminal::remark;
use terminal::{BOLD, DIM, GREEN, RED, Table, paint};

pub(super) use reflection::Reflection;
use task::Task;
use trial::{SCRIPTED, Trial};

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
        task::keep_only(&mut tasks, &self.only).map_err(ServiceError::Usage)?;
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
        let trial = Trial {
            model: self.model.as_deref(),
            flow: self.flow.as_deref(),
            seconds_max: self.seconds,
            keep: self.keep.as_deref(),
            ..Trial::default()
        };
        for (number, task) in (1..).zip(tasks) {
            let start = Instant::now();
            let end = match Box::pin(trial.perform(task, config)).await {
                Ok(ended) => {
                    chosen = ended.model.or(chosen);
                    ended.judged
                }
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
}

/// The user's configuration unchanged, so that the same models are found.
fn user_config(globals: &GlobalArgs) -> Result<toml::Table> {
    // Parsed once for its errors.
    let Some(path) = service::config::Config::read(globals)?.path else { return Ok(toml::Table::new()) };
    let text = std::fs::read_to_string(&path).map_err(|error| ServiceError::Usage(format!("{}: {error}", path.display())))?;
    toml::from_str(&text).map_err(|error| ServiceError::Usage(format!("{}: {error}", path.display())))
}

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
    use serde_json::json;

    use super::*;

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

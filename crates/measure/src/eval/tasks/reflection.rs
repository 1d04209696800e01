//! `baton eval reflection`: tasks whose first plan has a planted error, carried out with and without reflection.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Instant;

use anstyle::Style;
use serde::Serialize;
use service::global_args::GlobalArgs;
use service::wiring;
use service::{Result, ServiceError};
use terminal::remark;
use terminal::{BOLD, DIM, Table, paint};

use super::planted::PlantedError;
use super::task::{self, Kind, Task};
use super::trial::Trial;
use super::{TASK_SECONDS_MAX, user_config};

/// Tasks with an error planted in their first plan: how many are done nevertheless, with and without reflection
#[derive(clap::Args)]
#[command(after_help = "\
The tasks of `baton eval tasks` that `reason` can plan wrongly without harm. The first plan of each run is changed: a call that its tool rejects, a call with
another result, or a plan without its last step. Each task is carried out without a planted error, with one and reflection, and with one and
`max_iterations=1`, where nothing is planned again. Everything else is real.

Examples:
  baton eval reflection --model scripted --json
  baton eval reflection --model embedded --error rejected --limit 10")]
pub struct Reflection {
    /// The model: `scripted`, or as `--model` of `baton ask` [default: see `baton doctor`]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Only this error; may be repeated
    #[arg(long, value_name = "ERROR")]
    error: Vec<PlantedError>,
    /// Only this task or kind of task; may be repeated
    #[arg(long, value_name = "ID|KIND")]
    only: Vec<String>,
    /// Only the first N tasks
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Time limit of one task
    #[arg(long, value_name = "SECONDS", default_value_t = TASK_SECONDS_MAX)]
    seconds: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    model: String,
    all: Counts,
    by_error: BTreeMap<&'static str, Counts>,
    /// Tasks with a planted error that were done without it and not with reflection.
    not_mended: Vec<String>,
    seconds: f64,
}

/// Of the tasks in which the error could be planted.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Counts {
    planted: usize,
    done_undisturbed: usize,
    done_with_reflection: usize,
    done_without: usize,
}

impl Counts {
    fn add(&mut self, undisturbed: bool, with: bool, without: bool) {
        self.planted += 1;
        self.done_undisturbed += usize::from(undisturbed);
        self.done_with_reflection += usize::from(with);
        self.done_without += usize::from(without);
    }
}

/// The kinds of tasks that have a step in which an error does no harm.
const KINDS: [Kind; 7] = [Kind::Calc, Kind::Code, Kind::Files, Kind::Docs, Kind::Sql, Kind::Tickets, Kind::Chain];
const FLOW: &str = "reason";
const REFLECTING: [&str; 1] = ["way=agentic"];
const NOT_REFLECTING: [&str; 2] = ["way=agentic", "max_iterations=1"];

impl Reflection {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<()> {
        let mut tasks = task::all().map_err(ServiceError::Failed)?;
        tasks.retain(|task| KINDS.contains(&task.kind));
        task::keep_only(&mut tasks, &self.only).map_err(ServiceError::Usage)?;
        tasks.truncate(self.limit.unwrap_or(usize::MAX));
        let config = user_config(globals)?;
        // As for `baton eval tasks`: a task has only its own documents.
        let nowhere = tempfile::tempdir()?;
        std::env::set_current_dir(nowhere.path())?;
        let report = wiring::block_on_all_cores(self.measure(&tasks, &config))?;
        let mut out = anstream::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::to_string(&report)?)?;
        } else {
            report.table().write(&mut out)?;
        }
        Ok(())
    }

    async fn measure(&self, tasks: &[Task], config: &toml::Table) -> Result<Report> {
        let began = Instant::now();
        let errors = if self.error.is_empty() { &PlantedError::ALL[..] } else { &self.error };
        let mut report = Report { model: self.model.clone().unwrap_or_else(|| "default".to_owned()), ..Report::default() };
        let base = Trial { model: self.model.as_deref(), flow: Some(FLOW), seconds_max: self.seconds, set: &REFLECTING, ..Trial::default() };
        for (number, task) in (1..).zip(tasks) {
            let mut undisturbed = None;
            for &error in errors {
                let with = Box::pin(Trial { plant: Some(error), ..base }.perform(task, config)).await?;
                if !with.is_planted {
                    continue;
                }
                let without = Box::pin(Trial { plant: Some(error), set: &NOT_REFLECTING, ..base }.perform(task, config)).await?;
                let is_done = match undisturbed {
                    Some(is_done) => is_done,
                    None => *undisturbed.insert(Box::pin(base.perform(task, config)).await?.judged.is_ok()),
                };
                report.model = with.model.clone().unwrap_or(report.model);
                report.add(task, error, is_done, with.judged.is_ok(), without.judged.is_ok());
                let words = |judged: &std::result::Result<(), String>| match judged {
                    Ok(()) => "done".to_owned(),
                    Err(why) => format!("not done ({why})"),
                };
                let place = paint(DIM, format!("{number}/{}", tasks.len()));
                let (with, without) = (words(&with.judged), words(&without.judged));
                remark(&format!("{place} {}, {}: with reflection {with}, without {without}", task.id, error.name()));
            }
        }
        report.seconds = began.elapsed().as_secs_f64().round();
        Ok(report)
    }
}

impl Report {
    fn add(&mut self, task: &Task, error: PlantedError, undisturbed: bool, with: bool, without: bool) {
        self.all.add(undisturbed, with, without);
        self.by_error.entry(error.name()).or_default().add(undisturbed, with, without);
        if undisturbed && !with {
            self.not_mended.push(format!("{} {}", task.id, error.name()));
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&["error", "planted", "done without it", "with reflection", "without reflection"]);
        let mut row = |style: Style, name: &str, counts: &Counts| {
            let numbers = [counts.planted, counts.done_undisturbed, counts.done_with_reflection, counts.done_without];
            table.row(std::iter::once((style, name.to_owned())).chain(numbers.map(|number| (style, number.to_string()))));
        };
        for (error, counts) in &self.by_error {
            row(Style::new(), error, counts);
        }
        row(BOLD, "all", &self.all);
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairs_are_counted_by_error() {
        let tasks = task::all().unwrap();
        let mut report = Report::default();
        report.add(&tasks[0], PlantedError::Wrong, true, false, false);
        report.add(&tasks[1], PlantedError::Wrong, true, true, false);
        report.add(&tasks[2], PlantedError::MissingStep, false, false, false);
        let wrong = report.by_error["wrong"];
        assert_eq!((wrong.planted, wrong.done_undisturbed, wrong.done_with_reflection, wrong.done_without), (2, 2, 1, 0));
        assert_eq!((report.all.planted, report.not_mended.len()), (3, 1));
    }
}

//! `baton eval`: quality of retrieval, answers, checks, routing and tasks, on sets with known answers.

mod answers;
mod claims;
mod critics;
mod routes;
mod score;
pub(crate) mod server;
mod tasks;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anstyle::Style;
use clap::Subcommand;
use index::Model;
use index::eval::{self, Measured};
use service::caches;
use service::config::Config;
use service::global_args::GlobalArgs;
use service::{Result, ServiceError};
use terminal::{BOLD, DIM, Table, paint};

use crate::Verdict;

/// Measure the quality of retrieval, answers, checks, routing and tasks, on sets with known answers
#[derive(Subcommand)]
#[expect(missing_docs, reason = "a comment at a variant would replace the help text of its type")]
pub enum Eval {
    /// Passages for questions: HotpotQA, 2WikiMultihopQA or MuSiQue as JSON, or a folder in BEIR's layout
    Docs(Set),
    /// Tools for tasks: a folder with livemcp_tools.json and livemcp_tasks.json
    Tools(Set),
    Answers(answers::Answers),
    Claims(claims::Claims),
    Critics(critics::Critics),
    Reflection(tasks::Reflection),
    Routes(routes::Routes),
    Tasks(tasks::Tasks),
}

#[derive(clap::Args)]
pub struct Set {
    #[arg(long, value_name = "PATH")]
    data: PathBuf,
    /// Only full text and links
    #[arg(long)]
    no_vectors: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Eval {
    /// Measures and prints.
    pub fn run(self, globals: &GlobalArgs) -> Result<Verdict> {
        // The kernels of vectors and of the verifier are a setting.
        Config::read(globals)?;
        match self {
            Eval::Answers(answers) => return answers.run(globals),
            Eval::Docs(set) => set.run("docs", eval::docs),
            Eval::Tools(set) => set.run("tools", eval::tools),
            Eval::Claims(claims) => claims.run(),
            Eval::Critics(critics) => critics.run(globals),
            Eval::Reflection(reflection) => reflection.run(globals),
            Eval::Routes(routes) => routes.run(globals),
            Eval::Tasks(tasks) => tasks.run(globals),
        }?;
        Ok(Verdict::Passed)
    }
}

/// Measures one set; the folder holds its index.
type Measure = fn(&Path, &Path, &Model, &mut dyn FnMut(String)) -> std::result::Result<Measured, String>;

impl Set {
    fn run(&self, name: &str, measure: Measure) -> Result<()> {
        let set = self;
        let model = if set.no_vectors { Model::none() } else { Model::builtin() };
        let home = caches::eval_folder(name)?;
        let mut report = |line: String| drop(writeln!(anstream::stderr(), "{}", paint(DIM, line)));
        let measured = measure(&set.data, &home, &model, &mut report).map_err(ServiceError::Failed)?;
        let mut out = anstream::stdout().lock();
        if set.json {
            writeln!(out, "{}", serde_json::to_string(&measured)?)?;
        } else {
            table(name, &measured).write(&mut out)?;
        }
        Ok(())
    }
}

fn table(name: &str, measured: &Measured) -> Table {
    let mut table = Table::new(&["", name]);
    let mut row = |what: &str, value: String| table.row([(Style::new(), what.to_owned()), (BOLD, value)]);
    row("recall at 5", format!("{:.3}", measured.recall_at_5));
    row("recall at 10", format!("{:.3}", measured.recall_at_10));
    row("recall at 20", format!("{:.3}", measured.recall_at_20));
    row("all within 10", format!("{:.3}", measured.complete_at_10));
    if let (Some(shown), Some(searched)) = (measured.recall_shown, measured.recall_searched) {
        row("shown to a planner", format!("{shown:.3}"));
        row("after two tool searches", format!("{searched:.3}"));
    }
    row("questions", measured.queries.to_string());
    row("searched", measured.items.to_string());
    row("vectors", if measured.vectors { "yes" } else { "no" }.into());
    row("ms a question, mean", format!("{:.1}", measured.ms_per_query));
    row("ms a question, median", format!("{:.1}", measured.ms_per_query_median));
    row("s until searchable", format!("{:.2}", measured.index_seconds));
    if let Some(per_second) = measured.vectors_per_second {
        row("vectors a second", format!("{per_second:.0}"));
    }
    if measured.absent > 0 {
        row("wanted but not in the set", measured.absent.to_string());
    }
    table
}

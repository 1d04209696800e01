use std::io::Write as _;

use engine::{Steps, result_of};
use graph::Outcome;
use service::global_args::GlobalArgs;
use service::wiring;
use store::RunRow;
use terminal::{BOLD, DIM, GREEN, RED, paint, tail};

use crate::answer::Answer;
use crate::exit::{Exit, Result};
use crate::find;
use crate::text_diff::{Line, diff};

/// Show how two runs differ: their answers as text, and their steps
#[derive(clap::Args)]
#[command(after_help = "The exit code is 0, also where they differ.

Examples:
  baton runs diff 1f3a 77c0")]
pub(crate) struct Diff {
    left: String,
    right: String,
}

impl Diff {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        wiring::block_on(async {
            let engine = wiring::idle_engine(globals).await?;
            let (left, right) = (find::run(&**engine.store(), &self.left).await?, find::run(&**engine.store(), &self.right).await?);
            let mut out = anstream::stdout().lock();
            writeln!(out, "{}", paint(BOLD, format!("- {} {}\n+ {} {}", tail(&left.run), left.flow, tail(&right.run), right.flow)))?;
            let mut path = Vec::new();
            for row in [&left, &right] {
                let steps = Steps::of(&**engine.store(), engine.flows(), &row.run).await?.steps;
                path.push(steps.into_iter().map(|step| step.node).collect::<Vec<_>>().join("\n"));
            }
            for (title, a, b) in [("steps", path[0].clone(), path[1].clone()), ("answer", answer(&left), answer(&right))] {
                writeln!(out, "\n{}", paint(BOLD, title))?;
                if a == b {
                    writeln!(out, "{}", paint(DIM, "the same"))?;
                    continue;
                }
                for line in diff(&a, &b) {
                    match line {
                        Line::Same(text) => writeln!(out, "  {}", paint(DIM, evidence::visible(text)))?,
                        Line::Left(text) => writeln!(out, "{}", paint(RED, format!("- {}", evidence::visible(text))))?,
                        Line::Right(text) => writeln!(out, "{}", paint(GREEN, format!("+ {}", evidence::visible(text))))?,
                    }
                }
            }
            Ok(Exit::Well)
        })
    }
}

fn answer(row: &RunRow) -> String {
    match result_of(row).map(|closing| closing.outcome) {
        Some(Outcome::Done { output }) => Answer::of(&output, None).text,
        Some(Outcome::Failed { fault }) => format!("failed: {fault}"),
        Some(Outcome::Cancelled { reason }) => format!("cancelled: {reason}"),
        None => "not over yet".to_owned(),
    }
}

use std::io::Write as _;
use std::time::Duration;

use engine::{Engine, EngineError};
use service::global_args::GlobalArgs;
use service::model_options::ModelOptions;
use service::wiring;
use store::{RunFilter, Status};
use terminal::remark;
use terminal::tail;

use crate::exit::{Exit, Result, ServiceError};
use crate::find;
use crate::follow::{Follow, Interrupts};

/// Resume an interrupted run in this process
#[derive(clap::Args)]
pub(crate) struct Resume {
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    run: Option<String>,
    /// Resume every unfinished run that no process drives
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    model_options: ModelOptions,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl Resume {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        match &self.run {
            Some(typed) => wiring::block_on(async {
                let store = globals.open().await?;
                let row = find::run(&*store, typed).await?;
                let (engine, _) = wiring::engine_over(store, globals, &self.model_options, self.json).await?;
                let follow = Follow::resumed(&engine, &row.thread, &row.run, self.json).await?;
                engine.resume(&row.run).await?;
                follow.until_stopped().await
            }),
            None => wiring::block_on_all_cores(all(globals, &self.model_options)),
        }
    }
}

async fn all(globals: &GlobalArgs, model_options: &ModelOptions) -> Result<Exit> {
    let store = globals.open().await?;
    let (engine, _) = wiring::engine_over(store, globals, model_options, false).await?;
    let mut interrupts = Interrupts::listen()?;
    let unfinished = unfinished(&engine).await?;
    let taken = engine.recover().await?;
    remark(&format!("{taken} unfinished runs"));
    let mut exit = Exit::Well;
    for run in unfinished {
        let rest = tokio::select! {
            rest = engine.wait(&run) => rest,
            exit = interrupts.next() => {
                engine.stop(Duration::from_secs(3)).await;
                remark("nothing is lost; go on with: baton runs resume --all");
                return Ok(exit);
            }
        };
        let words = match rest {
            Ok(engine::RunState::Over(closing)) => match &closing.outcome {
                graph::Outcome::Done { .. } => "done".to_owned(),
                graph::Outcome::Failed { fault } => {
                    exit = Exit::Failed;
                    format!("failed: {fault}")
                }
                graph::Outcome::Cancelled { reason } => format!("cancelled: {reason}"),
            },
            Ok(engine::RunState::Parked(_)) => format!("waits for a person; `baton runs show {}` shows the question", tail(&run)),
            Ok(engine::RunState::Going | engine::RunState::Lost(_)) => "driven by another process".into(),
            Err(EngineError::Stopping) => "stopped".into(),
            Err(error) => {
                exit = Exit::Failed;
                ServiceError::from(error).to_string()
            }
        };
        writeln!(anstream::stdout(), "{}  {words}", tail(&run))?;
    }
    Ok(exit)
}

async fn unfinished(engine: &Engine) -> Result<Vec<graph::RunId>> {
    const RUNS_MAX: usize = 10_000;
    let filter = RunFilter { statuses: vec![Status::Running, Status::Waiting], limit: RUNS_MAX, ..RunFilter::default() };
    let rows = engine.store().runs(filter).await?;
    // A child is resumed by its parent.
    Ok(rows.into_iter().rev().filter(|row| row.parent.is_none()).map(|row| row.run).collect())
}

use engine::Delivery;
use graph::{RunId, TaskId};
use service::global_args::GlobalArgs;
use service::model_options::ModelOptions;
use service::wiring;
use store::{RunRow, Store, StoreError};
use terminal::remark;
use terminal::tail;

use crate::exit::{Exit, Result, ServiceError};
use crate::find;
use crate::follow::Follow;
use crate::question;

/// Answer a run's question; the run continues in this process
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  baton runs answer 1f3a yes\n  baton runs answer 1f3a 3.0 '{\"approve\": true}'
  baton runs answer 1f3a tool      to a question about a tool call: once, conversation, tool, server or no",
    override_usage = "baton runs answer RUN [TASK] VALUE"
)]
pub(crate) struct Answer {
    run: String,
    /// The question's task, as shown by `runs show`; needed only if several are open. Then the answer: JSON, or plain text
    #[arg(required = true, num_args = 1..=2, value_name = "[TASK] VALUE", allow_negative_numbers = true)]
    words: Vec<String>,
    #[command(flatten)]
    model_options: ModelOptions,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl Answer {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        let (task, typed) = match self.words.as_slice() {
            [task, typed] => (Some(parse_task(task)?), typed),
            [typed] => (None, typed),
            _ => return Err(ServiceError::Usage("baton runs answer RUN [TASK] VALUE".into())),
        };
        wiring::block_on(async {
            let store = globals.open().await?;
            let row = find::run(&*store, &self.run).await?;
            if row.status.is_over() {
                return Err(engine::EngineError::Over { run: row.run, status: row.status }.into());
            }
            let (engine, _) = wiring::engine_over(store, globals, &self.model_options, self.json).await?;
            let store = &**engine.store();
            let open = question::choose(&engine.open_questions(&row).await?, task)?;
            let value = question::answer(&open.waiting.question, typed);
            // An answer to a child resumes the whole tree; the root has the user's question.
            let thread = row.thread.clone();
            let root = root_run(store, row).await?;
            let mut follow = Follow::resumed(&engine, &thread, &root, self.json).await?;
            match follow.give(&open, value).await? {
                Delivery::Taken => follow.until_stopped().await,
                Delivery::Posted => {
                    remark(&format!("passed on to the process that drives the run; `baton runs watch {}` shows what follows", tail(&root)));
                    Ok(Exit::Well)
                }
            }
        })
    }
}

async fn root_run(store: &dyn Store, mut row: RunRow) -> Result<RunId> {
    while let Some(parent) = row.parent {
        row = store.run(&parent).await?.ok_or(StoreError::NoRun { run: parent })?;
    }
    Ok(row.run)
}

fn parse_task(text: &str) -> Result<TaskId> {
    let parts = text.split_once('.').and_then(|(step, index)| Some((step.parse().ok()?, index.parse().ok()?)));
    let (step, index) = parts.ok_or_else(|| ServiceError::Usage(format!("{text:?} is not a task such as 3.0; quote an answer that has spaces")))?;
    Ok(TaskId { step, index })
}

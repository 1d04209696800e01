use std::io::Write as _;
use std::path::Path;

use engine::{History, result_of};
use flows::no_model::FOUND;
use graph::{Event, Outcome};
use serde_json::json;
use service::global_args::GlobalArgs;
use service::hub;
use service::wiring;
use store::RunRow;
use terminal::{BOLD, DIM, YELLOW, now_ms, one_line, paint, short, spent, tail, took};

use super::inspect::Inspected;
use super::list::{INTERRUPTED, interrupted};
use crate::answer::Answer;
use crate::exit::{Exit, Result};
use crate::find;
use crate::question::{self, Open};
use crate::view::tree::{self, Tree};

/// Show a run: facts, steps, cost, result, open questions
#[derive(clap::Args)]
pub(crate) struct Show {
    run: String,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    /// Print the journal as it is stored, one JSON object a line
    #[arg(long, conflicts_with_all = ["prompts", "state", "nodes"])]
    journal: bool,
    /// Print the prompts as they were sent, and the replies
    #[arg(long, conflicts_with_all = ["state", "nodes"])]
    prompts: bool,
    /// Print the state of the flow on entering a step, and what the step before it changed
    #[arg(long, value_name = "STEP", conflicts_with = "nodes")]
    state: Option<u64>,
    /// Print what each node used: calls, tokens, cost, time
    #[arg(long)]
    nodes: bool,
}

impl Show {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        wiring::block_on(async {
            let engine = wiring::idle_engine(globals).await?;
            let row = find::run(&**engine.store(), &self.run).await?;
            let looked_at = Inspected { engine: &engine, run: &row.run, as_json: self.json };
            match (self.journal, self.prompts, self.state, self.nodes) {
                (true, ..) => return looked_at.journal().await,
                (_, true, ..) => return looked_at.prompts().await,
                (_, _, Some(step), _) => return looked_at.state(step).await,
                (.., true) => return looked_at.nodes().await,
                (false, false, None, false) => {}
            }
            // A journal that no longer fits its flow still has a row to show.
            let history = History::of(&**engine.store(), engine.flows(), &row.run).await;
            let open = if row.status.is_over() { Vec::new() } else { engine.open_questions(&row).await? };
            match self.json {
                true => print_json(&row, history, &open)?,
                false => {
                    let mut tree = Tree::new(row.run.clone());
                    let mut found = None;
                    for (run, events) in engine::tree_history(&engine, &row.run).await {
                        for numbered in &events {
                            tree.see(&run, &numbered.event);
                            if let Event::Noted { name, value, .. } = &numbered.event
                                && name == FOUND
                            {
                                found = Some(Answer::of(value, None));
                            }
                        }
                    }
                    let workspace = hub::workspace_of(globals, row.thread.as_str())?;
                    let is_interrupted = !interrupted(&**engine.store(), std::slice::from_ref(&row)).await?.is_empty();
                    print(&row, &history, &tree, &open, &workspace, is_interrupted)?;
                    // The results that a failed run or its child had found.
                    if let Some(found) = found.filter(|_| row.status == store::Status::Failed) {
                        writeln!(anstream::stdout())?;
                        found.print()?;
                    }
                }
            }
            Ok(Exit::Well)
        })
    }
}

fn print_json(row: &RunRow, history: engine::Result<History>, open: &[Open]) -> Result<()> {
    let shown = match history {
        Ok(past) => json!({
            "start": past.start, "events": past.events, "entries": past.lines, "state": past.state, "step": past.step, "node": past.node,
            "spent": past.spent, "elapsed_us": past.elapsed_us,
        }),
        Err(error) => json!({ "trouble": error.to_string() }),
    };
    Ok(writeln!(std::io::stdout(), "{}", json!({ "run": row, "history": shown, "waiting": open }))?)
}

fn print(row: &RunRow, history: &engine::Result<History>, tree: &Tree, open: &[Open], workspace: &Path, is_interrupted: bool) -> Result<()> {
    let mut out = anstream::stdout().lock();
    let fact = |name: &str, value: String| format!("{}  {value}", paint(DIM, format!("{name:<7}")));
    let (head, end) = short(&row.run);
    writeln!(out, "{}", fact("run", format!("{head}{}", paint(BOLD, end))))?;
    writeln!(out, "{}", fact("flow", row.flow.clone()))?;
    writeln!(out, "{}", fact("thread", row.thread.to_string()))?;
    writeln!(out, "{}", fact("asked", one_line(&row.title, 100)))?;
    let status = if is_interrupted { paint(YELLOW, INTERRUPTED) } else { paint(crate::style::status(row.status), row.status.as_str()) };
    writeln!(out, "{}", fact("status", status))?;
    let (started, lasted) = (terminal::ago(row.created_ms, now_ms()), took(row.updated_ms.saturating_sub(row.created_ms).unsigned_abs() * 1_000));
    writeln!(out, "{}", fact("started", format!("{started}; last changed {lasted} later")))?;
    if let Some(parent) = &row.parent {
        writeln!(out, "{}", fact("for", format!("run {}", tail(parent))))?;
    }
    match history {
        Ok(past) => {
            if let Some(origin) = past.start.as_ref().and_then(|start| start.forked_from.as_ref()) {
                writeln!(out, "{}", fact("fork", format!("of run {} at step {}", tail(&origin.run), origin.step)))?;
            }
            writeln!(out, "{}", fact("spent", format!("{}, {}", spent(&past.spent), took(past.elapsed_us))))?;
            writeln!(out)?;
            for line in tree.lines(tree::Open::Still) {
                writeln!(out, "{}", line.text)?;
            }
            if let Some(Outcome::Done { output }) = past.outcome.as_deref() {
                let answer = Answer::of(output, last_message(past));
                for file in &answer.files {
                    writeln!(out, "{}", fact("wrote", file.line()))?;
                }
                if answer.files.iter().any(|file| workspace.join(&file.path).exists()) {
                    writeln!(out, "{}", fact("folder", workspace.display().to_string()))?;
                }
                drop(out);
                writeln!(anstream::stdout())?;
                return answer.print();
            }
        }
        Err(error) => {
            writeln!(out, "\n{} {error}", paint(YELLOW, "its steps cannot be shown:"))?;
            if let Some(closing) = result_of(row) {
                writeln!(out, "{}", tree::ended(&closing.outcome))?;
            }
        }
    }
    for one in open {
        writeln!(out, "\n{} {}", paint(YELLOW, "?"), evidence::visible(&one.waiting.question.prompt))?;
        writeln!(out, "  answer with: {}", paint(BOLD, question::how(one, open)))?;
    }
    if row.status == store::Status::Running {
        match is_interrupted {
            true => writeln!(out, "\ncontinue with `baton runs resume {end}`")?,
            false => writeln!(out, "\n`baton runs watch {end}` shows its progress")?,
        }
    }
    Ok(())
}

/// The flow's last message.
fn last_message(past: &History) -> Option<&str> {
    past.events.iter().rev().find_map(|numbered| match &numbered.event {
        Event::Said { content, .. } => Some(content.as_str()),
        _ => None,
    })
}

use std::collections::BTreeMap;

use graph::ThreadId;
use serde_json::Value;
use service::global_args::GlobalArgs;
use service::model_options::ModelOptions;
use service::wiring;
use terminal::remark;
use terminal::tail;

use crate::exit::{Exit, Result};
use crate::find;
use crate::follow::Follow;

/// Start a new run from a step of another one; the original is unchanged
#[derive(clap::Args)]
#[command(after_help = "Examples:
  baton runs fork 1f3a --at 3
  baton runs fork 1f3a --at 3 --break '*'                runs step 3 again and waits before the next one
  baton runs fork 1f3a --at 3 --patch '{\"question\": \"Another one?\"}'
  baton runs fork 1f3a --at 0 --reply '0=[\"one query\"]'")]
pub(crate) struct Fork {
    run: String,
    /// The first step that is executed again; `runs show` numbers them
    #[arg(long, value_name = "STEP")]
    at: u64,
    /// A JSON merge patch for the state on entering that step
    #[arg(long, value_name = "JSON", value_parser = json)]
    patch: Option<Value>,
    /// A reply for an effect of that step, instead of performing it; may be repeated
    #[arg(long, value_name = "INDEX=JSON", value_parser = reply)]
    reply: Vec<(u32, Value)>,
    /// The thread of the new run [default: a new one]
    #[arg(long)]
    thread: Option<String>,
    /// Wait before this node, `*` for every one; not before the first that runs. With `*`, one node is run again
    #[arg(long = "break", value_name = "NODE")]
    breakpoints: Vec<String>,
    #[command(flatten)]
    model_options: ModelOptions,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl Fork {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        wiring::block_on(async {
            let store = globals.open().await?;
            let row = find::run(&*store, &self.run).await?;
            let (engine, _) = wiring::engine_over(store, globals, &self.model_options, self.json).await?;
            let replies: BTreeMap<u32, Value> = self.reply.into_iter().collect();
            let new = engine::new_run_id();
            let thread = self.thread.map_or_else(|| ThreadId::from(new.as_str()), ThreadId::from);
            let follow = Follow::new(&engine, &thread, &new, self.json)?;
            let fork = engine::Fork {
                at_step: self.at,
                patch: self.patch,
                replies,
                thread: Some(thread),
                breakpoints: self.breakpoints,
                passes_breakpoint: false,
                go_to: None,
                run: Some(new.clone()),
            };
            engine.fork(&row.run, fork).await?;
            if !self.json {
                remark(&format!("run {} goes on from step {} of {}", tail(&new), self.at, tail(&row.run)));
            }
            follow.until_stopped().await
        })
    }
}

fn json(text: &str) -> std::result::Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON ({error}); quote it for the shell, as in '{{\"a\": 1}}'"))
}

fn reply(text: &str) -> std::result::Result<(u32, Value), String> {
    let (index, value) = text.split_once('=').ok_or("write INDEX=JSON, as in '0={\"hits\": []}'")?;
    Ok((index.parse().map_err(|_| format!("{index:?} is not the number of an effect in its step"))?, json(value)?))
}

use engine::{SeenCounts, TreeWatcher};
use service::global_args::GlobalArgs;
use service::wiring;

use crate::exit::{Exit, Result};
use crate::find;
use crate::follow::{Interrupts, TICK};
use crate::view::View;

/// Watch a run, whichever process drives it: past events, then new ones, until it ends
#[derive(clap::Args)]
pub(crate) struct Watch {
    run: String,
    /// The first event to show
    #[arg(long, value_name = "N", default_value_t = 0)]
    from: u64,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl Watch {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        wiring::block_on(async {
            let engine = wiring::idle_engine(globals).await?;
            let row = find::run(&**engine.store(), &self.run).await?;
            let mut view = View::new(&row.run, self.json);
            let mut interrupts = Interrupts::listen()?;
            let mut family = TreeWatcher::watch(&engine, &row.thread, &row.run, SeenCounts::from([(row.run.clone(), self.from)]), view.watch_scope());
            let mut ticks = tokio::time::interval(TICK);
            let end = loop {
                tokio::select! {
                    received = family.next() => match received {
                        Some(received) => view.see(&received?)?,
                        None => break Exit::Well,
                    },
                    exit = interrupts.next() => break exit,
                    _ = ticks.tick() => view.tick(),
                }
            };
            view.clear();
            Ok(end)
        })
    }
}

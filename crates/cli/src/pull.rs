//! Fetching weights, with a bar for whoever waits.

use std::path::Path;
use std::time::Duration;

use embedded_model::weights::{self, Pinned, PullError, Pulled, Source, Sources, Step};
use indicatif::{ProgressBar, ProgressStyle};

use crate::exit::{Exit, Result, Trouble};
use crate::follow::{Interrupts, remark};
use crate::mind::name_of;
use crate::text::{DIM, bytes, paint};

/// Says what it fetches, from where in the end, and why not from elsewhere. What was fetched stays when it is interrupted.
pub(crate) async fn pull(pinned: &Pinned, folder: &Path, sources: Sources, is_quiet: bool) -> Result<Pulled> {
    let name = name_of(pinned);
    if !is_quiet {
        remark(&format!("fetching {name}: {}, once, into {}", bytes(pinned.bytes), folder.display()));
    }
    let bar = if is_quiet { ProgressBar::hidden() } else { bar(pinned.bytes) };
    let shown = bar.clone();
    let tell = move |step: Step| {
        shown.set_message(step.source.to_string());
        shown.set_position(step.done_bytes);
    };
    let mut interrupts = Interrupts::listen()?;
    let pulled = tokio::select! {
        pulled = weights::pull(pinned, folder, &sources, &tell) => pulled,
        exit = interrupts.next() => {
            bar.finish_and_clear();
            return Err(Trouble::Stopped(exit, "what was fetched is kept; the next pull goes on from there".into()));
        }
    };
    bar.finish_and_clear();
    match pulled {
        Ok(pulled) => {
            if !is_quiet {
                report(&name.to_string(), &pulled);
            }
            Ok(pulled)
        }
        Err(error @ PullError::NoSource { .. }) => {
            Err(Trouble::Failed(format!("{error}\n`baton models pull {} --from FILE` takes a copy you have", pinned.name)))
        }
        Err(error) => Err(Trouble::Failed(error.to_string())),
    }
}

fn report(name: &str, pulled: &Pulled) {
    for (source, why) in &pulled.failed {
        remark(&paint(DIM, format!("not from {source}: {why}")));
    }
    match pulled.source {
        Source::Kept => remark(&format!("{name} is here already: {}", pulled.path.display())),
        source => remark(&format!("{name} came from {source} and has the right SHA-256: {}", pulled.path.display())),
    }
}

fn bar(total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30.cyan} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}");
    let bar = ProgressBar::new(total);
    // The template is a constant; should it be wrong, the usual bar will do.
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

impl Trouble {
    /// Whether somebody pressed Ctrl-C, so that nothing else should be tried.
    pub(crate) fn is_stop(&self) -> bool {
        matches!(self, Trouble::Stopped(Exit::Interrupted | Exit::Terminated, _))
    }
}

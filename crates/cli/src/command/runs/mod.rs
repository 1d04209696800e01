//! The commands about runs, one file each; this list names them all.

mod answer;
mod cancel;
mod diff;
mod export;
mod fork;
mod inspect;
mod list;
mod replay;
mod resume;
mod show;
mod watch;

use service::global_args::GlobalArgs;

use crate::exit::{Exit, Result};

/// List, show, resume, answer, cancel, replay and fork runs
#[derive(clap::Subcommand)]
#[command(after_help = AFTER_HELP)]
pub(crate) enum Runs {
    List(list::List),
    Show(show::Show),
    Watch(watch::Watch),
    Resume(resume::Resume),
    Answer(answer::Answer),
    Cancel(cancel::Cancel),
    Replay(replay::Replay),
    Fork(fork::Fork),
    Export(export::Export),
    Diff(diff::Diff),
}

const AFTER_HELP: &str = "\
RUN is any part of an id that fits only one run; lists show the end of each.

Examples:
  baton runs list --status asking
  baton runs show 1f3a
  baton runs show 1f3a --state 3                        also --journal, --prompts, --nodes
  baton runs diff 1f3a 77c0
  baton runs answer 1f3a yes
  baton runs fork 1f3a --at 2 --patch '{\"question\": \"Another one?\"}'";

impl Runs {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        match self {
            Runs::List(list) => list.run(globals),
            Runs::Show(show) => show.run(globals),
            Runs::Watch(watch) => watch.run(globals),
            Runs::Resume(resume) => resume.run(globals),
            Runs::Answer(answer) => answer.run(globals),
            Runs::Cancel(cancel) => cancel.run(globals),
            Runs::Replay(replay) => replay.run(globals),
            Runs::Fork(fork) => fork.run(globals),
            Runs::Export(export) => export.run(globals),
            Runs::Diff(diff) => diff.run(globals),
        }
    }
}

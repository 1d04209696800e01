//! An interactive session in one thread. [`slash`] lists its commands, [`session`] runs them.

mod session;
mod slash;

use service::global_args::GlobalArgs;
use service::run_request::AskOptions;

use crate::exit::{self, Exit, Result};

/// Chat interactively in one thread; the model stays loaded between messages
#[derive(clap::Args)]
#[command(after_help = exit::with_codes(&format!("{}\n\n{AFTER_HELP}", slash::help())))]
pub(crate) struct Chat {
    #[command(flatten)]
    options: AskOptions,
}

const AFTER_HELP: &str = "\
A line that ends in \\ goes on in the next; what is pasted stays together. Ctrl-C cancels the run that goes, or clears the line; Ctrl-D ends.
What is not typed but piped in is one message a line; then the exit code is that of the first message that did not go well.

Examples:
  baton chat --docs ~/notes
  baton chat --thread wal --model ollama/qwen3:4b
  printf 'What is a WAL?\\nAnd in Postgres?\\n' | baton chat";

impl Chat {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        session::run(self.options, globals)
    }
}

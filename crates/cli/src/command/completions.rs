use std::io::Write as _;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::exit::{Exit, Result};

/// Print a shell completion script
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Completions {
    shell: Shell,
}

const AFTER_HELP: &str = "\
Examples:
  baton completions bash > ~/.local/share/bash-completion/completions/baton
  baton completions zsh  > ~/.zfunc/_baton                  with `fpath+=~/.zfunc` before `compinit`
  baton completions fish > ~/.config/fish/completions/baton.fish";

impl Completions {
    pub(crate) fn run(self) -> Result<Exit> {
        // Generated in memory first: the generator panics if the reader closes the pipe.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::Baton::command(), "baton", &mut script);
        std::io::stdout().write_all(&script)?;
        Ok(Exit::Well)
    }
}

use service::global_args::GlobalArgs;
use service::wiring;
use terminal::remark;

use crate::exit::{Exit, Result};
use crate::export::Target;
use crate::find;

/// Write the answer of a run to a file: .md, .html, .docx or .pdf
#[derive(clap::Args)]
#[command(after_help = "Examples:
  baton runs export 1f3a answer.pdf")]
pub(crate) struct Export {
    run: String,
    /// A file of that name is replaced
    #[arg(value_name = "FILE", value_parser = Target::parse)]
    file: Target,
}

impl Export {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        wiring::block_on(async {
            let store = globals.open().await?;
            let row = find::run(&*store, &self.run).await?;
            self.file.write(&row).await?;
            remark(&format!("wrote {}", self.file.path().display()));
            Ok(Exit::Well)
        })
    }
}

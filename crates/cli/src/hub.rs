//! The tools there are: the servers of the user's `mcp.json` files, and what was imported.

use std::path::{Path, PathBuf};

use world::tool::{Config, Tools};

use crate::exit::{Result, Trouble};
use crate::place::Place;

/// Which servers a command uses.
#[derive(clap::Args)]
pub(crate) struct Servers {
    /// A file of MCP servers as other hosts write it; may be given several times [default: mcp.json in Baton's data folder]
    ///
    /// A file in the folder you are in is not read by itself: it could start anything.
    #[arg(long = "mcp", value_name = "MCP.JSON")]
    configs: Vec<PathBuf>,
}

impl Servers {
    /// Nothing is started by this: servers are when somebody needs them.
    pub(crate) fn hub(&self, place: &Place) -> Result<Tools> {
        let folder = folder(place)?;
        let mut config = Config::default();
        let by_default = folder.join("mcp.json");
        let files: Vec<&Path> = match self.configs.is_empty() {
            true => Some(by_default.as_path()).filter(|path| path.exists()).into_iter().collect(),
            false => self.configs.iter().map(PathBuf::as_path).collect(),
        };
        for path in files {
            config.merge(read(path)?);
        }
        let imported = imported(place)?;
        if imported.exists() {
            config.merge(read(&imported)?);
        }
        for remark in &config.remarks {
            tracing::warn!("{remark}");
        }
        Ok(Tools::builder().with_config(config).with_memory(folder.join("tools.json")).build())
    }
}

/// Where imports are kept, in the form of any other `mcp.json`.
pub(crate) fn imported(place: &Place) -> Result<PathBuf> {
    Ok(folder(place)?.join("imported.json"))
}

fn folder(place: &Place) -> Result<PathBuf> {
    Ok(place.path()?.parent().map(Path::to_path_buf).unwrap_or_default())
}

fn read(path: &Path) -> Result<Config> {
    Config::read(path, &|name| std::env::var(name).ok()).map_err(Trouble::Usage)
}

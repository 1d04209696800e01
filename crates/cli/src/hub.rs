//! The tools there are: those that come with Baton, the servers of the user's `mcp.json` files, and what was imported.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use index::Folders;
use tools::Thinker;
use world::tool::{Builder, Config, Tools};

use crate::config;
use crate::exit::{Result, Trouble};
use crate::place::Place;
use crate::rank::ByMeaning;
use crate::shelf;

/// Made-up data has no place in an answer until somebody wants it there: `baton tools enable stories`.
const SAMPLES: [&str; 1] = ["stories"];

/// Which servers a command uses.
#[derive(clap::Args, Default)]
pub(crate) struct Servers {
    /// A file of MCP servers as other hosts write it; may be given several times [default: mcp.json in Baton's data folder]
    ///
    /// A file in the folder you are in is not read by itself: it could start anything.
    #[arg(long = "mcp", value_name = "MCP.JSON")]
    configs: Vec<PathBuf>,
    /// A folder or file of documents to search and cite; may be given several times [default: in Baton's own folder, its documentation]
    #[arg(long, value_name = "DIR")]
    pub(crate) docs: Vec<PathBuf>,
    /// An index that is open already, in place of one over `docs`.
    #[arg(skip)]
    pub(crate) shelf: Option<Arc<Folders>>,
}

impl Servers {
    /// Only what comes with Baton, over these documents.
    pub(crate) fn over(docs: PathBuf) -> Self {
        Servers { docs: vec![docs], ..Servers::default() }
    }

    /// The names of all servers: those that come with Baton and those that are configured. Nothing is started by this.
    pub(crate) fn names(&self, place: &Place, settings: &config::Config) -> Result<Vec<String>> {
        let built_in = tools::KINDS.iter().map(|kind| kind.name.to_owned());
        Ok(built_in.chain(self.configured(place, settings)?.servers.into_keys()).collect())
    }

    /// Nothing is started by this: servers are when somebody needs them.
    pub(crate) fn hub(&self, place: &Place, settings: &config::Config, thinker: Option<Arc<dyn Thinker>>) -> Result<Tools> {
        let folder = folder(place)?;
        let config = self.configured(place, settings)?;
        for remark in &config.remarks {
            tracing::warn!("{remark}");
        }
        let hub = Tools::builder().with_config(config).with_off(&SAMPLES).with_memory(folder.join("tools.json"));
        let hub = hub.with_rank(ByMeaning::new(shelf::model_here()?, shelf::of_tools()?));
        Ok(with_builtins(hub, &self.builtins(&folder, settings, thinker)?).build())
    }

    fn configured(&self, place: &Place, settings: &config::Config) -> Result<Config> {
        let folder = folder(place)?;
        let mut config = Config::default();
        let by_default = folder.join("mcp.json");
        let files: Vec<&Path> = match (self.configs.as_slice(), settings.tools.mcp.as_slice()) {
            ([], []) => Some(by_default.as_path()).filter(|path| path.exists()).into_iter().collect(),
            ([], files) | (files, _) => files.iter().map(PathBuf::as_path).collect(),
        };
        for path in files {
            config.merge(read(path)?);
        }
        let imported = imported(place)?;
        if imported.exists() {
            config.merge(read(&imported)?);
        }
        Ok(config)
    }
}

/// Where somebody tries Baton for the first time, there is something to ask about.
fn own_documents() -> Vec<PathBuf> {
    let own = ["README.md", "ARCHITECTURE.md"].map(PathBuf::from);
    let is_ours =
        std::fs::read_to_string(&own[0]).is_ok_and(|readme| readme.starts_with("# Baton\n")) && Path::new("crates/cli/Cargo.toml").is_file();
    own.into_iter().filter(|file| is_ours && file.is_file()).collect()
}

/// Those that come with Baton run in this process.
pub(crate) fn with_builtins(mut hub: Builder, settings: &tools::Settings) -> Builder {
    let (ready, unready) = tools::all(settings);
    for lack in unready {
        tracing::info!("{lack}");
    }
    for builtin in ready {
        let (name, trust) = (builtin.name, builtin.trust);
        hub = hub.with_local(name, trust, move |pipe| {
            let session = builtin.clone().serve(pipe);
            Box::pin(async move {
                if let Err(why) = session.await {
                    tracing::debug!("{name}: {why}");
                }
            })
        });
    }
    hub
}

impl Servers {
    /// What is searched and cited: what was named here and in the configuration.
    pub(crate) fn documents(&self, settings: &config::Config) -> Vec<PathBuf> {
        let named: Vec<PathBuf> = self.docs.iter().chain(&settings.tools.docs).cloned().collect();
        if named.is_empty() { own_documents() } else { named }
    }

    /// What the built-in servers are made from. What they write lies in Baton's data folder unless the configuration says otherwise.
    fn builtins(&self, folder: &Path, settings: &config::Config, thinker: Option<Arc<dyn Thinker>>) -> Result<tools::Settings> {
        let config = &settings.tools;
        let documents =
            config.document.clone().unwrap_or_else(|| tools::document::Settings { folder: folder.join("documents"), ..Default::default() });
        let mail = config.mail.clone().unwrap_or_else(|| tools::mail::Settings {
            outbox: folder.join("outbox"),
            attachment_folders: vec![documents.folder.clone()],
            ..Default::default()
        });
        let mut wanted = tools::Settings { thinker, ..tools::Settings::from_env() };
        wanted.root.clone_from(&config.root);
        wanted.private_hosts.extend(config.private_hosts.iter().cloned());
        wanted.code = config.code.clone();
        (wanted.document, wanted.mail) = (Some(documents), Some(mail));
        let docs = self.documents(settings);
        if self.shelf.is_some() {
            wanted.docs.clone_from(&self.shelf);
        } else if !docs.is_empty() {
            wanted.docs = Some(Arc::new(shelf::folders(&docs)?));
        }
        Ok(wanted)
    }
}

/// Where imports are kept, in the form of any other `mcp.json`.
pub(crate) fn imported(place: &Place) -> Result<PathBuf> {
    Ok(folder(place)?.join("imported.json"))
}

/// Where Baton keeps what belongs to the database.
pub(crate) fn folder(place: &Place) -> Result<PathBuf> {
    Ok(place.path()?.parent().map(Path::to_path_buf).unwrap_or_default())
}

fn read(path: &Path) -> Result<Config> {
    Config::read(path, &|name| std::env::var(name).ok()).map_err(Trouble::Usage)
}

//! The available tools: built-in servers, the servers of the user's `mcp.json` files, and imported ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use index::Folders;
use mcp_hub::config::RedactedText;
use mcp_hub::{Builder, Config, REGISTRY, RegistrySource, Tools, is_registry_at};
use store::Store;
use tools::TextModel;
use tools::workspace::Workspaces;

use crate::caches;
use crate::config;
use crate::error::{Result, ServiceError};
use crate::global_args::GlobalArgs;
use crate::rank::VectorRanker;
use crate::reader;
use crate::shared_outbox::StoreOutbox;

/// Sample data is not used until enabled: `baton tools enable stories`.
const SAMPLES: [&str; 1] = ["stories"];

/// Instead of an address: no registry is used, not even at the default address.
const OFF: &str = "off";
/// The environment variable with the registry's address.
pub const REGISTRY_URL: &str = "BATON_REGISTRY_URL";
/// The environment variable with a registry's bearer token unless the configuration names another.
const REGISTRY_TOKEN: &str = "BATON_REGISTRY_TOKEN";

/// The servers of a command.
#[derive(clap::Args, Default)]
pub struct Servers {
    /// A file of MCP servers in the usual format; may be repeated [default: mcp.json in Baton's data folder]
    ///
    /// A file in the current folder is not read automatically: it could start anything.
    #[arg(long = "mcp", value_name = "MCP.JSON")]
    configs: Vec<PathBuf>,
    /// A folder or file of documents to search and cite; may be repeated [default: in Baton's source folder, its documentation]
    #[arg(long, value_name = "DIR")]
    pub docs: Vec<PathBuf>,
    /// The folder in which `files` and `code` work, for this command [default: one folder per thread, managed by Baton]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// A registry whose tools are used too: http://host:8021, or `off` [default: the configuration's, or one that answers at
    /// http://localhost:8021]
    ///
    /// Its tools are untrusted unless the configuration has [tools] registry_trusted = true. Built-in and locally configured servers take
    /// precedence.
    #[arg(long, value_name = "URL", env = REGISTRY_URL, hide_env = true)]
    registry: Option<String>,
    /// An index that is open already, instead of one over `docs`.
    #[arg(skip)]
    pub open_index: Option<Arc<Folders>>,
}

impl Servers {
    /// Only built-in servers, over these documents.
    pub fn over(docs: PathBuf) -> Self {
        Servers { docs: vec![docs], registry: Some(OFF.to_owned()), ..Servers::default() }
    }

    /// Values from the environment, for commands without these options.
    pub fn of_environment() -> Self {
        Servers { registry: config::env(REGISTRY_URL), ..Servers::default() }
    }

    /// The registry to use: the named one, or one that answers at the default address.
    pub async fn registry(&self, settings: &config::Config) -> Result<Option<RegistrySource>> {
        let named = self.registry.as_deref().or(settings.tools.registry.as_deref()).map(str::trim);
        let url = match named {
            Some("" | OFF) => return Ok(None),
            Some(url) if url.starts_with("http://") || url.starts_with("https://") => url.to_owned(),
            Some(other) => {
                return Err(ServiceError::Usage(format!("{other:?} is not the address of a registry; write http://host:8021, or `{OFF}`")));
            }
            None => {
                let url = format!("http://localhost:{}", settings.team.registry_port());
                if !is_registry_at(&url).await {
                    return Ok(None);
                }
                url
            }
        };
        let token = match &settings.tools.registry_token_env {
            None => settings.key(REGISTRY_TOKEN),
            Some(variable) => {
                let lacks = || ServiceError::Usage(format!("[tools] registry_token_env names {variable}, which is not set"));
                Some(settings.key(variable).ok_or_else(lacks)?)
            }
        };
        Ok(Some(RegistrySource { url, is_trusted: settings.tools.registry_trusted, token: token.map(RedactedText::new) }))
    }

    /// Whether a registry was named here. A registry itself uses none.
    pub fn names_registry(&self) -> bool {
        self.registry.as_deref().is_some_and(|url| !matches!(url.trim(), "" | OFF))
    }

    /// The names of all servers, built-in and configured. Starts none of them.
    pub fn names(&self, globals: &GlobalArgs, settings: &config::Config) -> Result<Vec<String>> {
        let configured = self.configured(globals, settings)?.servers.into_keys().chain(imported_servers(globals)?.servers.into_keys());
        Ok(reserved().map(str::to_owned).chain(configured).collect())
    }

    /// Names that imported servers may not have: those of built-in servers and of the user's own files.
    pub fn reserved(&self, globals: &GlobalArgs, settings: &config::Config) -> Result<Vec<String>> {
        Ok(reserved().chain([REGISTRY]).map(str::to_owned).chain(self.configured(globals, settings)?.servers.into_keys()).collect())
    }

    /// Starts no server: each is started when first needed.
    pub fn hub(
        &self,
        globals: &GlobalArgs,
        settings: &config::Config,
        text_model: Option<Arc<dyn TextModel>>,
        registry: Option<&RegistrySource>,
        store: Option<&Arc<dyn Store>>,
    ) -> Result<Tools> {
        let folder = folder(globals)?;
        let (config, imported) = (self.configured(globals, settings)?, imported_servers(globals)?);
        for remark in config.remarks.iter().chain(&imported.remarks) {
            tracing::warn!("{remark}");
        }
        let hub = Tools::builder()
            .with_config(config)
            .with_imported(imported)
            .with_reserved(reserved())
            .with_off(&SAMPLES)
            .with_memory(folder.join("tools.json"))
            .with_credentials(folder.join("oauth"));
        let hub = match registry {
            Some(source) => hub.with_registry(source),
            None => hub,
        };
        let hub = hub.with_rank(VectorRanker::new(index::Model::builtin(), caches::tool_vectors_file()?));
        Ok(with_builtins(hub, &self.builtins(&folder, settings, text_model, store)?).build())
    }

    fn configured(&self, globals: &GlobalArgs, settings: &config::Config) -> Result<Config> {
        let folder = folder(globals)?;
        let mut config = Config::default();
        let by_default = folder.join("mcp.json");
        let files: Vec<&Path> = match (self.configs.as_slice(), settings.tools.mcp.as_slice()) {
            ([], []) => Some(by_default.as_path()).filter(|path| path.exists()).into_iter().collect(),
            ([], files) | (files, _) => files.iter().map(PathBuf::as_path).collect(),
        };
        for path in files {
            config.merge(read(path)?);
        }
        Ok(config)
    }
}

/// Something to ask about for first-time users.
fn own_documents() -> Vec<PathBuf> {
    let own = ["README.md", "ARCHITECTURE.md"].map(PathBuf::from);
    let is_ours =
        std::fs::read_to_string(&own[0]).is_ok_and(|readme| readme.starts_with("# Baton\n")) && Path::new("crates/cli/Cargo.toml").is_file();
    own.into_iter().filter(|file| is_ours && file.is_file()).collect()
}

/// Built-in servers run in this process.
pub fn with_builtins(mut hub: Builder, settings: &tools::Settings) -> Builder {
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
    /// The documents to search: those named here and in the configuration.
    pub fn documents(&self, settings: &config::Config) -> Vec<PathBuf> {
        let named: Vec<PathBuf> = self.docs.iter().chain(&settings.tools.docs).cloned().collect();
        if named.is_empty() { own_documents() } else { named }
    }

    /// The workspaces of `files` and `code`: the folder named here or in the configuration, or one per thread.
    pub fn workspaces(&self, folder: &Path, settings: &config::Config) -> Workspaces {
        let own = folder.join("workspaces");
        match self.workspace.as_ref().or(settings.tools.root.as_ref()) {
            Some(named) => Workspaces::fixed(named.clone(), own.join(".records")),
            None => Workspaces::per_thread(own),
        }
    }

    /// The settings of the built-in servers. They write to Baton's data folder unless the configuration has another folder.
    fn builtins(
        &self,
        folder: &Path,
        settings: &config::Config,
        text_model: Option<Arc<dyn TextModel>>,
        store: Option<&Arc<dyn Store>>,
    ) -> Result<tools::Settings> {
        let config = &settings.tools;
        let documents =
            config.document.clone().unwrap_or_else(|| tools::document::Settings { folder: folder.join("documents"), ..Default::default() });
        let mail = config.mail.clone().unwrap_or_else(|| tools::mail::Settings {
            outbox: folder.join("outbox"),
            attachment_folders: vec![documents.folder.clone()],
            ..Default::default()
        });
        let keys = settings.keys.clone();
        // Keys that operators store count like variables of the environment.
        let env = move |name: &str| keys.find(name);
        let mut wanted = tools::Settings { text_model, env: Arc::new(env), ..tools::Settings::from_env() };
        let workspaces = self.workspaces(folder, settings);
        if !workspaces.is_own() && !workspaces.folder(None).is_dir() {
            let named = workspaces.folder(None);
            return Err(ServiceError::Usage(format!("the workspace {} is not a folder; make it first, or name another", named.display())));
        }
        wanted.workspaces = Some(workspaces);
        wanted.private_hosts.extend(config.private_hosts.iter().cloned());
        wanted.reader = Some(reader::for_pages()?);
        wanted.code = config.code.clone();
        (wanted.document, wanted.mail) = (Some(documents), Some(mail));
        wanted.outbox = store.and_then(StoreOutbox::of);
        let docs = self.documents(settings);
        if self.open_index.is_some() {
            wanted.docs.clone_from(&self.open_index);
        } else if !docs.is_empty() {
            wanted.docs = Some(Arc::new(caches::open_folders(&docs)?));
        }
        Ok(wanted)
    }
}

/// The built-in servers, whether or not they are available here.
fn reserved() -> impl Iterator<Item = &'static str> {
    tools::KINDS.iter().map(|kind| kind.name)
}

/// Imported servers. They get only the environment variables that a person listed.
fn imported_servers(globals: &GlobalArgs) -> Result<Config> {
    let path = imported(globals)?;
    if path.exists() { Config::read_imported(&path, &|name| std::env::var(name).ok()).map_err(ServiceError::Usage) } else { Ok(Config::default()) }
}

/// Whether a server was imported from a registry or another program.
pub fn is_imported(globals: &GlobalArgs, server: &str) -> Result<bool> {
    Ok(imported_servers(globals)?.servers.contains_key(server))
}

/// The file of imports, in the format of `mcp.json`.
pub fn imported(globals: &GlobalArgs) -> Result<PathBuf> {
    Ok(folder(globals)?.join("imported.json"))
}

/// The files of a thread, unless a command named another folder.
pub fn workspace_of(globals: &GlobalArgs, thread: &str) -> Result<PathBuf> {
    // With a script, the configuration is not used.
    let config = if globals.script.is_some() { config::Config::default() } else { config::Config::read(globals)? };
    Ok(Servers::default().workspaces(&folder(globals)?, &config).folder(Some(thread)))
}

/// The data folder beside the database.
pub fn folder(globals: &GlobalArgs) -> Result<PathBuf> {
    Ok(globals.path()?.parent().map(Path::to_path_buf).unwrap_or_default())
}

fn read(path: &Path) -> Result<Config> {
    Config::read(path, &|name| std::env::var(name).ok()).map_err(ServiceError::Usage)
}

//! The options of every command: database, configuration, script.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flows::Registry;
use store::{SqliteSettings, SqliteStore, Store};

use crate::error::{Result, ServiceError};
use crate::private;
use crate::store_at::{self, StoreAt};

/// In the help of a command these options stand below its own.
const HEADING: &str = "Options of every command";

/// The options every command has.
#[derive(clap::Args)]
pub struct GlobalArgs {
    /// The database file [default: baton/baton.db in the user's data folder]
    #[arg(long, env = "BATON_DB", global = true, value_name = "FILE", hide_env = true, help_heading = HEADING)]
    db: Option<PathBuf>,
    /// Keep runs in Postgres, for several servers: postgres://USER@HOST/DATABASE, password in BATON_STORE_PASSWORD [default: the file of --db]
    #[arg(long, env = "BATON_STORE", global = true, value_name = "URL", hide_env = true, hide_env_values = true, help_heading = HEADING)]
    store: Option<String>,
    /// The configuration file [default: baton/baton.toml in the user's configuration folder]
    #[arg(long, env = "BATON_CONFIG", global = true, value_name = "FILE", hide_env = true, help_heading = HEADING)]
    pub config: Option<PathBuf>,
    /// A script that replaces models and tools, for tests; `sample` is the built-in one
    #[arg(long, env = "BATON_SCRIPT", global = true, value_name = "FILE", hide = true)]
    pub script: Option<PathBuf>,
    /// The flows of this program.
    #[arg(skip)]
    pub flows: Registry,
}

impl GlobalArgs {
    /// A separate database and configuration.
    pub fn new(db: PathBuf, config: PathBuf) -> GlobalArgs {
        GlobalArgs { db: Some(db), store: None, config: Some(config), script: None, flows: Registry::default() }
    }

    /// For commands that may start something: the file is created if missing.
    pub async fn open_or_make(&self) -> Result<Arc<dyn Store>> {
        let path = self.path()?;
        // Files are stored there, whatever stores the runs.
        if self.db.is_none()
            && let Some(folder) = path.parent()
        {
            private::make_folder(folder).map_err(|error| ServiceError::Folder(format!("the folder {} cannot be made: {error}", folder.display())))?;
        }
        if let Some(at) = self.shared()? {
            return at.open().await;
        }
        Ok(Arc::new(SqliteStore::open(path, SqliteSettings::default())?))
    }

    /// For commands that only inspect: a mistyped path must not become an empty database.
    pub async fn open(&self) -> Result<Arc<dyn Store>> {
        if let Some(at) = self.shared()? {
            return at.open().await;
        }
        Ok(Arc::new(self.open_file()?))
    }

    /// For commands that work on the database file itself.
    pub fn open_file(&self) -> Result<SqliteStore> {
        if let Some(at) = self.shared()? {
            let name = at.name();
            return Err(ServiceError::Usage(format!(
                "this command works on database files, and the store is {name}; back that up with pg_dump, or make a file of it with \
                 `baton store copy {name} FILE` and use this command with --db FILE; files beside the database are in its folder on each server"
            )));
        }
        let path = self.path()?;
        if !path.exists() {
            let path = path.display();
            return Err(ServiceError::Folder(format!("there is no database at {path} yet; `baton ask \"…\"` makes one, --db names another")));
        }
        Ok(SqliteStore::open(path, SqliteSettings::default())?)
    }

    /// Options about the store for a server started from here. A URL with a password came from the environment, which it inherits.
    pub fn store_arguments(&self) -> Vec<String> {
        let named = self.store.as_ref().filter(|url| std::env::args().any(|argument| argument.contains(url.as_str())));
        named.map_or_else(Vec::new, |url| vec!["--store".to_owned(), url.clone()])
    }

    /// The Postgres database, if one is named: by `--store`, or by `[store]` in the configuration unless `--db` names a file.
    pub fn shared(&self) -> Result<Option<StoreAt>> {
        store_at::find(self.store.as_deref(), self.db.is_some(), self)
    }

    /// The arguments of an agent, which has its own database: the named one, or one beside the user's. All agents write into one folder, so
    /// that the mailer finds the writer's files.
    pub fn of_agent(&self, name: &str) -> Result<GlobalArgs> {
        let db = match &self.db {
            Some(db) => db.clone(),
            None => {
                let folder = self.path()?.parent().map(Path::to_path_buf).unwrap_or_default().join("agents");
                private::make_folder(&folder)
                    .map_err(|error| ServiceError::Folder(format!("the folder {} cannot be made: {error}", folder.display())))?;
                folder.join(format!("{name}.db"))
            }
        };
        Ok(GlobalArgs { db: Some(db), store: None, config: self.config.clone(), script: self.script.clone(), flows: self.flows.clone() })
    }

    /// The path of the database file.
    pub fn path(&self) -> Result<PathBuf> {
        if let Some(path) = &self.db {
            return Ok(path.clone());
        }
        let data = dirs::data_dir().ok_or_else(|| ServiceError::Folder("this user has no data folder; name a database file with --db".into()))?;
        Ok(data.join("baton").join("baton.db"))
    }
}

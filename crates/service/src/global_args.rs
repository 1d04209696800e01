//! The options of every command: database, configuration, script.

use std::path::{Path, PathBuf};

use flows::Registry;
use store::{SqliteSettings, SqliteStore};

use crate::error::{Result, ServiceError};
use crate::private;

/// The options every command has.
#[derive(clap::Args)]
pub struct GlobalArgs {
    /// The database file [default: baton/baton.db in the user's data folder]
    #[arg(long, env = "BATON_DB", global = true, value_name = "FILE", hide_env = true)]
    db: Option<PathBuf>,
    /// The configuration file [default: baton/baton.toml in the user's configuration folder]
    #[arg(long, env = "BATON_CONFIG", global = true, value_name = "FILE", hide_env = true)]
    pub config: Option<PathBuf>,
    /// A script that replaces models and tools, for tests; `sample` is the built-in one
    #[arg(long, env = "BATON_SCRIPT", global = true, value_name = "FILE", hide = true)]
    pub script: Option<PathBuf>,
    /// The flows of this program.
    #[arg(skip)]
    pub flows: Registry,
}

impl GlobalArgs {
    /// A database and a configuration of the caller's own.
    pub fn new(db: PathBuf, config: PathBuf) -> GlobalArgs {
        GlobalArgs { db: Some(db), config: Some(config), script: None, flows: Registry::default() }
    }

    /// For commands that begin something: the file is made if there is none.
    pub fn open_or_make(&self) -> Result<SqliteStore> {
        let path = self.path()?;
        if self.db.is_none()
            && let Some(folder) = path.parent()
        {
            private::make_folder(folder).map_err(|error| ServiceError::Folder(format!("the folder {} cannot be made: {error}", folder.display())))?;
        }
        Ok(SqliteStore::open(path, SqliteSettings::default())?)
    }

    /// For commands that look at what there is: a mistyped path must not become an empty database.
    pub fn open(&self) -> Result<SqliteStore> {
        let path = self.path()?;
        if !path.exists() {
            let path = path.display();
            return Err(ServiceError::Folder(format!("there is no database at {path} yet; `baton ask \"…\"` makes one, --db names another")));
        }
        Ok(SqliteStore::open(path, SqliteSettings::default())?)
    }

    /// The place of an agent, whose database is its own: the one that was named, or one beside the user's. What agents write lies in one folder, so that
    /// the mailer finds what the writer made.
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
        Ok(GlobalArgs { db: Some(db), config: self.config.clone(), script: self.script.clone(), flows: self.flows.clone() })
    }

    pub fn path(&self) -> Result<PathBuf> {
        if let Some(path) = &self.db {
            return Ok(path.clone());
        }
        let data = dirs::data_dir().ok_or_else(|| ServiceError::Folder("this user has no data folder; name a database file with --db".into()))?;
        Ok(data.join("baton").join("baton.db"))
    }
}

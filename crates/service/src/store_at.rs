//! A Postgres database shared by several servers: its settings and password.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use store::Store;
use store_postgres::{Address, PostgresSettings, PostgresStore};

use crate::config::Config;
use crate::error::{Result, ServiceError};
use crate::global_args::GlobalArgs;

const PASSWORD: &str = "BATON_STORE_PASSWORD";
const PASSWORD_FILE: &str = "BATON_STORE_PASSWORD_FILE";

/// `[store]` in the configuration.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Section {
    /// postgres://USER@HOST:PORT/DATABASE; `?sslmode=` and `&sslrootcert=FILE` control encryption [default: none, runs are stored in a
    /// file].
    pub url: Option<String>,
    /// A file that contains only the password.
    password_file: Option<PathBuf>,
    /// Connections for reading; a server has two more.
    connections_max: usize,
    /// Timeout of a statement.
    statement_timeout_s: u64,
    /// How long writes wait while the database cannot be reached.
    wait_s: u64,
}

impl Default for Section {
    fn default() -> Self {
        let PostgresSettings { readers_max, statement_max, patience } = PostgresSettings::default();
        Section {
            url: None,
            password_file: None,
            connections_max: readers_max,
            statement_timeout_s: statement_max.as_secs(),
            wait_s: patience.as_secs(),
        }
    }
}

impl Section {
    fn settings(&self) -> Result<PostgresSettings> {
        let wrong = |name: &str, bounds: &str| Err(ServiceError::Usage(format!("{name} in [store] must be {bounds}")));
        if !(1..=1_000).contains(&self.connections_max) {
            return wrong("connections_max", "1 to 1000");
        }
        if !(1..=3_600).contains(&self.statement_timeout_s) {
            return wrong("statement_timeout_s", "1 to 3600");
        }
        if self.wait_s > 86_400 {
            return wrong("wait_s", "0 to 86400");
        }
        Ok(PostgresSettings {
            readers_max: self.connections_max,
            statement_max: Duration::from_secs(self.statement_timeout_s),
            patience: Duration::from_secs(self.wait_s),
        })
    }
}

/// A Postgres database that is not open yet.
pub struct StoreAt {
    address: Address,
    settings: PostgresSettings,
}

impl StoreAt {
    /// Connects, and creates or migrates the tables.
    pub async fn open(self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.connect().await?))
    }

    /// The same, with the type of the store.
    pub async fn connect(self) -> Result<PostgresStore> {
        Ok(PostgresStore::open(self.address, self.settings).await?)
    }

    /// The address with its password.
    pub fn address(&self) -> Address {
        self.address.clone()
    }

    /// The database without its password.
    pub fn name(&self) -> String {
        self.address.to_string()
    }
}

/// The database named by `--store` or `BATON_STORE`, otherwise by the configuration unless a file is named.
pub fn find(named: Option<&str>, has_file: bool, globals: &GlobalArgs) -> Result<Option<StoreAt>> {
    let uses_config = globals.script.is_none() || globals.config.is_some();
    match named {
        Some(url) => {
            let section = if uses_config { Config::read(globals)?.store } else { Section::default() };
            parse(url, &section).map(Some)
        }
        None if has_file || !uses_config => Ok(None),
        None => {
            let section = Config::read(globals)?.store;
            match &section.url {
                Some(url) => parse(url, &section).map(Some),
                None => Ok(None),
            }
        }
    }
}

/// Whether a text is the URL of a database, not a path.
pub fn is_url(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

/// Parses a URL and finds its password.
pub fn parse(url: &str, section: &Section) -> Result<StoreAt> {
    if !is_url(url) {
        return Err(ServiceError::Usage("--store takes a URL, postgres://USER@HOST:PORT/DATABASE; a file is named with --db".to_owned()));
    }
    let address = Address::parse(url).map_err(ServiceError::Usage)?;
    if address.has_password() && std::env::args().any(|argument| argument.contains(url)) {
        return Err(ServiceError::Usage(format!(
            "a password on the command line can be read by every account of this machine (ps); leave it out of the URL and set {PASSWORD}, or name a file \
             with {PASSWORD_FILE} or `password_file` in [store]; the whole URL may also be in BATON_STORE"
        )));
    }
    let address = match address.has_password() {
        true => address,
        false => match password(section)? {
            Some(password) => address.with_password(&password),
            None => address,
        },
    };
    Ok(StoreAt { address, settings: section.settings()? })
}

fn password(section: &Section) -> Result<Option<String>> {
    if let Ok(password) = std::env::var(PASSWORD) {
        return Ok(Some(password));
    }
    let named = std::env::var_os(PASSWORD_FILE).map(PathBuf::from).or_else(|| section.password_file.clone());
    named.map(|path| read(&path)).transpose()
}

fn read(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| ServiceError::Usage(format!("the file of the store's password, {}, cannot be read: {error}", path.display())))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

//! What the hub keeps between two starts: which tools a person switched on or off, and the lists of tools as they last were.
//!
//! The lists make the first answer quick, and tell what a call meant that a crash interrupted, before its server is even up again.
//! They are kept for as long as the server's configuration is the same.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::Tool;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::config::{Reach, ServerConfig};

#[derive(Default)]
pub(crate) struct Memory {
    path: Option<PathBuf>,
    kept: Mutex<Kept>,
}

#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    /// By `server` or `server.tool`; what is not in here is as its configuration says.
    switched: BTreeMap<String, bool>,
    lists: BTreeMap<String, List>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct List {
    of: String,
    tools: Vec<Tool>,
}

impl Memory {
    /// A file that cannot be read is an empty memory: nothing in it cannot be found out again, except what was switched.
    pub(crate) fn open(path: PathBuf) -> Self {
        let kept = match std::fs::read(&path).map(|bytes| serde_json::from_slice(&bytes)) {
            Ok(Ok(kept)) => kept,
            Ok(Err(error)) => {
                tracing::warn!(path = %path.display(), %error, "the tools' file cannot be read; what was switched off is on again");
                Kept::default()
            }
            Err(_) => Kept::default(),
        };
        Memory { path: Some(path), kept: Mutex::new(kept) }
    }

    pub(crate) fn switched(&self, name: &str) -> Option<bool> {
        self.kept().switched.get(name).copied()
    }

    pub(crate) fn switch(&self, name: &str, is_on: bool) -> Result<(), String> {
        let mut kept = self.kept();
        kept.switched.insert(name.to_owned(), is_on);
        self.save(&kept)
    }

    pub(crate) fn list(&self, server: &str, config: &ServerConfig) -> Option<Vec<Tool>> {
        self.kept().lists.get(server).filter(|list| list.of == fingerprint(config)).map(|list| list.tools.clone())
    }

    pub(crate) fn keep_lists(&self, lists: HashMap<String, (&ServerConfig, Vec<Tool>)>) {
        if self.path.is_none() {
            return;
        }
        let mut kept = self.kept();
        let before = kept.lists.clone();
        for (server, (config, tools)) in lists {
            kept.lists.insert(server, List { of: fingerprint(config), tools });
        }
        if kept.lists != before
            && let Err(error) = self.save(&kept)
        {
            tracing::warn!(%error, "the tools' file cannot be written");
        }
    }

    fn save(&self, kept: &Kept) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        let bytes = serde_json::to_vec_pretty(kept).map_err(|error| error.to_string())?;
        write_whole(path, &bytes).map_err(|error| format!("{} cannot be written: {error}", path.display()))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All of it or nothing: readers see the old file or the new one.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    options.create(true).write(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    std::io::Write::write_all(&mut options.open(&beside)?, bytes)?;
    std::fs::rename(&beside, path)
}

/// Folders that are missing are made for this account only.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// The same for the same server: a list is not believed of another program under the same name.
fn fingerprint(config: &ServerConfig) -> String {
    let reach = match &config.reach {
        Reach::Stdio { command, args, cwd, .. } => format!("{command:?} {args:?} {cwd:?}"),
        Reach::Http { url, .. } => format!("{url:?}"),
    };
    let digest = Sha256::digest(reach.as_bytes());
    digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use rmcp::model::JsonObject;

    use super::*;

    #[test]
    fn what_was_switched_and_listed_is_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/tools.json");
        let config = ServerConfig::stdio("a", &["b"]);
        let tools = vec![Tool::new("t", "d", JsonObject::new())];
        let memory = Memory::open(path.clone());
        memory.switch("s.t", false).unwrap();
        memory.keep_lists(HashMap::from([("s".to_owned(), (&config, tools.clone()))]));
        let again = Memory::open(path.clone());
        assert_eq!((again.switched("s.t"), again.switched("s")), (Some(false), None));
        assert_eq!(again.list("s", &config), Some(tools));
        assert_eq!(again.list("s", &ServerConfig::stdio("a", &["c"])), None, "another program");
        std::fs::write(&path, "garbage").unwrap();
        assert_eq!(Memory::open(path).switched("s.t"), None);
    }
}

//! What the hub keeps between two starts: which tools a person switched on or off, and the lists of tools as they last were.
//!
//! The lists make the first answer quick, and describe a call that a crash interrupted before its server is connected again.
//! They are kept for as long as the server's configuration is the same.
//!
//! A switch that turns something on holds for the definition it was turned on with. Another server under the same name, or the same one with another
//! command or address, stays off until a person turns it on again. A switch that turns something off holds for the name.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::Tool;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::config::{ServerConfig, ServerTransport};

#[derive(Default)]
pub(crate) struct Memory {
    path: Option<PathBuf>,
    state: Mutex<SavedState>,
}

#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct SavedState {
    /// By `server` or `server.tool`; what is not in here is as its configuration has it.
    switched: BTreeMap<String, Switch>,
    lists: BTreeMap<String, List>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Switch {
    /// As earlier versions wrote it. Of a server that is not built in, one that is on no longer counts.
    ByName(bool),
    Of {
        is_on: bool,
        /// None for servers that are built in, or offered by a registry.
        definition: Option<String>,
    },
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct List {
    of: String,
    tools: Vec<Tool>,
}

impl Memory {
    /// A file that cannot be read is an empty memory: nothing in it cannot be found out again, except what was switched.
    pub(crate) fn open(path: PathBuf) -> Self {
        let state = match std::fs::read(&path).map(|bytes| serde_json::from_slice(&bytes)) {
            Ok(Ok(state)) => state,
            Ok(Err(error)) => {
                tracing::warn!(path = %path.display(), %error, "the tools' file cannot be read; what was switched off is on again");
                SavedState::default()
            }
            Err(_) => SavedState::default(),
        };
        Memory { path: Some(path), state: Mutex::new(state) }
    }

    /// Whether a person turned on or off what has this name and this definition.
    pub(crate) fn switched(&self, name: &str, definition: Option<&str>) -> Option<bool> {
        match self.state().switched.get(name)? {
            Switch::ByName(false) | Switch::Of { is_on: false, .. } => Some(false),
            Switch::ByName(true) => definition.is_none().then_some(true),
            Switch::Of { is_on: true, definition: of } => (of.as_deref() == definition).then_some(true),
        }
    }

    /// Whether a person turned it on when it had another definition.
    pub(crate) fn is_changed(&self, name: &str, definition: Option<&str>) -> bool {
        let is_on = matches!(self.state().switched.get(name), Some(Switch::ByName(true) | Switch::Of { is_on: true, .. }));
        is_on && self.switched(name, definition).is_none()
    }

    pub(crate) fn switch(&self, name: &str, definition: Option<String>, is_on: bool) -> Result<(), String> {
        let mut state = self.state();
        state.switched.insert(name.to_owned(), Switch::Of { is_on, definition });
        self.save(&state)
    }

    /// All switches, as they are stored.
    pub(crate) fn switches(&self) -> BTreeMap<String, serde_json::Value> {
        let state = self.state();
        state.switched.iter().filter_map(|(name, switch)| Some((name.clone(), serde_json::to_value(switch).ok()?))).collect()
    }

    /// Puts others in their place. One that cannot be read is an error, and nothing is changed.
    pub(crate) fn set_switches(&self, switches: &BTreeMap<String, serde_json::Value>) -> Result<(), String> {
        let parse = |(name, value): (&String, &serde_json::Value)| match serde_json::from_value(value.clone()) {
            Ok(switch) => Ok((name.clone(), switch)),
            Err(error) => Err(format!("the switch of {name}: {error}")),
        };
        let switched = switches.iter().map(parse).collect::<Result<BTreeMap<String, Switch>, String>>()?;
        let mut state = self.state();
        state.switched = switched;
        self.save(&state)
    }

    pub(crate) fn list(&self, server: &str, config: &ServerConfig) -> Option<Vec<Tool>> {
        self.state().lists.get(server).filter(|list| list.of == fingerprint(config)).map(|list| list.tools.clone())
    }

    pub(crate) fn keep_lists(&self, lists: HashMap<String, (&ServerConfig, Vec<Tool>)>) {
        if self.path.is_none() {
            return;
        }
        let mut state = self.state();
        let before = state.lists.clone();
        for (server, (config, tools)) in lists {
            state.lists.insert(server, List { of: fingerprint(config), tools });
        }
        if state.lists != before
            && let Err(error) = self.save(&state)
        {
            tracing::warn!(%error, "the tools' file cannot be written");
        }
    }

    fn save(&self, state: &SavedState) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        let bytes = serde_json::to_vec_pretty(state).map_err(|error| error.to_string())?;
        write_whole(path, &bytes).map_err(|error| format!("{} cannot be written: {error}", path.display()))
    }

    fn state(&self) -> MutexGuard<'_, SavedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

/// The same for the same server: a list is not used for another program under the same name.
pub(crate) fn fingerprint(config: &ServerConfig) -> String {
    let digest = Sha256::digest(reach(config).as_bytes());
    digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

/// The command or address of a server, with variables filled in.
pub(crate) fn reach(config: &ServerConfig) -> String {
    match &config.reach {
        ServerTransport::Stdio { command, args, cwd, .. } => format!("{command:?} {args:?} {cwd:?}"),
        ServerTransport::Http { url, .. } => format!("{url:?}"),
    }
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
        memory.switch("s.t", None, false).unwrap();
        memory.keep_lists(HashMap::from([("s".to_owned(), (&config, tools.clone()))]));
        let again = Memory::open(path.clone());
        assert_eq!((again.switched("s.t", None), again.switched("s", None)), (Some(false), None));
        assert_eq!(again.list("s", &config), Some(tools));
        assert_eq!(again.list("s", &ServerConfig::stdio("a", &["c"])), None, "another program");
        std::fs::write(&path, "garbage").unwrap();
        assert_eq!(Memory::open(path).switched("s.t", None), None);
    }

    #[test]
    fn switches_can_be_carried_to_another_process() {
        let (here, there) = (Memory::default(), Memory::default());
        here.switch("s", Some("one".into()), true).unwrap();
        here.switch("t", None, false).unwrap();
        there.switch("u", None, true).unwrap();
        there.set_switches(&here.switches()).unwrap();
        assert_eq!((there.switched("s", Some("one")), there.switched("s", Some("two")), there.switched("t", None)), (Some(true), None, Some(false)));
        assert_eq!(there.switched("u", None), None);
        assert!(there.set_switches(&BTreeMap::from([("s".to_owned(), serde_json::json!("on"))])).is_err());
        assert_eq!(there.switches(), here.switches());
    }

    #[test]
    fn what_is_on_is_on_for_one_definition_and_what_is_off_is_off() {
        let memory = Memory::default();
        memory.switch("s", Some("one".into()), true).unwrap();
        assert_eq!((memory.switched("s", Some("one")), memory.switched("s", Some("two")), memory.switched("s", None)), (Some(true), None, None));
        assert_eq!((memory.is_changed("s", Some("one")), memory.is_changed("s", Some("two")), memory.is_changed("t", None)), (false, true, false));
        memory.switch("s", Some("one".into()), false).unwrap();
        assert_eq!(memory.switched("s", Some("two")), Some(false));
        assert!(!memory.is_changed("s", Some("two")));
    }

    #[test]
    fn a_file_that_kept_switches_by_name_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tools.json");
        std::fs::write(&path, r#"{"switched": {"stories": true, "notes": true, "mail": false}, "lists": {}}"#).unwrap();
        let memory = Memory::open(path);
        assert_eq!((memory.switched("stories", None), memory.switched("mail", None)), (Some(true), Some(false)), "built in");
        assert_eq!((memory.switched("notes", Some("any")), memory.switched("mail", Some("any"))), (None, Some(false)), "imported");
        assert!(memory.is_changed("notes", Some("any")));
    }
}

//! Imported MCP servers and what was switched on or off, where several servers share a store: a change at one of them is made at all.
//!
//! Three states are compared: what this server has, what the store has, and what both had when they last agreed, which is kept in a file. What changed
//! here goes to the store, everything else comes from there. Variables of the environment are each server's own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mcp_hub::{Config, Tools, import};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{NewValue, Store};

use crate::private;
use crate::shared_uploads::wall_ms;

const SPACE: &str = "mcp";
const NAME: &str = "servers";
/// How often changes of other servers are looked for.
const POLL: Duration = Duration::from_secs(5);
/// A change here is gathered for this long.
const GATHER: Duration = Duration::from_millis(200);

/// By name: entries of `mcp.json`, and switches as the hub keeps them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct SharedTools {
    imported: BTreeMap<String, Value>,
    switched: BTreeMap<String, Value>,
}

impl SharedTools {
    /// What changed here since `agreed`, over what the store has.
    fn merge(here: &SharedTools, store: &SharedTools, agreed: &SharedTools) -> SharedTools {
        SharedTools {
            imported: merge(&here.imported, &store.imported, &agreed.imported),
            switched: merge(&here.switched, &store.switched, &agreed.switched),
        }
    }
}

/// What is in neither is dropped only where it was agreed on; nothing here deletes an entry, so it stays.
fn merge(here: &BTreeMap<String, Value>, store: &BTreeMap<String, Value>, agreed: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let names: BTreeSet<&String> = here.keys().chain(store.keys()).collect();
    let value = |name: &String| match (here.get(name), store.get(name)) {
        (Some(own), Some(other)) => Some(if agreed.get(name) == Some(own) { other } else { own }),
        (own, other) => own.or(other),
    };
    names.into_iter().filter_map(|name| Some((name.clone(), value(name)?.clone()))).collect()
}

/// Keeps this server's tools equal to those of the others for as long as the store is open.
pub(crate) fn share(store: &Arc<dyn Store>, tools: &Tools, imported: PathBuf) {
    if store.values().is_none() {
        return;
    }
    let agreed = imported.with_file_name(".shared-tools.json");
    let sync = ToolSync { store: Arc::downgrade(store), tools: tools.clone(), imported, agreed };
    tokio::spawn(sync.run());
}

struct ToolSync {
    store: Weak<dyn Store>,
    tools: Tools,
    imported: PathBuf,
    agreed: PathBuf,
}

impl ToolSync {
    async fn run(self) {
        let mut changes = self.tools.changes();
        let mut has_failed = false;
        while let Some(store) = self.store.upgrade() {
            let compared = self.compare(&store).await;
            drop(store);
            match compared {
                Ok(()) => has_failed = false,
                Err(why) if has_failed => tracing::debug!("MCP servers could not be compared with those of other servers: {why}"),
                Err(why) => {
                    tracing::warn!("MCP servers could not be compared with those of other servers, trying again: {why}");
                    has_failed = true;
                }
            }
            match tokio::time::timeout(POLL, changes.changed()).await {
                Ok(Ok(())) => tokio::time::sleep(GATHER).await,
                // The hub is gone.
                Ok(Err(_)) => return,
                Err(_) => {}
            }
        }
    }

    async fn compare(&self, store: &Arc<dyn Store>) -> Result<(), String> {
        let values = store.values().ok_or("the store keeps no values")?;
        let known = values.value(SPACE, NAME).await.map_err(|error| error.to_string())?;
        let (version, in_store) = match known {
            Some((version, bytes)) => (version, serde_json::from_slice(&bytes).map_err(|error| format!("what is in the store: {error}"))?),
            None => (0, SharedTools::default()),
        };
        let agreed: SharedTools = read(&self.agreed)?.unwrap_or_default();
        let here = SharedTools { imported: import::entries_of(&self.imported)?, switched: self.tools.switches() };
        let merged = SharedTools::merge(&here, &in_store, &agreed);
        if merged != in_store {
            let bytes = serde_json::to_vec(&merged).map_err(|error| error.to_string())?;
            let value = NewValue { space: SPACE.to_owned(), name: NAME.to_owned(), version, bytes, at_ms: wall_ms() };
            if values.put_value(value).await.map_err(|error| error.to_string())?.is_none() {
                return Err("another server changed them at the same moment".to_owned());
            }
        }
        if merged.imported != here.imported {
            import::write_entries(&self.imported, &merged.imported)?;
            let config = Config::read_imported(&self.imported, &|name| std::env::var(name).ok())?;
            for (name, entry) in &merged.imported {
                let is_new = here.imported.get(name) != Some(entry);
                // One that has the name of a server of this machine's own configuration is left out here.
                let is_taken = !here.imported.contains_key(name) && self.tools.is_reserved(name);
                if let (true, false, Some(server)) = (is_new, is_taken, config.servers.get(name)) {
                    self.tools.add(name, server.clone()).map_err(|failure| failure.message)?;
                }
            }
        }
        if merged.switched != here.switched {
            self.tools.set_switches(&merged.switched)?;
        }
        if merged != agreed {
            let text = serde_json::to_string(&merged).map_err(|error| error.to_string())?;
            private::write(&self.agreed, &text).map_err(|error| format!("{}: {error}", self.agreed.display()))?;
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Option<SharedTools>, String> {
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| format!("{}: {error}", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(pairs: &[(&str, bool)]) -> SharedTools {
        SharedTools { switched: pairs.iter().map(|(name, is_on)| ((*name).to_owned(), json!(is_on))).collect(), ..SharedTools::default() }
    }

    #[test]
    fn what_changed_here_wins_and_the_rest_comes_from_the_store() {
        // Here, in the store, when both last agreed, and the result.
        let cases: [(&[_], &[_], &[_], &[_]); 6] = [
            (&[("a", true)], &[], &[], &[("a", true)]),
            (&[], &[("a", true)], &[], &[("a", true)]),
            (&[("a", true)], &[("a", false)], &[("a", true)], &[("a", false)]),
            (&[("a", true)], &[("a", false)], &[("a", false)], &[("a", true)]),
            // Both were switched before they ever agreed: the server that starts keeps its own.
            (&[("a", true)], &[("a", false)], &[], &[("a", true)]),
            (&[("a", true), ("b", true)], &[("b", false), ("c", true)], &[("b", true)], &[("a", true), ("b", false), ("c", true)]),
        ];
        for (here, store, agreed, merged) in cases {
            assert_eq!(SharedTools::merge(&of(here), &of(store), &of(agreed)), of(merged), "{here:?} {store:?} {agreed:?}");
        }
    }
}

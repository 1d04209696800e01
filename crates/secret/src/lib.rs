//! Keys that cannot be printed, and their sources.
//!
//! ```toml
//! key = { env = "OPENAI_API_KEY" }
//! key = { file = "/run/secrets/openai" }
//! key = { command = ["secret-tool", "lookup", "service", "openai"] }     # the keyring of the desktop; or ["pass", "show", "openai"]
//! ```

#![warn(missing_docs)]

mod command;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A key: no `Display`, no `Serialize`, and an empty `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// `None` for white space: an empty variable counts as unset.
    pub fn new(text: &str) -> Option<Secret> {
        let text = text.trim();
        (!text.is_empty()).then(|| Secret(text.to_owned()))
    }

    /// For the line that puts it into a request.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Removes the key from a text; error messages of providers may repeat it.
    pub fn redact_in(&self, text: &str) -> String {
        // A very short key is a placeholder such as `x`, and removing it would garble every sentence.
        if self.0.len() < 4 { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The source of a key. The key itself is never in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeySource {
    /// The name of an environment variable.
    Env(String),
    /// A file with nothing else in it.
    File(PathBuf),
    /// A program and its arguments; the first line that it prints is the key. No shell is involved.
    Command(Vec<String>),
}

/// Reads environment variables; tests bring their own.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

impl KeySource {
    /// Blocks while a file is read or a program runs (10 s at most).
    pub fn find(&self, env: Env<'_>) -> Result<Secret, String> {
        match self {
            KeySource::Env(name) => env(name)
                .as_deref()
                .and_then(Secret::new)
                .ok_or_else(|| format!("no key: set the environment variable {name}, or store it in the settings of the page")),
            KeySource::File(path) => read(path),
            KeySource::Command(words) => command::run(words),
        }
    }
}

fn read(path: &Path) -> Result<Secret, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("no key: {} cannot be read ({e})", path.display()))?;
    Secret::new(&text).ok_or_else(|| format!("no key: {} is empty", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_never_shows() {
        let secret = Secret::new(" sk-very-secret\n").unwrap();
        assert_eq!(secret.reveal(), "sk-very-secret");
        assert_eq!(format!("{secret:?} {:#?}", Some(&secret)).matches("secret").count(), 0);
        assert_eq!(secret.redact_in("bad key sk-very-secret!"), "bad key [key]!");
        assert!(Secret::new(" \n").is_none());
    }

    #[test]
    fn keys_come_from_the_environment_or_a_file() {
        let env = |name: &str| (name == "KEY").then(|| "abc".to_owned());
        assert_eq!(KeySource::Env("KEY".into()).find(&env).unwrap().reveal(), "abc");
        assert!(KeySource::Env("OTHER".into()).find(&env).unwrap_err().contains("OTHER"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        assert!(KeySource::File(path.clone()).find(&env).is_err());
        std::fs::write(&path, "from-file\n").unwrap();
        assert_eq!(KeySource::File(path).find(&env).unwrap().reveal(), "from-file");
    }
}

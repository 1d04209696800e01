//! Settings for building servers. The caller (the command line, a test) provides everything; no server reads the environment by itself.

use std::fmt;
use std::sync::Arc;

use crate::reader::ReaderProcess;
use crate::workspace::Workspaces;
use crate::{Secret, TextModel, code, document, mail};

/// Reads environment variables; tests provide their own.
pub type Env = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Keys, folders and limits of the built-in servers.
#[derive(Clone)]
pub struct Settings {
    /// Keys and addresses by the names of environment variables.
    pub env: Env,
    /// The folders of `files` and `code`. Without them there is no `files`, and `code` stores nothing.
    pub workspaces: Option<Workspaces>,
    /// Hosts that `fetch` may reach although their addresses are private: `wiki.corp` or `10.0.0.7:8080`.
    pub private_hosts: Vec<String>,
    /// The folders of `docs`. Without any there is no such server.
    pub docs: Option<Arc<index::Folders>>,
    /// Parses the pages of `fetch`. Without one they are parsed in this process, which a hostile page can block.
    pub reader: Option<Arc<ReaderProcess>>,
    /// Limits of the `code` server.
    pub code: code::Settings,
    /// Without it there is no `document` server, and no `mail` either: both write files.
    pub document: Option<document::Settings>,
    /// Without it there is no `mail` server.
    pub mail: Option<mail::Settings>,
    /// Where several servers share what they sent.
    pub outbox: Option<Arc<dyn mail::SharedOutbox>>,
    /// The model for summaries; without one sentences are extracted from the text.
    pub text_model: Option<Arc<dyn TextModel>>,
}

impl Settings {
    /// Empty settings: no keys, no folder, no model.
    pub fn bare() -> Settings {
        Settings {
            env: Arc::new(|_| None),
            workspaces: None,
            private_hosts: Vec::new(),
            docs: None,
            reader: None,
            code: code::Settings::default(),
            document: None,
            mail: None,
            outbox: None,
            text_model: None,
        }
    }

    /// Keys from the environment and nothing else.
    pub fn from_env() -> Settings {
        let env = |name: &str| std::env::var(name).ok();
        let hosts = env("BATON_FETCH_PRIVATE").unwrap_or_default();
        let private_hosts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).map(str::to_owned).collect();
        Settings { env: Arc::new(env), private_hosts, ..Settings::bare() }
    }

    /// A variable with a non-empty value.
    pub fn var(&self, name: &str) -> Option<String> {
        (self.env)(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// The value of a variable as a secret.
    pub fn secret(&self, name: &str) -> Option<Secret> {
        (self.env)(name).as_deref().and_then(Secret::new)
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_thinker = self.text_model.is_some();
        f.debug_struct("Settings")
            .field("workspaces", &self.workspaces)
            .field("docs", &self.docs.is_some())
            .field("private_hosts", &self.private_hosts)
            .field("thinker", &has_thinker)
            .finish_non_exhaustive()
    }
}

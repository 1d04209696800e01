//! What servers are built from. Whoever builds them (the command line, a test) says where each thing comes from; no server reads the
//! environment by itself.

use std::fmt;
use std::sync::Arc;

use crate::reader::ReaderProcess;
use crate::workspace::Workspaces;
use crate::{Secret, TextModel, code, document, mail};

/// Reads environment variables; tests bring their own.
pub type Env = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

#[derive(Clone)]
pub struct Settings {
    /// Keys and addresses by the names of environment variables.
    pub env: Env,
    /// The folders that `files` and `code` work in. Without any there is no `files`, and `code` keeps nothing.
    pub workspaces: Option<Workspaces>,
    /// Hosts that `fetch` may reach although their addresses are private: `wiki.corp` or `10.0.0.7:8080`.
    pub private_hosts: Vec<String>,
    /// The folders `docs` searches. Without any there is no such server.
    pub docs: Option<Arc<index::Folders>>,
    /// Parses the pages that `fetch` gets. Without one they are parsed in this process, which a hostile page can block.
    pub reader: Option<Arc<ReaderProcess>>,
    pub code: code::Settings,
    /// Without a folder of the caller's there is no such server, and no `mail` either: they write.
    pub document: Option<document::Settings>,
    pub mail: Option<mail::Settings>,
    /// Who writes summaries; without anybody they are picked from the text.
    pub text_model: Option<Arc<dyn TextModel>>,
}

impl Settings {
    /// Nothing is known: no keys, no folder, no model.
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
            text_model: None,
        }
    }

    pub fn from_env() -> Settings {
        let env = |name: &str| std::env::var(name).ok();
        let hosts = env("BATON_FETCH_PRIVATE").unwrap_or_default();
        let private_hosts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).map(str::to_owned).collect();
        Settings { env: Arc::new(env), private_hosts, ..Settings::bare() }
    }

    /// What a variable says, unless it says nothing.
    pub fn var(&self, name: &str) -> Option<String> {
        (self.env)(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

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

//! Effect handlers as the command line wires them, with local services: a model server, an encyclopedia, a mailbox, a folder. For tests of
//! whole flows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use effects::EffectHandler;
use effects::handlers::EffectHandlers;
use mcp_hub::{ToolHandler, Tools};
use models::{Models, Table};
use tools::mail;

use crate::provider::dialect::Dialect;

pub struct Setup {
    pub dialect: Dialect,
    /// Address of the model, and its key.
    pub model: String,
    pub key: String,
    /// Where the encyclopedia is.
    pub web: String,
    /// The folder of all files.
    pub folder: PathBuf,
    /// Port of the mail server; without one mails are only written to files.
    pub smtp_port: Option<u16>,
    /// Documents to search.
    pub docs: Option<PathBuf>,
    /// Permissions given in advance.
    pub allowed: Vec<String>,
}

/// Built-in servers with a purpose here. Others would make the tool list longer than a planner is shown.
const SERVERS: [&str; 7] = ["stories", "calc", "search", "summary", "files", "mail", "docs"];
/// The same, for single tools.
const OFF: [&str; 3] = ["mail.settle", "mail.draft", "files.find"];

impl Setup {
    pub fn new(dialect: Dialect, model: &str, web: &str, folder: &Path) -> Setup {
        Setup {
            dialect,
            model: model.to_owned(),
            key: "sk-lab".to_owned(),
            web: web.to_owned(),
            folder: folder.to_owned(),
            smtp_port: None,
            docs: None,
            allowed: Vec::new(),
        }
    }

    /// The root of `files`.
    pub fn root(folder: &Path) -> PathBuf {
        folder.join("files")
    }

    pub async fn handler(self) -> EffectHandlers {
        let table: Table = serde_json::from_value(self.dialect.table(&self.model)).expect("a table");
        let env = |name: &str| (name == "LAB_KEY").then(|| self.key.clone());
        let models = Models::new(table.with_defaults(), self.dialect.model().parse().expect("a name"), &env).expect("models");
        self.handlers_with(models).await
    }

    /// With other models.
    pub async fn handlers_with(self, models: impl EffectHandler) -> EffectHandlers {
        let tools = self.tools().await;
        EffectHandlers { models: Some(Arc::new(models)), tools: Some(Arc::new(ToolHandler::new(tools, self.allowed))), agents: None }
    }

    async fn tools(&self) -> Tools {
        let settings = self.settings();
        let mut hub = Tools::builder();
        for kind in SERVERS.iter().filter_map(|name| tools::kind(name)) {
            // `docs` is not available without a folder.
            let Ok(server) = kind.build(&settings) else { continue };
            hub = hub.with_local(server.name, server.trust, move |pipe| {
                let session = server.clone().serve(pipe);
                Box::pin(async move { drop(session.await) })
            });
        }
        let hub = hub.build();
        hub.list_local_tools().await;
        for tool in OFF {
            hub.enable(tool, false).await.expect("it is there");
        }
        hub
    }

    fn settings(&self) -> tools::Settings {
        let web = self.web.clone();
        let root = Setup::root(&self.folder);
        std::fs::create_dir_all(&root).expect("a folder");
        let transport = match self.smtp_port {
            None => mail::Transport::DryRun,
            Some(port) => {
                let smtp = mail::SmtpSettings { host: "127.0.0.1".into(), port: Some(port), tls: mail::Tls::None, ..Default::default() };
                mail::Transport::Smtp(smtp)
            }
        };
        let mail = mail::Settings { from: Some("lab@example.org".into()), outbox: self.folder.join("outbox"), transport, ..Default::default() };
        let docs = self.docs.as_ref().map(|folder| {
            let home = self.folder.join("index");
            let folders = index::Folders::open(std::slice::from_ref(folder), &home, &index::Model::none(), index::Limits::default());
            let folders = folders.expect("the documents can be searched");
            folders.refresh(&mut |_| {}).expect("the documents can be read");
            Arc::new(folders)
        });
        tools::Settings {
            env: Arc::new(move |name| (name == "WIKIPEDIA_URL").then(|| web.clone())),
            workspaces: Some(tools::workspace::Workspaces::fixed(root, self.folder.join("records"))),
            mail: Some(mail),
            docs,
            ..tools::Settings::bare()
        }
    }
}

/// The model profile given to flows.
pub fn profile() -> serde_json::Value {
    serde_json::json!({ "is_small": false, "context_tokens": 32_000 })
}

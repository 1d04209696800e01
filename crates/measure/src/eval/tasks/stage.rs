//! The environment of one task: a folder with everything a user would have (database, configuration, `mcp.json`, workspace, documents) and
//! a mailbox.
//!
//! ```text
//! ROOT/baton.toml           the user's own configuration, with the tools of the task
//! ROOT/data/baton.db        the database; mcp.json is beside it
//! ROOT/workspace  ROOT/docs
//! ROOT/shop.db  ROOT/tickets.json    the state of the servers `sql` and `tickets`
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Parser;
use index::{Folders, Limits};
use serde_json::{Value, json};
use service::global_args::GlobalArgs;
use service::reader;
use service::run_request::AskOptions;
use service::{Result, ServiceError};
use store::Scratch;
use tempfile::TempDir;

use super::judge::State;
use super::mailbox::Mailbox;
use super::task::Task;

/// The user's address.
const USER: &str = "user@home.example";

pub(super) struct TaskSetup {
    root: PathBuf,
    /// Deletes the folder, unless it is kept.
    _folder: Option<TempDir>,
    mailbox: Mailbox,
    pub(super) globals: GlobalArgs,
    has_docs: bool,
}

/// The options of `baton ask`.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct AskCommand {
    #[command(flatten)]
    options: AskOptions,
}

impl TaskSetup {
    /// `config` is the user's configuration; its models are used here too. The folder is `keep`, or a temporary one.
    pub(super) async fn set_up(task: &Task, config: &toml::Table, keep: Option<&Path>) -> Result<TaskSetup> {
        let (root, folder) = match keep {
            Some(folder) => (make_empty(&folder.join(&task.id)).map_err(|error| broken(&error))?, None),
            None => {
                let folder = tempfile::tempdir().map_err(|error| broken(&error))?;
                (folder.path().to_owned(), Some(folder))
            }
        };
        let mailbox = Mailbox::open().await.map_err(|error| broken(&error))?;
        let data = root.join("data");
        fs::create_dir_all(&data).map_err(|error| broken(&error))?;
        write_all(&root.join("workspace"), &task.world.files).map_err(|error| broken(&error))?;
        write_all(&root.join("docs"), &task.world.docs).map_err(|error| broken(&error))?;
        if !task.world.sql.is_empty() {
            let scratch = Scratch::open(&root.join(DATABASE)).map_err(ServiceError::Failed)?;
            scratch.load(&task.world.sql).map_err(|why| ServiceError::Failed(format!("the tables of {}: {why}", task.id)))?;
        }
        fs::write(root.join(TICKETS), serde_json::to_string_pretty(&task.world.tickets)?).map_err(|error| broken(&error))?;
        fs::write(data.join("mcp.json"), serde_json::to_string_pretty(&servers(task, &root)?)?).map_err(|error| broken(&error))?;
        let config_path = root.join("baton.toml");
        fs::write(&config_path, configuration(task, config, &root, mailbox.port)?).map_err(|error| broken(&error))?;
        let globals = GlobalArgs::new(data.join("baton.db"), config_path);
        Ok(TaskSetup { _folder: folder, mailbox, globals, has_docs: !task.world.docs.is_empty(), root })
    }

    /// The options after `baton ask`.
    pub(super) fn options(&self, model: Option<&str>, set: &[&str]) -> Result<AskOptions> {
        let mut words: Vec<std::ffi::OsString> = Vec::new();
        if let Some(model) = model {
            words.extend(["--model".into(), model.into()]);
        }
        for setting in set {
            words.extend(["--set".into(), (*setting).into()]);
        }
        if self.has_docs {
            words.extend(["--docs".into(), self.root.join("docs").into()]);
        }
        let parsed = AskCommand::try_parse_from(words).map_err(|error| ServiceError::Usage(error.to_string()))?;
        let mut options = parsed.options;
        if self.has_docs {
            // Opened here, so that the index is in the task's folder and not in the user's cache.
            let docs = [self.root.join("docs")];
            let index = Folders::open(&docs, &self.root.join("index"), &index::Model::builtin(), Limits::default());
            let index = index.map_err(|error| ServiceError::Failed(error.to_string()))?.with_reader(reader::for_index()?);
            options.model_options.servers.open_index = Some(Arc::new(index));
        }
        Ok(options)
    }

    pub(super) fn state(&self) -> Result<State> {
        let mut tables = BTreeMap::new();
        if self.root.join(DATABASE).exists() {
            let dump = Scratch::open(&self.root.join(DATABASE)).and_then(|scratch| scratch.dump()).map_err(ServiceError::Failed)?;
            tables.extend(dump.as_object().into_iter().flatten().map(|(name, table)| (name.clone(), table.clone())));
        }
        let tickets: Vec<Value> = serde_json::from_str(&fs::read_to_string(self.root.join(TICKETS)).map_err(|error| broken(&error))?)?;
        let files = read_all(&self.root.join("workspace")).map_err(|error| broken(&error))?;
        let docs = read_all(&self.root.join("docs")).map_err(|error| broken(&error))?;
        Ok(State { files, docs, tables, tickets, mails: self.mailbox.mails() })
    }

    pub(super) fn query(&self, sql: &str) -> std::result::Result<Vec<Vec<Value>>, String> {
        Scratch::open(&self.root.join(DATABASE))?.query(sql).map(|found| found.rows)
    }
}

const DATABASE: &str = "shop.db";
const TICKETS: &str = "tickets.json";

fn broken(error: &io::Error) -> ServiceError {
    ServiceError::Failed(format!("the world of a task: {error}"))
}

/// The servers of the task, in the format of `mcp.json`: this program, started as the server.
fn servers(task: &Task, root: &Path) -> Result<Value> {
    let program = std::env::current_exe().map_err(|error| broken(&error))?;
    let entry = |kind: &str, file: &str, trusted: bool| json!({ "command": program, "args": ["eval-server", kind, "--data", root.join(file)], "trusted": trusted });
    let mut all = serde_json::Map::new();
    if !task.world.sql.is_empty() {
        all.insert("sql".into(), entry("sql", DATABASE, !task.world.sql_untrusted));
    }
    if !task.world.tickets.is_empty() {
        all.insert("tickets".into(), entry("tickets", TICKETS, false));
    }
    Ok(json!({ "mcpServers": all }))
}

fn configuration(task: &Task, user: &toml::Table, root: &Path, mail_port: u16) -> Result<String> {
    let mail = json!({
        "from": format!("Baton <{USER}>"),
        "outbox": root.join("outbox"),
        "attachment_folders": [root.join("workspace"), root.join("documents")],
        "transport": { "kind": "smtp", "host": "127.0.0.1", "port": mail_port, "tls": "none" },
    });
    let tools = json!({
        "root": root.join("workspace"),
        // A registry or agents that run on this machine are not used.
        "registry": "off",
        "allowed": task.permissions.allow,
        "document": { "folder": root.join("documents") },
        "mail": mail,
    });
    let wrong = |error: toml::ser::Error| ServiceError::Failed(format!("the configuration cannot be written: {error}"));
    let mut config = user.clone();
    config.insert("tools".into(), toml::Value::try_from(tools).map_err(wrong)?);
    config.insert("team".into(), toml::Value::try_from(json!({ "me": USER, "discover": false })).map_err(wrong)?);
    toml::to_string(&config).map_err(wrong)
}

fn make_empty(folder: &Path) -> io::Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    fs::canonicalize(folder)
}

fn write_all(folder: &Path, files: &BTreeMap<String, String>) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (path, text) in files {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)?;
    }
    Ok(())
}

/// Every file below a folder, by its relative path. Binary content is shown as such.
fn read_all(folder: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
            files.insert(name, String::from_utf8_lossy(&fs::read(&path)?).into_owned());
        }
    }
    Ok(files)
}

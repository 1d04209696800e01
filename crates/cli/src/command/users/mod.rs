mod delete;
mod export;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use graph::{ThreadId, UserId};
use serde_json::json;
use store::{CardFilter, Store};

use crate::exit::{Exit, Result, ServiceError};
use crate::home::DataHome;
use service::global_args::GlobalArgs;
use service::wiring;
use terminal::{Table, bytes, count};

/// List the users of this database; export or delete everything of one
#[derive(clap::Subcommand)]
#[command(after_help = "Examples:
  baton users list
  baton users export ada ada.tar          everything Baton has of Ada
  baton users delete ada --yes            permanently; no server may run meanwhile

The user of this machine is called `local`.")]
pub(crate) enum Users {
    /// List all users with stored data
    List {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Export everything of a user into one file: conversations, journals, memory, permissions, uploads, and the files that runs wrote
    Export {
        user: String,
        /// The file to write; an existing file is not overwritten
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete everything of a user permanently: the same, and tokens, the document index, and free pages of the database
    ///
    /// Earlier backups and exports still contain it. The audit log keeps the user's name and actions, without any content.
    Delete {
        user: String,
        /// Really delete; without this, only list what would be deleted
        #[arg(long)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Users {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        match self {
            Users::List { json } => wiring::block_on(list(globals, json)),
            Users::Export { user, file, json } => wiring::block_on(export::run(globals, &user, &file, json)),
            Users::Delete { user, yes, json } => delete::run(globals, &user, yes, json),
        }
    }
}

async fn list(globals: &GlobalArgs, as_json: bool) -> Result<Exit> {
    let store = globals.open().await?;
    let mut out = anstream::stdout();
    let mut table = Table::new(&["user", "threads", "stored", "uploads"]);
    for user in everybody(globals, &*store).await? {
        let threads = threads(&*store, &user).await?.len();
        let stored = store.stored_bytes(&user).await?;
        let uploads = files_of(globals, &user)?.uploads.map_or(Ok(0), |folder| size(&folder))?;
        match as_json {
            true => writeln!(out, "{}", json!({ "user": user, "threads": threads, "stored_bytes": stored, "uploads_bytes": uploads }))?,
            false => table.row([user.to_string(), threads.to_string(), bytes(stored), bytes(uploads)].map(|cell| (anstyle::Style::new(), cell))),
        }
    }
    if !as_json {
        table.write(&mut out)?;
    }
    Ok(Exit::Well)
}

/// Users in the database, and users with uploads.
async fn everybody(globals: &GlobalArgs, store: &dyn Store) -> Result<Vec<UserId>> {
    let mut all = store.users().await?;
    for entry in std::fs::read_dir(DataHome::of(globals)?.folder.join("uploads")).into_iter().flatten().flatten() {
        // Beside the folders of users there may be a list of shared uploads.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name();
        // Names that are not valid folder names are stored in another form, and are in the database too.
        all.extend(name.to_str().filter(|name| !name.starts_with("x:")).map(UserId::from));
    }
    all.sort();
    all.dedup();
    Ok(all)
}

async fn known(globals: &GlobalArgs, store: &dyn Store, name: &str) -> Result<UserId> {
    let all = everybody(globals, store).await?;
    all.iter().find(|user| user.as_str() == name).cloned().ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(UserId::as_str).collect();
        ServiceError::Usage(format!("there is no data of a user {name:?}; there is data of: {}", names.join(", ")))
    })
}

const PAGE: usize = 200;

/// The names of all threads of a user.
async fn threads(store: &dyn Store, user: &UserId) -> Result<Vec<ThreadId>> {
    let mut all: Vec<ThreadId> = Vec::new();
    loop {
        let filter = CardFilter { user: Some(user.clone()), before: all.last().cloned(), limit: PAGE, ..CardFilter::default() };
        let page = store.cards(filter).await?;
        let is_last = page.len() < PAGE;
        all.extend(page.into_iter().map(|card| card.thread.thread));
        if is_last {
            return Ok(all);
        }
    }
}

/// Folders that belong to one user, as far as they exist.
struct UserFolders {
    uploads: Option<PathBuf>,
    documents: Option<PathBuf>,
    outbox: Option<PathBuf>,
}

impl UserFolders {
    fn all(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let named = [("uploads", &self.uploads), ("documents", &self.documents), ("outbox", &self.outbox)];
        named.into_iter().filter_map(|(name, folder)| Some((name, folder.as_deref()?)))
    }
}

/// Documents and mails of the local user are in the folders that also contain those of all others, and cannot be separated.
fn files_of(globals: &GlobalArgs, user: &UserId) -> Result<UserFolders> {
    let config = service::config::Config::for_run(globals)?;
    let folder = DataHome::of(globals)?.folder;
    let documents = config.tools.document.as_ref().map_or_else(|| folder.join("documents"), |settings| settings.folder.clone());
    let outbox = config.tools.mail.as_ref().map_or_else(|| folder.join("outbox"), |settings| settings.outbox.clone());
    let own = |folder: PathBuf| Some(tools::owner::own_folder(&folder, Some(user.as_str()))).filter(|own| *own != folder && own.is_dir());
    let uploads = folder.join("uploads").join(service::uploads::folder_name(user.as_str()));
    Ok(UserFolders { uploads: Some(uploads).filter(|folder| folder.is_dir()), documents: own(documents), outbox: own(outbox) })
}

fn size(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for path in crate::home::files_below(folder, "")? {
        sum += std::fs::metadata(folder.join(path)).map_or(0, |about| about.len());
    }
    Ok(sum)
}

fn counted(threads: usize, files: usize) -> String {
    format!("{} and {}", count(threads as u64, "thread", "threads"), count(files as u64, "file", "files"))
}

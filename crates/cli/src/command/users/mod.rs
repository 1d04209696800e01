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

/// List the users of this database; take out or delete everything of one
#[derive(clap::Subcommand)]
#[command(after_help = "Examples:
  baton users list
  baton users export ada ada.tar          everything Baton has of Ada
  baton users delete ada --yes            permanently; no server may run meanwhile

The user of this machine is called `local`.")]
pub(crate) enum Users {
    /// Everybody of whom something is kept
    List {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Write everything of a user into one file: conversations, journals, memory, permissions, uploads, and the files that runs wrote
    Export {
        user: String,
        /// The file; one that exists is not written over
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete everything of a user permanently: the same, and tokens, the index of documents, and traces in free places of the database
    ///
    /// Backups and exports that were made before still have it. The audit log keeps the user's name and what was done, without any content.
    Delete {
        user: String,
        /// Do it; without this, only say what would be deleted
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

/// Those in the database, and those who uploaded something.
async fn everybody(globals: &GlobalArgs, store: &dyn Store) -> Result<Vec<UserId>> {
    let mut all = store.users().await?;
    for entry in std::fs::read_dir(DataHome::of(globals)?.folder.join("uploads")).into_iter().flatten().flatten() {
        let name = entry.file_name();
        // Names that are no folder names are kept in another form, and are in the database too.
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
        ServiceError::Usage(format!("nothing is kept of a user {name:?}; there is something of: {}", names.join(", ")))
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

/// Folders that are a user's alone, as far as they exist.
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

/// The documents and mails of the user of this machine lie in the folders that hold those of all others, and are not told apart.
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

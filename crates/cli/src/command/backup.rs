use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use audit::EventKind;
use serde_json::json;

use crate::archive::{self, Writer};
use crate::exit::{Exit, Result, ServiceError};
use crate::home::{DATABASE, DataHome, KEPT, files_below};
use service::global_args::GlobalArgs;
use service::{audited, private};
use terminal::remark;
use terminal::{bytes, now_ms};

/// Write all data into one file; a server may be running
#[derive(clap::Args)]
#[command(after_help = "Examples:
  baton backup baton-2026-11-16.tar
  baton --db /srv/baton/baton.db restore baton-2026-11-16.tar

In it are the database (conversations, journals, memory, permissions, digests of tokens) as it is at one moment, uploads, workspaces, documents, the outbox,
imported servers, the switches of tools, the audit log, and a list of the SHA-256 of all of them. Not in it: the configuration, indexes and models, which
are caches, and tokens of running servers. The file is for this account only; it is not encrypted.")]
pub(crate) struct Backup {
    /// The file to write; an existing file is not overwritten
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Restore a backup made by `baton backup`, after verifying all of it
#[derive(clap::Args)]
#[command(after_help = "Examples:
  baton restore baton-2026-11-16.tar
  baton restore --force baton-2026-11-16.tar     moves what is there to a folder beside it first

Every file is compared with the hash in the backup and the databases are checked before anything is replaced. Runs that were unfinished when the backup was made
go on when a server is started; what they did outside since then, they may do again. `baton runs list --status running,waiting,asking` shows them.")]
pub(crate) struct Restore {
    /// The file that `baton backup` wrote
    file: PathBuf,
    /// Replace existing data; it is moved to a folder `replaced-…` beside it
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const BACKUP: &str = "backup";

impl Backup {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        let home = DataHome::of(globals)?;
        // A mistyped path must not become an empty backup.
        drop(globals.open_file()?);
        let mut archive = Writer::create(&self.file)?;
        let beside = self.file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let copies = tempfile::Builder::new().prefix(".baton-backup-").tempdir_in(beside)?;
        add_database(&mut archive, &home.database, Path::new(DATABASE), copies.path())?;
        for name in KEPT {
            // Prevents a partly written log line in the backup.
            let _lock = (name == audited::FOLDER).then(|| locked(&home.folder.join(name))).transpose()?.flatten();
            for path in files_below(&home.folder, name)? {
                let from = home.folder.join(&path);
                match kind(&path) {
                    Kind::Database => add_database(&mut archive, &from, &path, copies.path())?,
                    Kind::File => archive.add_file(&path, &from)?,
                    Kind::LeftOut => {}
                }
            }
        }
        let files = archive.count();
        let size = archive.finish(BACKUP.to_owned(), now_ms())?;
        audited::record(globals, EventKind::BackupMade, |event| event.detail(format!("{files} files")))?;
        let mut out = anstream::stdout();
        match self.json {
            true => writeln!(out, "{}", json!({ "file": self.file, "files": files, "bytes": size }))?,
            false => writeln!(out, "{} files, {} in {}", files, bytes(size), self.file.display())?,
        }
        Ok(Exit::Well)
    }
}

enum Kind {
    Database,
    File,
    LeftOut,
}

/// Agents have their own databases, with lock and token files beside them.
fn kind(path: &Path) -> Kind {
    let is_agents = path.starts_with("agents");
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_beside = [".db-wal", ".db-shm"].iter().any(|ending| name.ends_with(ending)) || path.starts_with("agents/access");
    match is_agents {
        true if name.ends_with(".db") => Kind::Database,
        true if is_beside => Kind::LeftOut,
        true => Kind::File,
        false if path == Path::new("audit/lock") => Kind::LeftOut,
        false => Kind::File,
    }
}

/// A consistent snapshot, regardless of concurrent writes.
fn add_database(archive: &mut Writer, from: &Path, path: &Path, copies: &Path) -> Result<()> {
    let copy = copies.join("copy.db");
    store::copy_database(from, &copy)?;
    archive.add_file(path, &copy)?;
    Ok(fs::remove_file(copy)?)
}

fn locked(folder: &Path) -> Result<Option<File>> {
    match File::open(folder.join("lock")) {
        Ok(file) => {
            file.lock()?;
            Ok(Some(file))
        }
        Err(_) => Ok(None),
    }
}

impl Restore {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        let home = DataHome::of(globals)?;
        if !self.file.is_file() {
            return Err(ServiceError::Usage(format!("there is no file {}; name the backup that `baton backup` wrote", self.file.display())));
        }
        let existing = home.existing();
        if !existing.is_empty() && !self.force {
            let names: Vec<String> = existing.iter().take(4).map(|path| path.display().to_string()).collect();
            let why = format!("there is data already ({}); --force moves it aside, or --db names another place", names.join(", "));
            return Err(ServiceError::Usage(why));
        }
        home.must_be_unused()?;
        // Opening a database may remove the files beside it.
        let existing = home.existing();
        private::make_folder(&home.folder)?;
        // On the same file system, so that everything can be renamed into place.
        let unpacked = tempfile::Builder::new().prefix(".restore-").tempdir_in(&home.folder)?;
        let manifest =
            archive::unpack(&self.file, unpacked.path(), &|path| path == Path::new(DATABASE) || KEPT.iter().any(|name| path.starts_with(name)))?;
        if manifest.of != BACKUP {
            return Err(ServiceError::Usage(format!("{} is the data of {}, and no backup", self.file.display(), manifest.of)));
        }
        let checked = store::check_database(&unpacked.path().join(DATABASE))?;
        for path in files_below(unpacked.path(), "agents")?.iter().filter(|path| matches!(kind(path), Kind::Database)) {
            store::check_database(&unpacked.path().join(path))?;
        }
        if let Err(broken) = audit::verify(&unpacked.path().join(audited::FOLDER), None)? {
            remark(&format!("the audit log was broken when the backup was made: {broken}"));
        }
        let replaced = move_aside(&home, &existing)?;
        put_in_place(&home, unpacked.path())?;
        audited::record(globals, EventKind::BackupRestored, |event| {
            event.detail(format!("made {} by Baton {}", audit::time_of(manifest.made_ms), manifest.baton))
        })?;
        let mut out = anstream::stdout();
        if self.json {
            let report = json!({ "threads": checked.threads, "runs": checked.runs, "unfinished": checked.unfinished, "replaced": replaced });
            writeln!(out, "{report}")?;
            return Ok(Exit::Well);
        }
        writeln!(out, "{} threads with {} runs are back, as of {}", checked.threads, checked.runs, audit::time_of(manifest.made_ms))?;
        if checked.unfinished > 0 {
            let list = "baton runs list --status running,waiting,asking";
            writeln!(
                out,
                "{} unfinished runs go on when a server is started; `{list}` shows them, `baton runs cancel` ends one",
                checked.unfinished
            )?;
        }
        if let Some(replaced) = replaced {
            writeln!(out, "what was there is in {}; remove it when it is not needed", replaced.display())?;
        }
        Ok(Exit::Well)
    }
}

fn move_aside(home: &DataHome, existing: &[PathBuf]) -> Result<Option<PathBuf>> {
    if existing.is_empty() {
        return Ok(None);
    }
    let aside = home.folder.join(format!("replaced-{}", now_ms()));
    private::make_folder(&aside)?;
    for path in existing {
        let name = path.file_name().unwrap_or_default();
        fs::rename(path, aside.join(name)).map_err(|error| {
            ServiceError::Failed(format!("{} cannot be moved to {}: {error}; what was moved is there", path.display(), aside.display()))
        })?;
    }
    Ok(Some(aside))
}

/// The database last: without it no server can start.
fn put_in_place(home: &DataHome, unpacked: &Path) -> Result<()> {
    let all = KEPT.iter().map(|name| (unpacked.join(name), home.folder.join(name))).chain([(unpacked.join(DATABASE), home.database.clone())]);
    for (from, to) in all.filter(|(from, _)| from.exists()) {
        fs::rename(&from, &to).map_err(|error| ServiceError::Failed(format!("{} cannot be put in place: {error}", to.display())))?;
    }
    Ok(File::open(&home.folder)?.sync_all()?)
}

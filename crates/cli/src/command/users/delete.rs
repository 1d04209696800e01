//! Deletes a user completely: rows, files, the index, and free pages of SQLite.

use std::io::Write as _;
use std::path::Path;

use audit::What;
use graph::UserId;
use serde_json::json;

use super::{counted, files_of, known, threads};
use crate::exit::{Exit, Result, ServiceError};
use crate::home::{DataHome, files_below};
use service::global_args::GlobalArgs;
use service::{audited, caches, thread_files, wiring};

pub(super) fn run(globals: &GlobalArgs, name: &str, is_sure: bool, as_json: bool) -> Result<Exit> {
    let home = DataHome::of(globals)?;
    if is_sure {
        home.must_be_unused()?;
    }
    let (user, all) = wiring::block_on(async {
        let store = globals.open_file()?;
        let user = known(globals, &store, name).await?;
        let all = threads(&store, &user).await?;
        Ok((user, all))
    })?;
    let folders = files_of(globals, &user)?;
    let workspaces = thread_files::workspaces(globals)?;
    let mut files = 0;
    for folder in folders.all().map(|(_, folder)| folder.to_owned()).chain(all.iter().map(|thread| workspaces.folder(Some(thread.as_str())))) {
        files += if workspaces.is_own() || folder.starts_with(&home.folder) { files_below(&folder, "")?.len() } else { 0 };
    }
    let mut out = anstream::stdout();
    if !is_sure {
        match as_json {
            true => writeln!(out, "{}", json!({ "user": user, "threads": all.len(), "files": files, "deleted": false }))?,
            false => writeln!(out, "{} of {user} would be deleted permanently; --yes does it", counted(all.len(), files))?,
        }
        return Ok(Exit::Usage);
    }
    audited::record(globals, What::UserDeleted, |event| event.detail(format!("the data of {user}")))?;
    for (_, folder) in folders.all() {
        remove(folder)?;
    }
    thread_files::remove(globals, &all)?;
    if folders.uploads.is_some() {
        // All users' passages share one index, which is a cache; the next server builds it again.
        remove(&caches::indexes()?)?;
    }
    let freed = wiring::block_on(delete_rows(globals, user.clone()))?;
    store::compact_database(&home.database)?;
    match as_json {
        true => writeln!(out, "{}", json!({ "user": user, "threads": freed.threads, "runs": freed.runs, "files": files, "deleted": true }))?,
        false => {
            writeln!(out, "{} of {user} were deleted permanently; backups that were made before still have them", counted(all.len(), files))?;
        }
    }
    Ok(Exit::Well)
}

async fn delete_rows(globals: &GlobalArgs, user: UserId) -> Result<store::Freed> {
    Ok(globals.open_file()?.delete_user(&user).await?)
}

fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(ServiceError::Failed(format!("{} cannot be removed: {error}; the database was not changed", folder.display()))),
    }
}

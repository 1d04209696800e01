//! Deletes a user completely: rows, files, the index, and free pages of SQLite.

use std::io::Write as _;
use std::path::Path;

use audit::EventKind;
use graph::{ThreadId, UserId};
use serde_json::json;
use store::{DeletionReport, RecordFilter, Store};
use terminal::{now_ms, remark};

use super::{counted, files_of, known, threads};
use crate::exit::{Exit, Result, ServiceError};
use crate::home::{DataHome, files_below};
use service::global_args::GlobalArgs;
use service::{audited, caches, thread_files, wiring};

pub(super) fn run(globals: &GlobalArgs, name: &str, is_sure: bool, as_json: bool) -> Result<Exit> {
    let home = DataHome::of(globals)?;
    // On Postgres other servers go on; a thread that one of them works in is refused by the database.
    let is_shared = globals.shared()?.is_some();
    if is_sure && !is_shared {
        home.must_be_unused()?;
    }
    let (user, all) = wiring::block_on(async {
        let store = globals.open().await?;
        let user = known(globals, &*store, name).await?;
        let all = threads(&*store, &user).await?;
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
    audited::record(globals, EventKind::UserDeleted, |event| event.detail(format!("the data of {user}")))?;
    for (_, folder) in folders.all() {
        remove(folder)?;
    }
    thread_files::remove(globals, &all)?;
    if folders.uploads.is_some() {
        // All users' passages share one index, which is a cache; the next server builds it again.
        remove(&caches::indexes()?)?;
    }
    let freed = wiring::block_on(async {
        match is_shared {
            true => delete_shared_rows(&*globals.open().await?, &user, &all).await,
            false => Ok(globals.open_file()?.delete_user(&user).await?),
        }
    })?;
    match is_shared {
        true => remark("files on the disks of other servers are not deleted by this; run it there too. Postgres gives the space back with VACUUM"),
        false => store::compact_database(&home.database)?,
    }
    match as_json {
        true => writeln!(out, "{}", json!({ "user": user, "threads": freed.threads, "runs": freed.runs, "files": files, "deleted": true }))?,
        false => {
            writeln!(out, "{} of {user} were deleted permanently; backups that were made before still have them", counted(all.len(), files))?;
        }
    }
    Ok(Exit::Well)
}

/// Row by row, while servers may run. Who comes in with a token of the user is kept out first; what is interrupted can be repeated.
async fn delete_shared_rows(store: &dyn Store, user: &UserId, threads: &[ThreadId]) -> Result<DeletionReport> {
    for row in store.tokens().await?.iter().filter(|row| row.user == *user) {
        store.drop_token(row.token).await?;
    }
    let mut freed = DeletionReport::default();
    for thread in threads {
        let one = store.delete_thread(thread, now_ms()).await.map_err(|error| {
            ServiceError::Failed(format!("the thread {thread} cannot be deleted: {error}; end its run (`baton runs list`), and repeat this command"))
        })?;
        freed.threads += one.threads;
        freed.runs += one.runs;
    }
    store.forget(user, None).await?;
    for permission in store.permissions(user).await? {
        store.revoke_permission(user, permission.permission).await?;
    }
    for (name, _) in store.preferences(user).await? {
        store.prefer(user, &name, None).await?;
    }
    // Uploads that servers share are in the database too.
    if let Some(files) = store.files()
        && let Some((_, listed)) = files.changed_since(0).await?
    {
        for file in listed.iter().filter(|file| file.user == *user) {
            files.remove(&file.user, &file.name).await?;
        }
    }
    for kind in server::record_kinds() {
        let filter =
            RecordFilter { kind: kind.to_owned(), user: Some(user.clone()), key_prefix: String::new(), after: None, limit: store::RECORDS_MAX };
        loop {
            let rows = store.records(filter.clone()).await?;
            if rows.is_empty() {
                break;
            }
            for row in rows {
                store.drop_record(user, kind, &row.key).await?;
            }
        }
    }
    Ok(freed)
}

fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(ServiceError::Failed(format!("{} cannot be removed: {error}; the database was not changed", folder.display()))),
    }
}

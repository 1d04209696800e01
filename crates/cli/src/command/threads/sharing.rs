//! Titles of threads, and links through which others can read them.

use std::io::Write as _;

use audit::EventKind;
use graph::ThreadId;
use server::conversation::{details, shares};
use service::audited;
use service::global_args::GlobalArgs;
use store::{Store, StoreError, ThreadRow};
use terminal::{Table, age, now_ms};
use wire::api::ChangeThread;

use crate::exit::{Exit, Result, ServiceError};

async fn row(store: &dyn Store, thread: &ThreadId) -> Result<ThreadRow> {
    Ok(store.thread(thread).await?.ok_or_else(|| StoreError::NoThread { thread: thread.clone() })?)
}

pub(super) async fn rename(store: &dyn Store, thread: &ThreadId, title: String) -> Result<Exit> {
    let row = row(store, thread).await?;
    let change = ChangeThread { title: Some(title), ..ChangeThread::default() };
    let details = details::change(store, &row, &change).await.map_err(|problem| ServiceError::Usage(problem.message))?;
    writeln!(anstream::stdout(), "{thread} is now called {:?}", details.title.unwrap_or(row.title))?;
    Ok(Exit::Well)
}

pub(super) async fn share(globals: &GlobalArgs, store: &dyn Store, thread: &ThreadId, server: &str) -> Result<Exit> {
    let row = row(store, thread).await?;
    audited::record(globals, EventKind::ThreadShared, |event| event.thread(thread.as_str()))?;
    let share = shares::make(store, &row, None).await.map_err(|problem| ServiceError::Usage(problem.message))?;
    let mut out = anstream::stdout().lock();
    writeln!(out, "{}{}", server.trim_end_matches('/'), share.path.unwrap_or_default())?;
    writeln!(out, "shows {} turns; revoke it with: baton threads unshare {thread} {}", share.turns, share.id)?;
    Ok(Exit::Well)
}

pub(super) async fn list(store: &dyn Store, thread: &ThreadId) -> Result<Exit> {
    let row = row(store, thread).await?;
    let mut table = Table::new(&["link", "turns", "made"]);
    for share in shares::list(store, &row.user.unwrap_or_default(), thread).await? {
        let cells = [share.id, share.turns.to_string(), age(share.created_ms, now_ms())];
        table.row(cells.map(|cell| (anstyle::Style::new(), cell)));
    }
    table.write(&mut anstream::stdout().lock())?;
    Ok(Exit::Well)
}

pub(super) async fn revoke(globals: &GlobalArgs, store: &dyn Store, thread: &ThreadId, id: Option<&str>) -> Result<Exit> {
    let row = row(store, thread).await?;
    let revoked = shares::revoke(store, &row.user.unwrap_or_default(), thread, id).await?;
    if let (0, Some(id)) = (revoked, id) {
        return Err(ServiceError::Usage(format!("the thread {thread} has no link {id:?}; `baton threads shares {thread}` lists them")));
    }
    audited::record(globals, EventKind::ThreadUnshared, |event| event.thread(thread.as_str()))?;
    writeln!(anstream::stdout(), "revoked {revoked} links of {thread}")?;
    Ok(Exit::Well)
}

//! Exports everything of a user into one file, as JSON where it is not a file already.

use std::io::Write as _;
use std::path::Path;

use audit::EventKind;
use graph::{ThreadId, UserId};
use serde_json::{Value, json};
use store::{JournalLine, NoteFilter, RecordFilter, RunFilter, Store};

use super::{counted, files_of, known, threads};
use crate::archive::Writer;
use crate::exit::{Exit, Result};
use crate::home::files_below;
use service::global_args::GlobalArgs;
use service::{audited, thread_files};
use terminal::{bytes, now_ms};

/// Rows read at once.
const PAGE: usize = 500;
/// More than a user can have.
const NOTES_MAX: usize = 100_000;

pub(super) async fn run(globals: &GlobalArgs, user: &str, file: &Path, as_json: bool) -> Result<Exit> {
    let store = globals.open().await?;
    let store = &*store;
    let user = known(globals, store, user).await?;
    let mut archive = Writer::create(file)?;
    archive.add_text(Path::new("user.json"), &pretty(&token_list(store, &user).await?)?)?;
    for kind in server::record_kinds() {
        let documents = documents(store, &user, kind).await?;
        if !documents.is_empty() {
            archive.add_text(&Path::new("documents-of-protocols").join(format!("{kind}.json")), &pretty(&json!(documents))?)?;
        }
    }
    let threads = threads(store, &user).await?;
    let workspaces = thread_files::workspaces(globals)?;
    for (number, thread) in threads.iter().enumerate() {
        let folder = Path::new("threads").join(format!("{:06}", number + 1));
        archive.add_text(&folder.join("thread.json"), &pretty(&conversation(store, thread).await?)?)?;
        if workspaces.is_own() {
            let from = workspaces.folder(Some(thread.as_str()));
            for path in files_below(&from, "")? {
                archive.add_file(&folder.join("files").join(&path), &from.join(&path))?;
            }
        }
    }
    for (name, from) in files_of(globals, &user)?.all() {
        for path in files_below(from, "")? {
            archive.add_file(&Path::new(name).join(&path), &from.join(&path))?;
        }
    }
    let files = archive.count();
    audited::record(globals, EventKind::UserExported, |event| event.detail(format!("the data of {user}")))?;
    let size = archive.finish(format!("user {user}"), now_ms())?;
    let mut out = anstream::stdout();
    match as_json {
        true => writeln!(out, "{}", json!({ "user": user, "file": file, "threads": threads.len(), "files": files, "bytes": size }))?,
        false => writeln!(out, "{} of {user}, {} in {}", counted(threads.len(), files), bytes(size), file.display())?,
    }
    Ok(Exit::Well)
}

fn pretty(value: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)?)
}

/// Tokens without their secrets.
async fn token_list(store: &dyn Store, user: &UserId) -> Result<Value> {
    let notes = store.notes(NoteFilter { user: user.clone(), flow: None, thread: None, now_ms: 0, limit: NOTES_MAX }).await?;
    let is_theirs = |row: &store::TokenRow| row.user == *user;
    let tokens = store.tokens().await?.into_iter().filter(is_theirs);
    let tokens: Vec<Value> = tokens.map(|row| json!({ "number": row.token, "created_ms": row.created_ms, "until_ms": row.until_ms })).collect();
    Ok(json!({
        "user": user,
        "preferences": store.preferences(user).await?,
        "permissions": store.permissions(user).await?,
        "notes": notes,
        "tokens": tokens,
    }))
}

/// What a protocol keeps for the user, such as assistants, crons and store items of LangGraph's clients.
async fn documents(store: &dyn Store, user: &UserId, kind: &str) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    let mut filter = RecordFilter { kind: kind.to_owned(), user: Some(user.clone()), key_prefix: String::new(), after: None, limit: PAGE };
    loop {
        let rows = store.records(filter.clone()).await?;
        let Some(last) = rows.last() else { return Ok(all) };
        filter.after = Some((last.key.clone(), last.user.clone()));
        let exported =
            |row: store::RecordRow| json!({ "key": row.key, "value": row.value, "created_ms": row.created_ms, "updated_ms": row.updated_ms });
        all.extend(rows.into_iter().map(exported));
    }
}

async fn conversation(store: &dyn Store, thread: &ThreadId) -> Result<Value> {
    let mut messages = Vec::new();
    loop {
        let page = store.messages(thread, messages.len() as u64, PAGE).await?;
        let is_last = page.len() < PAGE;
        messages.extend(page);
        if is_last {
            break;
        }
    }
    let (mut runs, mut before) = (Vec::new(), None);
    loop {
        let filter = RunFilter { thread: Some(thread.clone()), before: before.take(), limit: PAGE, ..RunFilter::default() };
        let page = store.runs(filter).await?;
        let is_last = page.len() < PAGE;
        before = page.last().map(|row| row.run.clone());
        for row in page {
            let journal = journal(store, &row.run).await?;
            runs.push(json!({ "run": row, "journal": journal }));
        }
        if is_last {
            break;
        }
    }
    Ok(json!({ "thread": store.thread(thread).await?, "messages": messages, "runs": runs }))
}

async fn journal(store: &dyn Store, run: &graph::RunId) -> Result<Vec<Value>> {
    let mut lines = Vec::new();
    loop {
        let page = store.journal(run, lines.len() as u64, PAGE).await?;
        let is_last = JournalLine::is_last_page(&page, PAGE);
        // Content that is not JSON was not written by us; it is exported unchanged.
        let read = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(bytes)));
        lines.extend(page.iter().map(|line| read(&line.bytes)));
        if is_last {
            return Ok(lines);
        }
    }
}

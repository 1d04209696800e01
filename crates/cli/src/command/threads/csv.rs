//! Export and import of a conversation as the specification's CSV.
//!
//! Every turn is a row. Rows of `chat` and imported rows are written unchanged; for other flows the answer is in `search_results`, and an
//! answer about the conversation itself in `insights`. Reviews and other insights are computed here (`flows::chat::review`), except for
//! imported rows.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::path::Path;

use engine::{Engine, Order, RunState};
use flows::chat::{IMPORT, Row};
use graph::{Digest, Outcome, RunId, ThreadId};
use serde::Deserialize as _;
use serde_json::json;
use store::{RunFilter, RunRow, Store};

use crate::exit::{Exit, Result, ServiceError};

const PAGE: usize = 1_000;
/// Larger files are rejected before they are read; the CSV parser has the same limit.
const BYTES_MAX: u64 = 64 << 20;

pub(super) async fn export(store: &dyn Store, thread: &ThreadId, to: Option<&Path>) -> Result<Exit> {
    let rows = rows(store, thread).await?;
    let text = flows::chat::export(&rows).map_err(|error| ServiceError::Failed(error.to_string()))?;
    match to {
        // Directly to stdout: stripping colours would remove bytes of cells.
        None => std::io::stdout().write_all(text.as_bytes())?,
        Some(path) => {
            let wrong = |error: std::io::Error| match error.kind() {
                std::io::ErrorKind::AlreadyExists => ServiceError::Usage(format!("{} exists; name another file", path.display())),
                _ => ServiceError::Failed(format!("{} cannot be written: {error}", path.display())),
            };
            let mut file = std::fs::File::create_new(path).map_err(wrong)?;
            file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(wrong)?;
            writeln!(anstream::stdout(), "{} rows of thread {thread} are in {}", rows.len(), path.display())?;
        }
    }
    Ok(Exit::Well)
}

async fn rows(store: &dyn Store, thread: &ThreadId) -> Result<Vec<Row>> {
    let mut turns = turns_by_run(store, thread).await?;
    let mut rows: Vec<Row> = Vec::new();
    for run in root_runs(store, thread).await? {
        let output = engine::result_of(&run).and_then(|closing| closing.outcome.output().cloned()).unwrap_or_default();
        if let Some(imported) = output.get("rows").filter(|_| run.flow == IMPORT) {
            let imported = Vec::<Row>::deserialize(imported);
            rows.extend(imported.map_err(|error| ServiceError::Failed(format!("the rows of run {} cannot be read: {error}", run.run)))?);
            continue;
        }
        // A failed run has no answer.
        let Some(Turn { query, answer }) = turns.remove(&run.run) else { continue };
        let turn = rows.last().map_or(1, |last| last.turn.saturating_add(1));
        let mut row = match output.get("row").and_then(|row| Row::deserialize(row).ok()) {
            Some(row) => Row { turn: row.turn.max(turn), ..row },
            None => Row { query, turn, search_results: answer.clone(), ..Row::default() },
        };
        if [&row.search_results, &row.summary, &row.reviewed_summary, &row.insights].into_iter().all(|text| text.is_empty()) {
            row.insights = answer;
        }
        flows::chat::review(&mut row, &rows, service::model_options::verifier().ok());
        rows.push(row);
    }
    Ok(rows)
}

#[derive(Default)]
struct Turn {
    query: String,
    answer: String,
}

/// The messages of each run in the thread.
async fn turns_by_run(store: &dyn Store, thread: &ThreadId) -> Result<HashMap<RunId, Turn>> {
    let mut turns: HashMap<RunId, Turn> = HashMap::new();
    let mut from = 0;
    loop {
        let page = store.messages(thread, from, PAGE).await?;
        from += page.len() as u64;
        let is_last = page.len() < PAGE;
        for message in page {
            let turn = turns.entry(message.run).or_default();
            match message.role.as_str() {
                "user" => turn.query = message.content,
                _ => turn.answer = message.content,
            }
        }
        if is_last {
            return Ok(turns);
        }
    }
}

/// The root runs, oldest first.
async fn root_runs(store: &dyn Store, thread: &ThreadId) -> Result<Vec<RunRow>> {
    let mut runs: Vec<RunRow> = Vec::new();
    let mut before = None;
    loop {
        let page = store.runs(RunFilter { thread: Some(thread.clone()), before: before.take(), limit: PAGE, ..RunFilter::default() }).await?;
        before = page.last().map(|run| run.run.clone());
        let is_last = page.len() < PAGE;
        runs.extend(page.into_iter().filter(|run| run.parent.is_none()));
        if is_last {
            runs.reverse();
            return Ok(runs);
        }
    }
}

pub(super) fn read(file: &Path) -> Result<Vec<Row>> {
    let wrong = |why: String| ServiceError::Usage(format!("{}: {why}", file.display()));
    let mut bytes = Vec::new();
    let source: Box<dyn std::io::Read> = match file.to_str() {
        Some("-") => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(file).map_err(|error| wrong(error.to_string()))?),
    };
    source.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| wrong(format!("it is not UTF-8: {}", error.utf8_error())))?;
    let rows = flows::chat::import(&text).map_err(|error| wrong(error.to_string()))?;
    if rows.is_empty() {
        return Err(wrong("it has no rows".to_owned()));
    }
    Ok(rows)
}

/// One run imports all rows and is named after their content, so repeating an interrupted import continues it, and no import is done twice.
pub(super) async fn import(engine: &Engine, rows: &[Row], thread: &ThreadId, title: String) -> Result<Exit> {
    let count = rows.len();
    let input = json!({ "rows": rows });
    let run = RunId::from(format!("import-{}", Digest::of(&graph::agent(thread.as_str(), input.clone()))));
    let store = engine.store();
    let is_known = store.run(&run).await?.is_some();
    // A thread without a user was left by an import that was interrupted at its start.
    if !is_known && store.thread(thread).await?.is_some_and(|row| row.user.is_some()) {
        return Err(ServiceError::Usage(format!("thread {thread} exists; name a new one with --thread")));
    }
    engine.start(Order { thread: Some(thread.clone()), run: Some(run.clone()), title: Some(title), ..Order::new(IMPORT, input) }).await?;
    if is_known && matches!(engine.at(&run).await?, RunState::Going) {
        engine.resume(&run).await?;
    }
    match engine.wait(&run).await? {
        RunState::Over(closing) if matches!(closing.outcome, Outcome::Done { .. }) => {
            let words = if is_known { "were already in" } else { "are now in" };
            writeln!(anstream::stdout(), "{count} rows {words} thread {thread}; `baton ask \"…\" --thread {thread}` goes on with it")?;
            Ok(Exit::Well)
        }
        other => Err(ServiceError::Failed(format!("the import failed: {other:?}"))),
    }
}

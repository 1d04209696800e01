mod csv;
mod sharing;

use std::io::Write as _;
use std::path::PathBuf;

use audit::EventKind;
use graph::ThreadId;
use serde_json::json;
use server::conversation;
use service::global_args::GlobalArgs;
use service::{audited, thread_files, wiring};
use store::{DeletionReport, Retention, RunFilter, Store, StoreError};
use terminal::{BOLD, DIM, Table, age, bytes, now_ms, one_line, paint, tail};

use crate::exit::{Exit, Result, ServiceError};
use crate::find;

/// List and show threads; export and import them as CSV; delete old ones
#[derive(clap::Subcommand)]
pub(crate) enum Threads {
    /// List threads, most recently used first
    List {
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Show the messages and runs of a thread
    Show {
        /// Its name, or any part of the id of one of its runs
        thread: String,
        #[arg(long)]
        json: bool,
    },
    /// Export a thread as CSV, one row per turn
    #[command(after_help = EXPORT_HELP)]
    Export {
        /// Its name, or any part of the id of one of its runs
        thread: String,
        /// The file to write [default: stdout]; an existing file is not overwritten
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Import a thread from such CSV: all of it, or nothing if a row is invalid
    #[command(after_help = IMPORT_HELP)]
    Import {
        /// The file; `-` reads stdin
        file: PathBuf,
        /// The thread's name, which must be unused [default: the file's name]
        #[arg(long)]
        thread: Option<String>,
    },
    /// Give a thread another title; an empty one is the first question again
    Rename {
        /// Its name, or any part of the id of one of its runs
        thread: String,
        title: String,
    },
    /// Make a link through which anybody who can reach the server can read the thread's questions, answers and sources
    ///
    /// The link is printed once; the store keeps a digest of it. It shows the turns that there are now, and no later ones.
    Share {
        /// Its name, or any part of the id of one of its runs
        thread: String,
        /// The address at which readers reach `baton serve`
        #[arg(long, default_value = "http://127.0.0.1:8080", value_name = "URL")]
        server: String,
    },
    /// List the links to a thread
    Shares {
        /// Its name, or any part of the id of one of its runs
        thread: String,
    },
    /// Revoke a link to a thread, or all of them
    Unshare {
        /// Its name, or any part of the id of one of its runs
        thread: String,
        /// As `baton threads shares` lists it [default: all links of the thread]
        id: Option<String>,
    },
    /// Delete a thread with its messages, runs and journals
    Delete {
        /// Its name, or any part of the id of one of its runs
        thread: String,
    },
    /// Delete old threads and free their space. Threads with unfinished runs are kept
    ///
    /// `[memory] conversation_days = N` in the configuration deletes threads that were not used for N days.
    #[command(group = clap::ArgGroup::new("which").required(true))]
    Prune {
        /// Keep the N most recently used
        #[arg(long, value_name = "N", group = "which")]
        keep: Option<u64>,
        /// Keep those used within this many days
        #[arg(long, value_name = "D", group = "which")]
        days: Option<u32>,
    },
}

const EXPORT_HELP: &str = "\
Columns: query, turn, search_results, search_confidence, summary, summary_confidence, reviewed_summary, review_confidence, insights,
insights_confidence. What flows other than chat answered stands under search_results, what was said of the conversation itself under insights.
reviewed_summary has the sentences of the summary that the summarized answers support, review_confidence their share; insights has what a turn added to
earlier ones. Both are computed by the export, without a model, unless an imported file already had them.
A cell that a spreadsheet would take for a formula has an apostrophe before it; `baton threads import` takes it away again.

Examples:
  baton threads export wal > wal.csv
  baton threads export wal --to wal.csv";

const IMPORT_HELP: &str = "\
Columns may come in any order, and all but query may be missing. A column that is not known, a number that is none, or a row with too few cells is
an error that names the row, and then nothing is imported. The same file again changes nothing.

Examples:
  baton threads import state.csv
  baton threads import state.csv --thread old && baton ask \"What did we discuss?\" --flow chat --thread old";

/// Messages and runs shown of one thread.
const SHOWN_MAX: usize = 1_000;

impl Threads {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        wiring::block_on(async {
            // Import is the only command that may create the database.
            if let Threads::Import { file, thread } = self {
                let rows = csv::read(&file)?;
                let name = file.file_stem().map_or_else(|| "imported".into(), |stem| stem.to_string_lossy().into_owned());
                let thread = thread.unwrap_or_else(|| if name == "-" { "imported".to_owned() } else { name.clone() });
                let engine = wiring::idle_engine_over(globals.open_or_make().await?, globals)?;
                return csv::import(&engine, &rows, &ThreadId::from(thread), format!("imported from {name}")).await;
            }
            let store = globals.open().await?;
            match self {
                Threads::Import { .. } => unreachable!("it was dealt with above"),
                Threads::Export { thread, to } => csv::export(&*store, &named(&*store, &thread).await?, to.as_deref()).await,
                Threads::List { limit, json } => list(&*store, limit, json).await,
                Threads::Show { thread, json } => show(&*store, &named(&*store, &thread).await?, json).await,
                Threads::Rename { thread, title } => sharing::rename(&*store, &named(&*store, &thread).await?, title).await,
                Threads::Share { thread, server } => sharing::share(globals, &*store, &named(&*store, &thread).await?, &server).await,
                Threads::Shares { thread } => sharing::list(&*store, &named(&*store, &thread).await?).await,
                Threads::Unshare { thread, id } => sharing::revoke(globals, &*store, &named(&*store, &thread).await?, id.as_deref()).await,
                Threads::Delete { thread } => {
                    let thread = named(&*store, &thread).await?;
                    let user = store.thread(&thread).await?.and_then(|row| row.user).unwrap_or_default();
                    let gone = store.delete_thread(&thread, now_ms()).await?;
                    conversation::forget(&*store, &user, &thread).await?;
                    freed(globals, &gone)
                }
                Threads::Prune { keep, days } => {
                    const DAY_MS: i64 = 86_400_000;
                    let retention = match (keep, days) {
                        (Some(keep), _) => Retention::KeepLast(keep),
                        (None, Some(days)) => Retention::KeepSince { ms: now_ms() - i64::from(days) * DAY_MS },
                        (None, None) => return Err(ServiceError::Usage("use --keep N or --days D".into())),
                    };
                    freed(globals, &store.retain(retention, now_ms()).await?)
                }
            }
        })
    }
}

/// By its name, or by any of its runs: people see runs more often than threads.
async fn named(store: &dyn Store, typed: &str) -> Result<ThreadId> {
    let thread = ThreadId::from(typed);
    if store.thread(&thread).await?.is_some() {
        return Ok(thread);
    }
    match find::run(store, typed).await {
        Ok(row) => Ok(row.thread),
        Err(ServiceError::Usage(_)) => Err(StoreError::NoThread { thread }.into()),
        Err(trouble) => Err(trouble),
    }
}

async fn list(store: &dyn Store, limit: usize, as_json: bool) -> Result<Exit> {
    let rows = store.threads(None, limit).await?;
    let mut out = anstream::stdout().lock();
    if as_json {
        for row in rows {
            writeln!(out, "{}", serde_json::to_string(&row)?)?;
        }
        return Ok(Exit::Well);
    }
    let mut table = Table::new(&["thread", "used", "messages", "title"]);
    for mut row in rows {
        if let Some(title) = conversation::details::of(store, &row).await?.title {
            row.title = title;
        }
        let cells = [row.thread.to_string(), age(row.updated_ms, now_ms()), row.messages.to_string(), one_line(&row.title, 60)];
        table.row(cells.map(|cell| (anstyle::Style::new(), cell)));
    }
    table.write(&mut out)?;
    Ok(Exit::Well)
}

async fn show(store: &dyn Store, thread: &ThreadId, as_json: bool) -> Result<Exit> {
    let row = store.thread(thread).await?.ok_or_else(|| StoreError::NoThread { thread: thread.clone() })?;
    let messages = store.messages(thread, 0, SHOWN_MAX).await?;
    let runs = store.runs(RunFilter { thread: Some(thread.clone()), limit: SHOWN_MAX, ..RunFilter::default() }).await?;
    let mut out = anstream::stdout().lock();
    if as_json {
        writeln!(out, "{}", json!({ "thread": row, "messages": messages, "runs": runs }))?;
        return Ok(Exit::Well);
    }
    writeln!(out, "{} {}", paint(BOLD, &row.thread), paint(DIM, one_line(&row.title, 80)))?;
    for message in messages {
        writeln!(
            out,
            "\n{} {}\n{}",
            paint(BOLD, &message.role),
            paint(DIM, format!("run {}", tail(&message.run))),
            evidence::visible(message.content.trim_end())
        )?;
    }
    writeln!(out)?;
    for run in runs.iter().rev() {
        let status = paint(crate::style::status(run.status), run.status.as_str());
        writeln!(out, "run {}  {status}  {}  {}", tail(&run.run), run.flow, one_line(&run.title, 60))?;
    }
    Ok(Exit::Well)
}

/// Removes the files of deleted threads, and prints what was deleted.
fn freed(globals: &GlobalArgs, freed: &DeletionReport) -> Result<Exit> {
    thread_files::remove(globals, &freed.deleted)?;
    for thread in &freed.deleted {
        audited::record(globals, EventKind::ThreadDeleted, |event| event.thread(thread.as_str()))?;
    }
    writeln!(anstream::stdout(), "deleted {} threads with {} runs; {} freed", freed.threads, freed.runs, bytes(freed.bytes))?;
    Ok(Exit::Well)
}

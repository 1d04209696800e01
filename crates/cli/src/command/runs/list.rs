use std::collections::BTreeSet;
use std::io::Write as _;

use anstyle::Style;
use graph::RunId;
use service::global_args::GlobalArgs;
use service::wiring;
use store::{RunFilter, RunRow, Status, Store};
use terminal::remark;
use terminal::{BOLD, DIM, Table, YELLOW, age, now_ms, one_line, tail};

use crate::exit::{Exit, Result};

pub(super) const INTERRUPTED: &str = "interrupted";

/// List runs, newest first
#[derive(clap::Args)]
pub(crate) struct List {
    /// Only these statuses: running, asking, waiting, done, failed or cancelled; several separated by commas
    #[arg(long, value_delimiter = ',', value_parser = parse_status)]
    status: Vec<Status>,
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl List {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        wiring::block_on(async {
            let store = globals.open().await?;
            // One more than requested, to detect whether there are more.
            let filter = RunFilter { statuses: self.status, limit: self.limit.saturating_add(1), ..RunFilter::default() };
            let mut rows = store.runs(filter).await?;
            let has_more = rows.len() > self.limit;
            rows.truncate(self.limit);
            let mut out = anstream::stdout().lock();
            let interrupted = interrupted(&*store, &rows).await?;
            if self.json {
                for row in rows {
                    let mut object = serde_json::to_value(&row)?;
                    object[INTERRUPTED] = interrupted.contains(&row.run).into();
                    writeln!(out, "{object}")?;
                }
                return Ok(Exit::Well);
            }
            if rows.is_empty() {
                remark("no such runs; `baton ask \"…\"` starts one");
                return Ok(Exit::Well);
            }
            let mut table = Table::new(&["run", "status", "flow", "age", "title"]);
            for row in rows {
                let title = match row.parent {
                    Some(parent) => format!("{} (for {})", one_line(&row.title, 50), tail(&parent)),
                    None => one_line(&row.title, 70),
                };
                table.row([
                    (BOLD, tail(&row.run).to_owned()),
                    match interrupted.contains(&row.run) {
                        true => (YELLOW, INTERRUPTED.to_owned()),
                        false => (crate::style::status(row.status), row.status.as_str().to_owned()),
                    },
                    (Style::new(), row.flow),
                    (DIM, age(row.created_ms, now_ms())),
                    (Style::new(), title),
                ]);
            }
            table.write(&mut out)?;
            if has_more {
                remark(&format!("the newest {}; --limit shows more", self.limit));
            }
            Ok(Exit::Well)
        })
    }
}

/// Unfinished runs that no process drives: it was stopped or has crashed.
pub(super) async fn interrupted(store: &dyn Store, rows: &[RunRow]) -> Result<BTreeSet<RunId>> {
    let mut found = BTreeSet::new();
    for row in rows.iter().filter(|row| row.status == Status::Running) {
        if !store.is_held(&row.thread, now_ms()).await? {
            found.insert(row.run.clone());
        }
    }
    Ok(found)
}

fn parse_status(text: &str) -> std::result::Result<Status, String> {
    Status::parse(text).ok_or_else(|| {
        let known: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
        format!("there are: {}", known.join(", "))
    })
}

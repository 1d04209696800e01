//! Finds a run by any part of its id that is unique.

use graph::RunId;
use store::{RunFilter, RunRow, Store};
use terminal::{age, now_ms, one_line, short};

use crate::exit::{Result, ServiceError};

/// Maximum number of candidates listed.
const LISTED_MAX: usize = 8;

pub(crate) async fn run(store: &dyn Store, typed: &str) -> Result<RunRow> {
    let typed = typed.trim().to_ascii_lowercase();
    if typed.is_empty() {
        return Err(ServiceError::Usage("which run? `baton runs list` shows them".into()));
    }
    if let Some(row) = store.run(&RunId::from(typed.as_str())).await? {
        return Ok(row);
    }
    let filter = RunFilter { id_part: Some(typed.clone()), limit: LISTED_MAX + 1, ..RunFilter::default() };
    let mut found = store.runs(filter).await?;
    // Lists show the end of an id, so the end is matched first.
    let mut ending: Vec<usize> = (0..found.len()).filter(|&at| found[at].run.as_str().ends_with(&typed)).collect();
    match (found.len(), ending.len()) {
        (0, _) => Err(unknown(store, &typed).await?),
        (1, _) => Ok(found.remove(0)),
        (_, 1) => Ok(found.remove(ending.remove(0))),
        (_, _) => Err(ServiceError::Usage(format!("{typed:?} fits several runs; type more of the one you mean:\n{}", listed(&found)))),
    }
}

async fn unknown(store: &dyn Store, typed: &str) -> Result<ServiceError> {
    let newest = store.runs(RunFilter { limit: 3, ..RunFilter::default() }).await?;
    let words = match newest.is_empty() {
        true => "there are no runs yet; `baton ask \"…\"` starts one".to_owned(),
        false => format!("the newest are:\n{}\n`baton runs list` shows more", listed(&newest)),
    };
    Ok(ServiceError::Usage(format!("no run's id contains {typed:?}; {words}")))
}

fn listed(rows: &[RunRow]) -> String {
    let now = now_ms();
    let mut lines: Vec<String> = rows
        .iter()
        .take(LISTED_MAX)
        .map(|row| {
            let (head, tail) = short(&row.run);
            format!("  {head}{tail}  {:<9} {:>8}  {}", row.status.as_str(), age(row.created_ms, now), one_line(&row.title, 50))
        })
        .collect();
    if rows.len() > LISTED_MAX {
        lines.push("  …".into());
    }
    lines.join("\n")
}

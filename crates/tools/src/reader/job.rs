//! Jobs of a reader process and their results. Both are JSON in a frame; a job's frame is followed by one with the document's bytes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use index::{Document, ReadLimits, Skipped};
use serde::{Deserialize, Serialize};

use crate::fetch::page::{self, Fetched, Page};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Job {
    /// A file for the index.
    Document { name: String, bytes_max: u64, milliseconds_max: u64 },
    /// A body fetched by `fetch`.
    Page(Fetched),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JobResult {
    Document(Result<Document, Skipped>),
    Page(Result<Page, String>),
}

/// Runs on the calling thread, which must be in a confined process.
pub(super) fn perform(job: Job, bytes: &[u8]) -> JobResult {
    match job {
        Job::Document { name, bytes_max, milliseconds_max } => {
            let limits = ReadLimits { bytes_max, time_max: Duration::from_millis(milliseconds_max) };
            JobResult::Document(index::read_document(Path::new(&name), bytes, limits))
        }
        Job::Page(fetched) => {
            let read = catch_unwind(AssertUnwindSafe(|| page::parse(&fetched, bytes)));
            JobResult::Page(read.unwrap_or_else(|_| Err(format!("{} could not be parsed; try another source", fetched.address))))
        }
    }
}

//! The process that `tests/kill.rs` kills: `victim FOLDER LIFE FIRST TARGET` resumes unfinished runs of the database, and runs the errands
//! numbered `FIRST..TARGET`. It exits with 0 when all of them have ended.

use std::path::PathBuf;
use std::sync::Arc;

use baton_lab::kill::errand::{self, FileHandler};
use baton_lab::kill::traces::Traces;
use baton_lab::kill::victim::{Result, VictimSetup, live};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, life, first, target] = words.as_slice() else { return Err("usage: victim FOLDER LIFE FIRST TARGET".into()) };
    let folder = PathBuf::from(folder);
    let traces = || Traces::open(&folder, life.parse().unwrap_or_default());
    let handler = Arc::new(FileHandler { traces: Arc::new(traces()?) });
    let life = VictimSetup { traces: traces()?, order: errand::order, person: Box::new(errand::person) };
    live(&folder, handler, errand::flows(), first.parse()?..target.parse()?, life).await
}

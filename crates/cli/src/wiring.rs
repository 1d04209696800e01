//! Puts the concrete parts together: this store, this world, these flows make this engine.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, Flows, Settings};
use store::SqliteStore;

use crate::exit::{Result, Trouble};
use crate::owner;
use crate::place::Place;
use crate::sample::SampleWorld;

/// An engine over the database, which is made if there is none. Called inside a runtime: an engine has work on the side.
pub(crate) fn new_engine(place: &Place) -> Result<Engine> {
    engine(place, place.open_or_make()?)
}

/// An engine over a database that is there.
pub(crate) fn engine_there(place: &Place) -> Result<Engine> {
    engine(place, place.open()?)
}

pub(crate) fn flows() -> Result<Flows> {
    let all = flows::all().map_err(|error| Trouble::Failed(format!("a built-in flow is wrong: {error}")))?;
    Ok(all.into_iter().map(|graph| (graph.name().to_owned(), graph)).collect())
}

/// Most commands drive one run or none, and one thread starts fastest.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    run_on(tokio::runtime::Builder::new_current_thread(), work)
}

/// For commands that drive many runs.
pub(crate) fn block_on_all_cores<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    run_on(tokio::runtime::Builder::new_multi_thread(), work)
}

/// Said by commands that let a flow think, so that nobody takes the samples for answers.
pub(crate) fn say_sample(place: &Place) {
    if place.script.is_none() {
        let dim = anstyle::Style::new().dimmed();
        // A remark that cannot be printed is not missed.
        let _ = writeln!(anstream::stderr(), "{dim}sample world: no model is connected yet{dim:#}");
    }
}

const LEAVING: Duration = Duration::from_millis(100);

fn engine(place: &Place, store: SqliteStore) -> Result<Engine> {
    let script = match &place.script {
        Some(path) => {
            std::fs::read_to_string(path).map_err(|error| Trouble::Usage(format!("the script {} cannot be read: {error}", path.display())))?
        }
        None => ::flows::SCRIPT.to_owned(),
    };
    let world = SampleWorld::new(&script, &place.path()?).map_err(|error| Trouble::Usage(format!("the script is wrong: {error}")))?;
    let settings = Settings { owner: owner::this(), is_gone: Arc::new(owner::is_gone), ..Settings::default() };
    Ok(Engine::new(Arc::new(store), Arc::new(world), flows()?.into_values(), settings))
}

fn run_on<T>(mut runtime: tokio::runtime::Builder, work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = runtime.enable_all().build().map_err(|error| Trouble::Failed(format!("no runtime: {error}")))?;
    let end = runtime.block_on(work);
    // Runs that just ended still hold the store, which wants to be closed well; but a thread may be waiting for a line on stdin
    // that nobody will type.
    runtime.shutdown_timeout(LEAVING);
    end
}

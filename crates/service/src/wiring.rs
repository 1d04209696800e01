//! Builds engines from a store, effect handlers and flows.

use std::sync::Arc;
use std::time::Duration;

use ::flows::input::ModelProfile;
use effects::World;
use effects::rooms::Rooms;
use engine::{Engine, Flows, Settings};
use models::choice::Choice;
use server::limits::count;
use store::{SqliteStore, Store};

use crate::config::Config;
use crate::error::{Result, Trouble};
use crate::mind::{House, Thinking};
use crate::notices;
use crate::owner;
use crate::place::Place;
use crate::sample::SampleWorld;
use crate::{audited, thread_files};

/// An engine over the database, which is created if there is none. Must be called inside a runtime, because an engine spawns background tasks. Reports
/// the chosen model unless `is_quiet`.
pub async fn new_engine(place: &Place, thinking: &Thinking, is_quiet: bool) -> Result<(Engine, ModelProfile)> {
    let house = house(place, thinking, is_quiet).await?;
    let models = RunModels::recorded(house.choice.as_ref());
    Ok((engine_in(house.world, Arc::new(place.open_or_make()?), place, models)?, house.mind))
}

/// An engine over a store that is open already, for commands that continue runs. A model named by `--model` replaces the one a run was started with.
pub async fn engine_over(store: Arc<dyn Store>, place: &Place, thinking: &Thinking, is_quiet: bool) -> Result<(Engine, ModelProfile)> {
    let house = house(place, thinking, is_quiet).await?;
    let models = RunModels::recorded(house.choice.as_ref());
    let replacing = thinking.model.as_ref().and(models.default.clone());
    Ok((engine_in(house.world, store, place, RunModels { replacing, ..models })?, house.mind))
}

/// An engine with prepared handlers.
pub fn engine_in(world: Arc<dyn World>, store: Arc<dyn Store>, place: &Place, models: RunModels) -> Result<Engine> {
    engine(place, store, world, &memory(place)?, models)
}

/// The models an engine's runs are performed with.
#[derive(Default)]
pub struct RunModels {
    /// Recorded in runs that are started without a model.
    default: Option<String>,
    /// Used in place of what is recorded.
    replacing: Option<String>,
}

impl RunModels {
    /// Every run keeps the model it was started with; new ones get the chosen one.
    pub fn recorded(choice: Option<&Choice>) -> RunModels {
        RunModels { default: choice.map(|choice| choice.model.to_string()), replacing: None }
    }
}

/// An engine for commands that read runs or send them messages, and perform no effects.
pub fn idle_engine(place: &Place) -> Result<Engine> {
    idle_engine_over(Arc::new(place.open()?), place)
}

/// The same over an open store. Runs that end here perform no effects and leave no notes.
pub fn idle_engine_over(store: Arc<SqliteStore>, place: &Place) -> Result<Engine> {
    engine(
        place,
        store,
        Arc::new(Rooms::default()),
        &Kept { notes_ms: 0, threads_ms: 0, runs_max: Settings::default().runs_max },
        RunModels::default(),
    )
}

/// The graphs of this program's flows, by name.
pub fn flows(place: &Place) -> Result<Flows> {
    let all = place.flows.graphs().map_err(|error| Trouble::Failed(format!("a flow cannot be used: {error}")))?;
    Ok(all.into_iter().map(|graph| (graph.name().to_owned(), graph)).collect())
}

/// Most commands drive one run or none, and one thread starts fastest.
pub fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    run_on(tokio::runtime::Builder::new_current_thread(), work)
}

/// For commands that drive many runs.
pub fn block_on_all_cores<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    run_on(tokio::runtime::Builder::new_multi_thread(), work)
}

const LEAVING: Duration = Duration::from_millis(100);

/// The handlers of the script if there is one, otherwise real models and tools.
pub async fn house(place: &Place, thinking: &Thinking, is_quiet: bool) -> Result<House> {
    let Some(path) = &place.script else {
        return thinking.house(place, &Config::read(place)?, is_quiet).await;
    };
    let script = match path.to_str() {
        Some("sample") => ::flows::SCRIPT.to_owned(),
        _ => std::fs::read_to_string(path).map_err(|error| Trouble::Usage(format!("the script {} cannot be read: {error}", path.display())))?,
    };
    if !is_quiet {
        notices::detail("a script plays the world");
    }
    let world = SampleWorld::new(&script, &place.path()?).map_err(|error| Trouble::Usage(format!("the script is wrong: {error}")))?;
    Ok(House { world: Arc::new(world), mind: ModelProfile::default(), tools: None, choice: None })
}

/// What the configuration sets for an engine.
struct Kept {
    notes_ms: i64,
    threads_ms: i64,
    /// Runs at the same time.
    runs_max: usize,
}

/// With a script, the configuration is read only if it was named.
fn memory(place: &Place) -> Result<Kept> {
    let config = if place.script.is_some() && place.config.is_none() { Config::default() } else { Config::read(place)? };
    Ok(Kept { notes_ms: config.memory.notes_ms(), threads_ms: config.memory.threads_ms(), runs_max: count(config.server.runs_total_max) })
}

fn engine(place: &Place, store: Arc<dyn Store>, world: Arc<dyn World>, kept: &Kept, models: RunModels) -> Result<Engine> {
    let recorder = audited::recorder(place)?;
    let world = audited::Audited::new(world, recorder.clone());
    let settings = Settings {
        on_answer: Some(audited::on_answer(recorder)),
        on_expired: Some(thread_files::on_expired(place)?),
        owner: owner::this(),
        is_gone: Arc::new(owner::is_gone),
        notes_ms: kept.notes_ms,
        threads_ms: kept.threads_ms,
        runs_max: kept.runs_max,
        default_model: models.default,
        model_override: models.replacing,
        ..Settings::default()
    };
    Ok(Engine::new(store, world, flows(place)?.into_values(), settings))
}

fn run_on<T>(mut runtime: tokio::runtime::Builder, work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = runtime.enable_all().build().map_err(|error| Trouble::Failed(format!("no runtime: {error}")))?;
    let end = runtime.block_on(work);
    // Runs that just ended still hold the store, which wants to be closed well; but a thread may be waiting for a line on stdin
    // that nobody will type.
    runtime.shutdown_timeout(LEAVING);
    end
}

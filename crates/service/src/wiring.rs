//! Builds engines from a store, effect handlers and flows.

use std::sync::Arc;
use std::time::Duration;

use ::flows::input::ModelProfile;
use effects::EffectHandler;
use effects::handlers::EffectHandlers;
use engine::{Dispatcher, Engine, Flows, RemoteEffects, Settings};
use models::choice::Choice;
use server::limits::count;
use store::Store;

use crate::config::Config;
use crate::error::{Result, ServiceError};
use crate::global_args::GlobalArgs;
use crate::model_options::{EffectSetup, ModelOptions};
use crate::notices;
use crate::owner;
use crate::sample::SampleHandler;
use crate::{audited, thread_files};

/// An engine over the database, which is created if there is none. Must be called inside a runtime, because an engine spawns background tasks. Reports
/// the chosen model unless `is_quiet`.
pub async fn new_engine(globals: &GlobalArgs, model_options: &ModelOptions, is_quiet: bool) -> Result<(Engine, ModelProfile)> {
    // Models and tools need a store that is shared. A file is made only when nothing else is wrong.
    let shared = match globals.shared()? {
        Some(_) => Some(globals.open_or_make().await?),
        None => None,
    };
    let setup = prepare_effects(globals, model_options, shared.as_ref(), is_quiet).await?;
    let models = RunModels::recorded(setup.choice.as_ref());
    let store = match shared {
        Some(store) => store,
        None => globals.open_or_make().await?,
    };
    Ok((engine_in(setup.handler, store, globals, models)?, setup.profile))
}

/// An engine over a store that is open already, for commands that continue runs. A model named by `--model` replaces the one a run was started with.
pub async fn engine_over(
    store: Arc<dyn Store>,
    globals: &GlobalArgs,
    model_options: &ModelOptions,
    is_quiet: bool,
) -> Result<(Engine, ModelProfile)> {
    let setup = prepare_effects(globals, model_options, Some(&store), is_quiet).await?;
    let models = RunModels::recorded(setup.choice.as_ref());
    let replacing = model_options.model.as_ref().and(models.default.clone());
    Ok((engine_in(setup.handler, store, globals, RunModels { replacing, ..models })?, setup.profile))
}

/// An engine with prepared handlers.
pub fn engine_in(handler: Arc<dyn EffectHandler>, store: Arc<dyn Store>, globals: &GlobalArgs, models: RunModels) -> Result<Engine> {
    engine_as(EngineRole::Embedded, handler, store, globals, models)
}

/// The same in another role.
pub fn engine_as(
    role: EngineRole,
    handler: Arc<dyn EffectHandler>,
    store: Arc<dyn Store>,
    globals: &GlobalArgs,
    models: RunModels,
) -> Result<Engine> {
    engine(globals, store, handler, &memory(globals)?, models, role)
}

/// What an engine does itself.
#[derive(Clone, Default)]
pub enum EngineRole {
    /// Everything.
    #[default]
    Embedded,
    /// It writes the beginning of runs, which other processes drive.
    Submits(Arc<dyn Dispatcher>),
    /// It drives runs for other processes, and its effects are performed outside of it.
    Works(Arc<dyn RemoteEffects>),
}

/// The models of an engine's runs.
#[derive(Default)]
pub struct RunModels {
    /// Recorded in runs that are started without a model.
    default: Option<String>,
    /// Used instead of the recorded one.
    replacing: Option<String>,
}

impl RunModels {
    /// Every run keeps the model it was started with; new ones get the chosen one.
    pub fn recorded(choice: Option<&Choice>) -> RunModels {
        RunModels { default: choice.map(|choice| choice.model.to_string()), replacing: None }
    }
}

/// An engine for commands that read runs or send them messages, and perform no effects.
pub async fn idle_engine(globals: &GlobalArgs) -> Result<Engine> {
    idle_engine_over(globals.open().await?, globals)
}

/// The same over an open store. Runs that end here perform no effects and leave no notes.
pub fn idle_engine_over(store: Arc<dyn Store>, globals: &GlobalArgs) -> Result<Engine> {
    engine(
        globals,
        store,
        Arc::new(EffectHandlers::default()),
        &EngineLimits { notes_ms: 0, threads_ms: 0, runs_max: Settings::default().runs_max, takeovers_max: Settings::default().takeovers_max },
        RunModels::default(),
        EngineRole::Embedded,
    )
}

/// The graphs of this program's flows, by name.
pub fn flows(globals: &GlobalArgs) -> Result<Flows> {
    let all = globals.flows.graphs().map_err(|error| ServiceError::Failed(format!("a flow cannot be used: {error}")))?;
    Ok(all.into_iter().map(|graph| (graph.name().to_owned(), graph)).collect())
}

/// Most commands drive at most one run, and a single thread starts fastest.
pub fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    run_on(tokio::runtime::Builder::new_current_thread(), work)
}

/// For commands that drive many runs.
pub fn block_on_all_cores<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    run_on(tokio::runtime::Builder::new_multi_thread(), work)
}

const LEAVING: Duration = Duration::from_millis(100);

/// The handlers of the script if there is one, otherwise real models and tools. What several servers share is in `store`.
pub async fn prepare_effects(
    globals: &GlobalArgs,
    model_options: &ModelOptions,
    store: Option<&Arc<dyn Store>>,
    is_quiet: bool,
) -> Result<EffectSetup> {
    let Some(path) = &globals.script else {
        return model_options.prepare(globals, &Config::read(globals)?, store, is_quiet).await;
    };
    let script = match path.to_str() {
        Some("sample") => ::flows::SCRIPT.to_owned(),
        _ => std::fs::read_to_string(path).map_err(|error| ServiceError::Usage(format!("the script {} cannot be read: {error}", path.display())))?,
    };
    if !is_quiet {
        notices::detail("a script replaces models and tools");
    }
    let handler = SampleHandler::new(&script, &globals.path()?).map_err(|error| ServiceError::Usage(format!("the script is wrong: {error}")))?;
    Ok(EffectSetup { handler: Arc::new(handler), profile: ModelProfile::default(), tools: None, models: None, choice: None })
}

/// Engine settings from the configuration.
struct EngineLimits {
    notes_ms: i64,
    threads_ms: i64,
    /// Runs at the same time.
    runs_max: usize,
    takeovers_max: u32,
}

/// With a script, the configuration is read only if it was named.
fn memory(globals: &GlobalArgs) -> Result<EngineLimits> {
    let config = if globals.script.is_some() && globals.config.is_none() { Config::default() } else { Config::read(globals)? };
    Ok(EngineLimits {
        notes_ms: config.memory.notes_ms(),
        threads_ms: config.memory.threads_ms(),
        runs_max: count(config.server.limits.runs_total_max),
        takeovers_max: u32::try_from(config.server.limits.takeovers_max).unwrap_or(u32::MAX),
    })
}

fn engine(
    globals: &GlobalArgs,
    store: Arc<dyn Store>,
    handler: Arc<dyn EffectHandler>,
    kept: &EngineLimits,
    models: RunModels,
    role: EngineRole,
) -> Result<Engine> {
    // Several machines need one clock, and a stopped server is detected by its lease alone.
    let (clock, lease_ms, sweep_ms) = match store.clock() {
        Some(clock) => (clock, SHARED_LEASE_MS, SHARED_SWEEP_MS),
        None => (Settings::default().clock, Settings::default().lease_ms, Settings::default().sweep_ms),
    };
    let recorder = audited::recorder(globals)?;
    let handler = audited::AuditedHandler::new(handler, recorder.clone());
    let settings = Settings {
        on_answer: Some(audited::on_answer(recorder)),
        on_expired: Some(thread_files::on_expired(globals)?),
        owner: owner::this(),
        clock,
        lease_ms,
        sweep_ms,
        is_gone: Arc::new(owner::is_gone),
        notes_ms: kept.notes_ms,
        threads_ms: kept.threads_ms,
        runs_max: kept.runs_max,
        takeovers_max: kept.takeovers_max,
        default_model: models.default,
        model_override: models.replacing,
        ..Settings::default()
    };
    let settings = match role {
        EngineRole::Embedded => settings,
        EngineRole::Submits(dispatcher) => {
            let owner = format!("{RESTATE_OWNER}{}", settings.owner);
            Settings { owner, is_gone: Arc::new(|_| false), dispatcher: Some(dispatcher), ..settings }
        }
        // The dispatcher gives a thread to one worker at a time: an earlier holder has lost it.
        EngineRole::Works(remote) => {
            let owner = format!("{RESTATE_OWNER}{}", settings.owner);
            Settings { owner, is_gone: Arc::new(|owner: &str| owner.starts_with(RESTATE_OWNER)), remote: Some(remote), ..settings }
        }
    };
    Ok(Engine::new(store, handler, flows(globals)?.into_values(), settings))
}

/// The names of processes in whose threads another worker may go on.
const RESTATE_OWNER: &str = "restate:";
/// On a store of several servers: one that stopped is replaced after three and a half seconds at most.
const SHARED_LEASE_MS: i64 = 3_000;
const SHARED_SWEEP_MS: i64 = 500;

fn run_on<T>(mut runtime: tokio::runtime::Builder, work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = runtime.enable_all().build().map_err(|error| ServiceError::Failed(format!("no runtime: {error}")))?;
    let end = runtime.block_on(work);
    // Runs that just ended still hold the store, which should be closed properly; but a thread may be blocked on stdin.
    runtime.shutdown_timeout(LEAVING);
    end
}

//! Runs on a Restate server: submitting them, and working for it.

use std::net::SocketAddr;

use crate::error::{Result, ServiceError};
use crate::global_args::GlobalArgs;
use crate::model_options::ModelOptions;
use crate::wiring::EngineRole;

/// The variable of the environment that holds the bearer token of the Restate server, if it wants one.
pub const TOKEN: &str = "BATON_RESTATE_TOKEN";

/// Which engine drives the runs of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum EngineKind {
    /// This process, over its store.
    #[default]
    Embedded,
    /// Workers of a Restate server.
    Restate,
}

/// How a worker is reached, and by whom.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// The admin API of the Restate server.
    pub admin: String,
    /// Where to listen.
    pub listen: SocketAddr,
    /// The address that the Restate server calls; the one that is listened on otherwise.
    pub advertised: Option<String>,
    /// Public keys of the Restate server.
    pub identity_keys: Vec<String>,
    /// Registers again, although the Restate server has a worker with other handlers at this address.
    pub is_forced: bool,
}

#[cfg(feature = "restate")]
mod with {
    use std::sync::Arc;
    use std::time::Duration;

    use engine_restate::{Calls, Client, Worker, WorkerSettings};
    use tokio::sync::watch;

    use super::*;
    use crate::config;
    use crate::performing::Performing;
    use crate::service::GRACE;
    use crate::wiring::{self, RunModels};

    const REGISTER_PAUSE: Duration = Duration::from_secs(2);

    fn client(address: &str) -> Result<Client> {
        Client::new(address, config::env(TOKEN)).map_err(|error| ServiceError::Usage(error.to_string()))
    }

    /// The role of a server whose runs are driven by the workers of the Restate server with this ingress.
    pub fn submits_to(ingress: &str) -> Result<EngineRole> {
        Ok(EngineRole::Submits(Arc::new(client(ingress)?)))
    }

    /// Works for a Restate server until `stop` is ready. `ready` gets its address, once it is registered at the Restate server.
    pub async fn work(
        globals: &GlobalArgs,
        model_options: &mut ModelOptions,
        options: WorkerOptions,
        is_quiet: bool,
        ready: impl FnOnce(SocketAddr, &str),
        stop: impl Future<Output = ()>,
    ) -> Result<()> {
        let admin = client(&options.admin)?;
        let store = globals.open_or_make().await?;
        // The library updates uploads and the index until it is dropped.
        let Performing { setup, handler, library: _library, .. } = Performing::prepare(globals, model_options, &store, is_quiet).await?;
        let calls = Calls::default();
        let models = RunModels::recorded(setup.choice.as_ref());
        let clock = store.clock().unwrap_or_else(|| engine::Settings::default().clock);
        let engine = wiring::engine_as(EngineRole::Works(Arc::new(calls.clone())), handler, store, globals, models)?;
        let settings = WorkerSettings { identity_keys: options.identity_keys };
        let worker = Worker::bind(options.listen, engine.clone(), calls, clock, &settings).map_err(ServiceError::Usage)?;
        let address = worker.address().map_err(|error| ServiceError::Failed(format!("the address of the worker is not known: {error}")))?;
        let advertised = options.advertised.unwrap_or_else(|| format!("http://{address}"));
        let (stopping, stopped) = watch::channel(false);
        let serving = tokio::spawn(worker.serve(stopped));
        let mut stop = std::pin::pin!(stop);
        let registered = tokio::select! {
            registered = register(&admin, &advertised, options.is_forced) => registered.map(|()| true),
            () = &mut stop => Ok(false),
        };
        if let Ok(true) = registered {
            ready(address, &advertised);
            stop.await;
        }
        // What is in progress ends here or goes on in another worker.
        engine.stop(GRACE).await;
        drop(stopping);
        // It ends because of `stop`.
        let _ = serving.await;
        if let Some(tools) = setup.tools {
            tools.close().await;
        }
        registered.map(drop)
    }

    /// Waits for a Restate server that is not there yet.
    async fn register(admin: &Client, worker: &str, is_forced: bool) -> Result<()> {
        loop {
            match admin.register(worker, is_forced).await {
                Ok(_) => return Ok(()),
                Err(error @ engine_restate::ClientError::Unreachable { .. }) => {
                    tracing::warn!("{error}; trying again");
                    tokio::time::sleep(REGISTER_PAUSE).await;
                }
                Err(error) => return Err(ServiceError::Failed(format!("{error}; is {} the admin API, usually port 9070?", admin.address()))),
            }
        }
    }
}

#[cfg(not(feature = "restate"))]
mod without {
    use super::*;

    fn missing<T>() -> Result<T> {
        Err(ServiceError::Usage("this baton was built without the feature restate".into()))
    }

    /// Not in this build.
    pub fn submits_to(_ingress: &str) -> Result<EngineRole> {
        missing()
    }

    /// Not in this build.
    pub async fn work(
        _globals: &GlobalArgs,
        _model_options: &mut ModelOptions,
        _options: WorkerOptions,
        _is_quiet: bool,
        _ready: impl FnOnce(SocketAddr, &str),
        _stop: impl Future<Output = ()>,
    ) -> Result<()> {
        missing()
    }
}

#[cfg(feature = "restate")]
pub use with::{submits_to, work};
#[cfg(not(feature = "restate"))]
pub use without::{submits_to, work};

//! The whole service: engine, API, page, tool registry and LangServe's routes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use mcp_hub::Tools;
use server::api::Api;
use server::guard::Guard;
use server::langserve;
use server::limits::Limits;
use server::metrics::Metrics;
use server::page::Page;
use server::quota::Quota;
use server::registry::Registry;
use server::tls::Tls;
use server::{Router, listen, mcp_flows, service};
use store::Store;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use crate::audited;
use crate::backend::ServiceBackend;
use crate::error::{Result, ServiceError};
use crate::global_args::GlobalArgs;
use crate::hub;
use crate::langserve_flows;
use crate::model_options::ModelOptions;
use crate::performing::Performing;
use crate::selected_model::SelectedModel;
use crate::wiring::{self, EngineRole, RunModels};

/// Time for effects in flight when the service is stopped.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// A service that is built and not yet listening.
pub struct Service {
    engine: Engine,
    api: Api,
    router: Router,
    tools: Option<Tools>,
    limits: Limits,
}

impl Service {
    /// Builds the engine over this store with the models and tools chosen by the options and the configuration. With `is_quiet`, no notices
    /// are given.
    pub async fn build(
        globals: &GlobalArgs,
        model_options: &mut ModelOptions,
        guard: Guard,
        store: Arc<dyn Store>,
        is_quiet: bool,
    ) -> Result<Service> {
        Service::build_as(EngineRole::Embedded, globals, model_options, guard, store, is_quiet).await
    }

    /// The same with an engine in another role.
    pub async fn build_as(
        role: EngineRole,
        globals: &GlobalArgs,
        model_options: &mut ModelOptions,
        guard: Guard,
        store: Arc<dyn Store>,
        is_quiet: bool,
    ) -> Result<Service> {
        let Performing { config, library, setup, handler, allowances } = Performing::prepare(globals, model_options, &store, is_quiet).await?;
        let limits = config.server.limits;
        guard.limit_by(allowances.clone());
        guard.record_to(audited::recorder(globals)?);
        let engine = wiring::engine_as(role, handler, store, globals, RunModels::recorded(setup.choice.as_ref()))?;
        let default_flow = globals.flows.default_flow().map(|flow| flow.name).unwrap_or_default();
        // Whether there are documents depends on the run's user, and the backend reports that.
        let flows = langserve::Service::new(engine.clone(), langserve_flows::all(default_flow, setup.profile, &config, false), None);
        let selected = SelectedModel::new(&setup, engine.clone(), allowances);
        let backend = ServiceBackend::new(globals, model_options, config, selected, library, setup.tools.clone())?;

        let api = Api::new(engine.clone(), Arc::new(backend), guard, Quota::new(limits), Metrics::new());
        let registry = match &setup.tools {
            Some(tools) => Some(Registry::new(tools.clone(), Some(hub::imported(globals)?)).with_audit(audited::recorder(globals)?)),
            None => None,
        };
        let page = Page::new(std::env::var_os("BATON_WEB").map(PathBuf::from));
        let router = service::router(&api, &page, registry, Some(flows));
        Ok(Service { engine, api, router, tools: setup.tools, limits })
    }

    /// The engine, to start and watch runs without HTTP.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The routes, for nesting in another server.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Resumes unfinished runs and returns their number.
    pub async fn recover(&self) -> Result<usize> {
        Ok(self.engine.recover().await?)
    }

    /// Resumes unfinished runs and serves requests until `stop` is ready; then stops the engine and closes the tool servers.
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()>) -> Result<()> {
        let serving = self.listen(listener);
        self.recover().await?;
        serving.until(stop, self).await
    }

    /// Serves the flows as one MCP server over a stream until that ends, for the account of this process; then stops the engine.
    pub async fn serve_flows(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<()> {
        self.recover().await?;
        let ended = mcp_flows::serve(&self.api, stream).await;
        self.close().await;
        ended.map_err(ServiceError::Failed)
    }

    /// Starts to answer requests.
    pub fn listen(&self, listener: TcpListener) -> RunningService {
        self.listen_with(listener, None)
    }

    /// The same, over TLS if there is a certificate.
    pub fn listen_with(&self, listener: TcpListener, tls: Option<Arc<Tls>>) -> RunningService {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        RunningService { task: tokio::spawn(listen::listen_with(listener, tls, self.router(), self.limits, stopped)), stop }
    }

    /// Stops the engine and closes the tool servers. Unfinished runs are resumed at the next start.
    async fn close(self) {
        self.engine.stop(GRACE).await;
        if let Some(tools) = self.tools {
            tools.close().await;
        }
    }
}

/// A service that answers requests.
pub struct RunningService {
    task: tokio::task::JoinHandle<std::io::Result<()>>,
    stop: tokio::sync::watch::Sender<bool>,
}

impl RunningService {
    /// Serves until `stop` is ready, whose value is returned, or until serving fails; then closes the service.
    pub async fn until<T>(self, stop: impl Future<Output = T>, service: Service) -> Result<T> {
        let end = tokio::select! {
            value = stop => Ok(value),
            ended = self.task => Err(ServiceError::Failed(format!("the server ended: {ended:?}"))),
        };
        // Open streams and requests end here; the runs they watched are resumed at the next start.
        drop(self.stop);
        service.close().await;
        end
    }
}

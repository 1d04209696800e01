use std::io::Write as _;
use std::path::Path;

use mcp_hub::import;
use serde_json::{Value, json};
use server::registry::Registry as Service;
use service::access::Listener;
use service::audited;
use service::config::Config;
use service::global_args::GlobalArgs;
use service::hub::{self, Servers};
use service::wiring;
use terminal::remark;

use crate::exit::{Exit, Result, ServiceError};
use crate::listen_args::ListenArgs;

/// Serve the tools of all servers in one place, over HTTP and as one MCP server
#[derive(clap::Args)]
#[command(after_help = "Examples:
  baton registry --mcp mcp.json
  curl -s localhost:8021/tools
  baton registry --import https://registry.example.org     add what it lists, switched off
  curl -X POST localhost:8021/servers/notes/enable         names the program that this starts, to be confirmed")]
pub(crate) struct Registry {
    #[command(flatten)]
    servers: Servers,
    #[arg(long, default_value_t = 8021)]
    port: u16,
    #[command(flatten)]
    listening: ListenArgs,
    /// Import the servers of an official-style registry, or of a file with its list, and exit; none of them is started
    #[arg(long, value_name = "FILE|URL")]
    import: Option<String>,
}

impl Registry {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        wiring::block_on_all_cores(async {
            let imported = hub::imported(globals)?;
            match &self.import {
                Some(source) => self.import(globals, source, &imported).await,
                None => self.serve(globals, &imported).await,
            }
        })
    }

    async fn import(&self, globals: &GlobalArgs, source: &str, path: &Path) -> Result<Exit> {
        let list: Value = match source.contains("://") {
            true => import::fetch(source).await.map_err(ServiceError::Failed)?,
            false => {
                let bytes = std::fs::read(source).map_err(|error| ServiceError::Usage(format!("{source} cannot be read: {error}")))?;
                serde_json::from_slice(&bytes).map_err(|error| ServiceError::Usage(format!("{source} is no JSON: {error}")))?
            }
        };
        let reserved = self.servers.reserved(globals, &Config::read(globals)?)?;
        let done = import::into_file(&list, path, &|name| reserved.iter().any(|one| one == name)).map_err(ServiceError::Failed)?;
        audited::record(globals, audit::EventKind::ServersImported, |event| event.detail(done.added.join(", ")))?;
        let mut out = anstream::stdout();
        match self.listening.json {
            true => writeln!(out, "{}", serde_json::to_string(&done)?)?,
            false => {
                writeln!(out, "{} servers added to {}, switched off; {} left out", done.added.len(), path.display(), done.skipped.len())?;
                writeln!(out, "`baton tools enable NAME` switches one on; `--variable KEY` lets it have a variable of the environment")?;
            }
        }
        Ok(Exit::Well)
    }

    async fn serve(&self, globals: &GlobalArgs, imported: &Path) -> Result<Exit> {
        if self.servers.names_registry() {
            remark("a registry offers its own servers only; the registry that --registry or BATON_REGISTRY_URL names is not used");
        }
        let config = Config::read(globals)?;
        let tools = self.servers.hub(globals, &config, None, None, None)?;
        let bound = self.listening.bind(None, globals, self.port).await?;
        let url = bound.url();
        let Listener { listener, address, guard, start_token, tls } = bound;
        let mut out = anstream::stdout();
        match self.listening.json {
            true => writeln!(out, "{}", json!({"listening": address.to_string(), "servers": tools.health().len()}))?,
            false => writeln!(out, "the registry of {} servers listens on {url}, MCP at {url}/mcp", tools.health().len())?,
        }
        // Connects in the background, so that the first request does not wait.
        let warming = tokio::spawn({
            let tools = tools.clone();
            async move { tools.list().await }
        });
        guard.record_to(audited::recorder(globals)?);
        let service = Service::new(tools.clone(), Some(imported.to_path_buf())).with_audit(audited::recorder(globals)?).router(&guard);
        let served = tokio::select! {
            served = server::serve_with(config.server.limits, listener, tls, service) => served.map(|()| Exit::Well),
            exit = stopped() => Ok(exit),
        };
        drop(start_token);
        warming.abort();
        tools.close().await;
        Ok(served?)
    }
}

/// Open streams are not waited for: they would never end.
pub(super) async fn stopped() -> Exit {
    let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => Exit::Interrupted,
        _ = terminate.recv() => Exit::Terminated,
    }
}

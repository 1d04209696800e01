//! `baton mcp`: runs a built-in tool server on its own, or lists them.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use server::guard::{self, Guard};
use service::Service;
use service::config::{self, Config};
use service::global_args::GlobalArgs;
use service::model_options::ModelOptions;
use service::text_model::ModelOnDemand;
use service::wiring;
use terminal::Table;
use tools::Settings;

use crate::exit::{Exit, Result, ServiceError};

/// The only built-in server that uses a model.
const SUMMARY: &str = "summary";
/// Not a tool server: the flows themselves, for MCP hosts.
const FLOWS: &str = "flows";

/// Serve one of the built-in tool servers over MCP, or the flows (`baton mcp flows`), or list the servers
#[derive(Args)]
pub(crate) struct Mcp {
    /// The server, or `flows` for every flow as a tool over standard input and output; without a name the servers are listed
    name: Option<String>,
    /// Listen on this port of 127.0.0.1 (0: any free port); each server has its own default
    #[arg(long, value_name = "N", conflicts_with = "stdio", requires = "name")]
    port: Option<u16>,
    /// Use standard input and output instead of HTTP
    #[arg(long, requires = "name")]
    stdio: bool,
    /// The working folder of `files` and `code`, the output folder of `document`, and the outbox of `mail`
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// A folder that `docs` searches; may be repeated
    #[arg(long, value_name = "DIR")]
    docs: Vec<PathBuf>,
    /// A host that `fetch` may reach although its address is private, such as `wiki.corp` or `10.0.0.7:8080`
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
    /// The model used by `summary`, as for `baton ask` [default: see `baton doctor`]
    #[arg(long, value_name = "MODEL", requires = "name")]
    model: Option<String>,
    /// Never download the embedded model's weights automatically
    #[arg(long, env = "BATON_NO_PULL", hide_env = true, value_parser = clap::builder::FalseyValueParser::new())]
    no_pull: bool,
    /// List as one JSON object per line
    #[arg(long, conflicts_with = "name")]
    json: bool,
}

impl Mcp {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        match &self.name {
            None => list(self.json),
            Some(name) => self.serve(name, globals),
        }
    }

    fn serve_flows(&self, globals: &GlobalArgs) -> Result<Exit> {
        if self.port.is_some() {
            return Err(ServiceError::Usage(
                "`baton mcp flows` uses standard input and output; `baton serve` has the flows over HTTP at /mcp".into(),
            ));
        }
        let mut model_options = ModelOptions { model: self.model.clone(), no_pull: self.no_pull, ..ModelOptions::default() };
        model_options.servers.docs.clone_from(&self.docs);
        model_options.servers.workspace.clone_from(&self.root);
        wiring::block_on_all_cores(Box::pin(async {
            let store = globals.open_or_make().await?;
            let service = Service::build(globals, &mut model_options, Guard::new(None), store, true).await?;
            Box::pin(service.serve_flows(tokio::io::join(tokio::io::stdin(), tokio::io::stdout()))).await?;
            Ok(Exit::Well)
        }))
    }

    fn serve(&self, name: &str, globals: &GlobalArgs) -> Result<Exit> {
        if name == FLOWS {
            return self.serve_flows(globals);
        }
        let kind = tools::kind(name).ok_or_else(|| {
            let names: Vec<&str> = tools::KINDS.iter().map(|kind| kind.name).collect();
            ServiceError::Usage(format!("there is no built-in server `{name}`; there are {} and {FLOWS}", names.join(", ")))
        })?;
        let mut settings = Settings::from_env();
        if let Some(root) = &self.root {
            let records = dirs::data_dir().unwrap_or_else(std::env::temp_dir).join("baton").join("workspaces").join(".records");
            settings.workspaces = Some(tools::workspace::Workspaces::fixed(root.clone(), records));
            settings.document = Some(tools::document::Settings { folder: root.clone(), ..Default::default() });
            settings.mail = Some(tools::mail::Settings { outbox: root.join("outbox"), attachment_folders: vec![root.clone()], ..Default::default() });
        }
        if name == "docs" && !self.docs.is_empty() {
            settings.docs = Some(Arc::new(service::caches::open_folders(&self.docs)?));
        }
        settings.reader = Some(service::reader::for_pages()?);
        settings.private_hosts.extend(self.allow_host.iter().cloned());
        if name != SUMMARY && self.model.is_some() {
            return Err(ServiceError::Usage(format!("--model is for `baton mcp {SUMMARY}`; {name} needs no model")));
        }
        wiring::block_on_all_cores(async {
            if name == SUMMARY {
                let model_options = ModelOptions { model: self.model.clone(), no_pull: self.no_pull, ..ModelOptions::default() };
                settings.text_model = ModelOnDemand::choose(model_options, Config::read(globals)?).await?;
            }
            let builtin = kind.build(&settings).map_err(|lack| ServiceError::Usage(lack.to_string()))?;
            let serving = async {
                if self.stdio {
                    return tools::serve::stdio(builtin).await;
                }
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.unwrap_or(kind.port)));
                // Every account of the machine can reach loopback; these tools are for this account, or for holders of the token.
                let guard = Guard::new(config::env("BATON_TOKEN").as_deref());
                let listener = guard.bind(address).await.map_err(|error| error.to_string())?;
                let address = listener.local_addr().map_err(|error| error.to_string())?;
                let _ = writeln!(anstream::stderr(), "{name} listens on http://{address}/mcp");
                let router = guard::protected(tools::serve::router(&builtin), &guard);
                server::serve(listener, router).await.map_err(|error| format!("serving ended: {error}"))
            };
            tokio::select! {
                end = serving => end.map(|()| Exit::Well).map_err(ServiceError::Failed),
                _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
            }
        })
    }
}

fn list(as_json: bool) -> Result<Exit> {
    let mut out = anstream::stdout().lock();
    if as_json {
        for kind in tools::KINDS {
            writeln!(out, "{}", json!({"name": kind.name, "port": kind.port, "trust": kind.trust, "about": kind.about}))?;
        }
        return Ok(Exit::Well);
    }
    let mut table = Table::new(&["name", "port", "about"]);
    for kind in tools::KINDS {
        table.row([kind.name.to_owned(), kind.port.to_string(), kind.about.to_owned()].map(|cell| (anstyle::Style::new(), cell)));
    }
    table.write(&mut out)?;
    Ok(Exit::Well)
}

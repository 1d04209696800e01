//! `baton serve`: the API and the page over an engine that goes on with whatever an earlier server left.

mod desk;
mod excerpt;
mod library;
mod own;
mod tool_access;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use mcp_hub::Tools;
use serde_json::json;
use server::api::Api;
use server::guard::Guard;
use server::langserve::Service;
use server::metrics::Metrics;
use server::page::Page;
use server::quota::Quota;
use server::registry::Registry;
use server::{Router, limits, listen, service};
use store::Store;

use crate::access::StartToken;
use crate::config::Config;
use crate::exit::{self, Exit, Result, Trouble};
use crate::follow::Interrupts;
use crate::hub;
use crate::listening::{Bound, Listening};
use crate::mind::Thinking;
use crate::place::Place;
use crate::served;
use crate::text::{DIM, paint};
use crate::wiring::{self, RunModels};
use desk::House;
use library::Library;
use own::Own;
use tool_access::ToolAccess;

/// Serve the page and the API: ask, watch, approve, branch and come back in a browser
#[derive(clap::Args)]
#[command(after_help = exit::with_codes(&after_help()))]
pub(crate) struct Serve {
    #[arg(long, default_value_t = 8080)]
    port: u16,
    #[command(flatten)]
    listening: Listening,
    #[command(flatten)]
    thinking: Thinking,
}

fn after_help() -> String {
    format!("{AFTER_HELP}\n\nLimits, each with its default and bounds; [server] in the configuration sets them:\n{}", limits::table())
}

const AFTER_HELP: &str = "\
Examples:
  baton serve                                  then open http://127.0.0.1:8080
  baton serve --docs notes/ --model ollama/qwen3:4b
  baton tokens add ada && baton serve --host 0.0.0.0
  curl -s localhost:8080/api/query -H 'content-type: application/json' -d '{\"query\": \"What is a relay baton?\"}'

The API is described at /api/openapi.json. LangServe's clients find every flow at /FLOW/invoke and its siblings, and the one that picks a flow at /graph. Runs that were going when a server died go on when it is started again.
BATON_LOG=server=debug logs every request, BATON_LOG_FORMAT=json logs JSON lines with run ids. BATON_WEB=DIR serves the page from a folder.

On loopback, programs and browsers of your account need no token. Other accounts of the machine, requests through a proxy, and callers whose account cannot be known need the
token of this start: `baton tokens link` prints a link for browsers and the file of the token. With --token-file or `baton tokens add` everybody needs a token.";

/// How long what is in flight may take when the server is asked to end.
const GRACE: Duration = Duration::from_secs(3);

impl Serve {
    pub(crate) fn run(self, place: &Place) -> Result<Exit> {
        wiring::block_on_all_cores(Box::pin(self.serve(place)))
    }

    async fn serve(mut self, place: &Place) -> Result<Exit> {
        let mut interrupts = Interrupts::listen()?;
        let config = Config::for_run(place)?;
        let limits = config.server;
        let store = place.open_or_make().await?;
        let Bound { listener, address, guard, start_token } = self.listening.bind(Some(store.clone()), place, self.port).await?;

        let Parts { engine, router, tools } = parts(place, &mut self.thinking, guard, store, self.listening.json).await?;
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let listening = tokio::spawn(listen::listen(listener, router, limits, stopped));
        let recovered = engine.recover().await?;
        let mut out = anstream::stdout();
        match self.listening.json {
            true => {
                let token_file = start_token.as_ref().and_then(StartToken::file);
                let started =
                    json!({ "url": format!("http://{address}"), "listening": address.to_string(), "recovered": recovered, "token_file": token_file });
                writeln!(out, "{started}")?;
            }
            false => {
                writeln!(out, "baton listens on http://{address}")?;
                // A log is read by others than a terminal.
                if let Some(start) = start_token.as_ref().filter(|_| std::io::stdout().is_terminal()) {
                    writeln!(out, "{}", paint(DIM, format!("from another account or through a proxy: {}", start.link(address))))?;
                }
                if recovered > 0 {
                    writeln!(out, "{recovered} unfinished runs go on")?;
                }
            }
        }
        let exit = tokio::select! {
            exit = interrupts.next() => Ok(exit),
            ended = listening => Err(Trouble::Failed(format!("the server ended: {ended:?}"))),
        };
        // Streams and requests that are still open end here; the runs they watched are resumed at the next start.
        drop((stop, start_token));
        engine.stop(GRACE).await;
        if let Some(tools) = tools {
            tools.close().await;
        }
        exit
    }
}

/// A server before it listens.
struct Parts {
    engine: Engine,
    router: Router,
    tools: Option<Tools>,
}

/// Builds the engine, the API, the page, the registry and LangServe's routes for the flows of this program.
async fn parts(place: &Place, thinking: &mut Thinking, guard: Guard, store: Arc<dyn Store>, is_quiet: bool) -> Result<Parts> {
    let config = Config::for_run(place)?;
    let limits = config.server;
    let uploads = hub::folder(place)?.join("uploads");
    let library = Library::open(&thinking.servers.documents(&config), &uploads, limits.uploads_bytes_max)?;
    thinking.servers.shelf = Some(library.folders().clone());
    let house = wiring::house(place, thinking, is_quiet).await?;
    let workspaces = thinking.servers.workspaces(&hub::folder(place)?, &config);
    let own = Own::new(house.world, ToolAccess::new(config.tools.users.as_deref(), &workspaces));
    let engine = wiring::engine_in(own, store, place, RunModels::recorded(house.choice.as_ref()))?;
    let default_flow = place.flows.default_flow().map(|flow| flow.name).unwrap_or_default();
    // Whether there are documents depends on whose run it is, and the desk reports that.
    let flows = Service::new(engine.clone(), served::all(default_flow, house.mind, &config, false), None);
    let desk = House::new(place, thinking, config, house.mind, house.choice, library)?;

    let api = Api::new(engine.clone(), Arc::new(desk), guard, Quota::new(limits), Metrics::new());
    let registry = match &house.tools {
        Some(tools) => Some(Registry::new(tools.clone(), Some(hub::imported(place)?))),
        None => None,
    };
    let page = Page::new(std::env::var_os("BATON_WEB").map(PathBuf::from));
    let router = service::router(&api, &page, registry, Some(flows));
    Ok(Parts { engine, router, tools: house.tools })
}

#[cfg(test)]
mod tests;

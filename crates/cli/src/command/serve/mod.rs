//! `baton serve`: the API and the page over an engine that goes on with whatever an earlier server left.

mod desk;
mod excerpt;
mod library;
mod own;
mod tool_access;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use server::api::Api;
use server::guard::Guard;
use server::langserve::Service;
use server::metrics::Metrics;
use server::page::Page;
use server::quota::{Limits, Quota};
use server::registry::Registry;
use server::{listen, service};
use store::Store;

use crate::asking::FRONT_DOOR;
use crate::config::Config;
use crate::exit::{self, Exit, Result, Trouble};
use crate::follow::Interrupts;
use crate::hub;
use crate::listening::Listening;
use crate::mind::Thinking;
use crate::place::Place;
use crate::served;
use crate::wiring;
use desk::House;
use library::Library;
use own::Own;
use tool_access::ToolAccess;

/// Serve the page and the API: ask, watch, approve, branch and come back in a browser
#[derive(clap::Args)]
#[command(after_help = exit::with_codes(AFTER_HELP))]
pub(crate) struct Serve {
    #[arg(long, default_value_t = 8080)]
    port: u16,
    #[command(flatten)]
    listening: Listening,
    #[command(flatten)]
    thinking: Thinking,
}

const AFTER_HELP: &str = "\
Examples:
  baton serve                                  then open http://127.0.0.1:8080
  baton serve --docs notes/ --model ollama/qwen3:4b
  baton tokens add ada && baton serve --host 0.0.0.0
  curl -s localhost:8080/api/query -H 'content-type: application/json' -d '{\"query\": \"What is a relay baton?\"}'

The API is described at /api/openapi.json. LangServe's clients find every flow at /FLOW/invoke and its siblings, and the one that picks a flow at /graph. Runs that were going when a server died go on when it is started again.
BATON_LOG=server=debug logs every request, BATON_LOG_FORMAT=json logs JSON lines with run ids. BATON_WEB=DIR serves the page from a folder.";

/// How long what is in flight may take when the server is asked to end.
const GRACE: Duration = Duration::from_secs(3);

impl Serve {
    pub(crate) fn run(self, place: &Place) -> Result<Exit> {
        wiring::block_on_all_cores(Box::pin(self.serve(place)))
    }

    async fn serve(mut self, place: &Place) -> Result<Exit> {
        let mut interrupts = Interrupts::listen()?;
        let store: Arc<dyn Store> = Arc::new(place.open_or_make()?);
        let guard = Guard::with_users(self.listening.token.as_deref(), store.clone());
        let (listener, address) = self.listening.bind(&guard, self.port).await?;

        let config = Config::for_run(place)?;
        let library = Library::open(&self.thinking.servers.documents(&config), &hub::folder(place)?.join("uploads"))?;
        self.thinking.servers.shelf = Some(library.folders().clone());
        let house = wiring::house(place, &self.thinking, self.listening.json).await?;
        let workspaces = self.thinking.servers.workspaces(&hub::folder(place)?, &config);
        let own = Own::new(house.world, ToolAccess::new(config.tools.users.as_deref(), &workspaces));
        let engine = wiring::engine_in(own.clone(), store, place)?;
        // Whether there are documents depends on whose run it is, and the desk says so.
        let flows = Service::new(engine.clone(), served::all(FRONT_DOOR.flow, house.mind, &config, false)?, None);
        let desk = House::new(place, &self.thinking, config, house.mind, house.choice, library, own)?;

        let quota = Quota::new(Limits::default());
        let connections_max = quota.limits().connections_max;
        let api = Api::new(engine.clone(), Arc::new(desk), guard, quota, Metrics::new(), FRONT_DOOR);
        let registry = match &house.tools {
            Some(tools) => Some(Registry::new(tools.clone(), Some(hub::imported(place)?))),
            None => None,
        };
        let page = Page::new(std::env::var_os("BATON_WEB").map(PathBuf::from));
        let router = service::router(&api, &page, registry, Some(flows));
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let listening = tokio::spawn(listen::listen(listener, router, connections_max, stopped));
        let recovered = engine.recover().await?;
        let mut out = anstream::stdout();
        match self.listening.json {
            true => writeln!(out, "{}", json!({ "url": format!("http://{address}"), "listening": address.to_string(), "recovered": recovered }))?,
            false => {
                writeln!(out, "baton listens on http://{address}")?;
                if recovered > 0 {
                    writeln!(out, "{recovered} unfinished runs go on")?;
                }
            }
        }
        let exit = tokio::select! {
            exit = interrupts.next() => Ok(exit),
            ended = listening => Err(Trouble::Failed(format!("the server ended: {ended:?}"))),
        };
        // Streams and requests that are still open end here; what they watched goes on at the next start.
        drop(stop);
        engine.stop(GRACE).await;
        if let Some(tools) = house.tools {
            tools.close().await;
        }
        exit
    }
}

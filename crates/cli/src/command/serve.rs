//! `baton serve`: the API and the page over an engine that resumes the runs of an earlier server.

use std::io::{IsTerminal as _, Write as _};

use serde_json::json;
use server::limits;
use service::access::{Listener, StartToken};
use service::restate::{self, EngineKind};
use service::wiring::{self, EngineRole};
use service::{GlobalArgs, ModelOptions, Service, ServiceError};
use terminal::{DIM, paint};

use crate::exit::{self, Exit, Result};
use crate::follow::Interrupts;
use crate::listen_args::ListenArgs;

/// Serve the page and the API: ask, watch, approve and fork runs in a browser
#[derive(clap::Args)]
#[command(after_help = exit::with_codes(&after_help()))]
pub(crate) struct Serve {
    /// The port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Who drives runs: this process, or the workers of a Restate server (`baton worker`)
    #[arg(long, value_enum, default_value_t)]
    engine: EngineKind,
    /// With --engine restate: the ingress of the Restate server, usually port 8080 there; BATON_RESTATE_TOKEN is sent as bearer token
    #[arg(long, value_name = "URL", required_if_eq("engine", "restate"))]
    restate: Option<String>,
    #[command(flatten)]
    listening: ListenArgs,
    #[command(flatten)]
    model_options: ModelOptions,
}

fn after_help() -> String {
    format!("{AFTER_HELP}\n\nLimits, each with its default and bounds; [server] in the configuration sets them:\n{}", limits::table())
}

const AFTER_HELP: &str = "\
Examples:
  baton serve                                  then open http://127.0.0.1:8080
  baton serve --docs notes/ --model ollama/qwen3:4b
  baton tokens add ada && baton serve --host 0.0.0.0
  baton serve --host 0.0.0.0 --port 8443 --tls-cert tls.crt --tls-key tls.key
  baton serve --port 8081 --engine restate --restate http://127.0.0.1:8080 --store postgres://baton@db/baton
  curl -s localhost:8080/api/query -H 'content-type: application/json' -d '{\"query\": \"What is a relay baton?\"}'

The API is described at /api/openapi.json. LangServe's clients find every flow at /FLOW/invoke and its siblings, and the one that picks a flow at /graph. OpenAI's SDKs find flows as models at /v1, MCP hosts as tools at /mcp, AG-UI's front ends as agents at /ag-ui/FLOW. Runs that were going when a server died go on when it is started again.
BATON_LOG=server=debug logs every request, BATON_LOG_FORMAT=json logs JSON lines with run ids. BATON_WEB=DIR serves the page from a folder.

On loopback, programs and browsers of your account need no token. Other accounts of the machine, requests through a proxy, and callers whose account cannot be known need the
token of this start: `baton tokens link` prints a link for browsers and the file of the token. With --token-file or `baton tokens add` everybody needs a token.";

impl Serve {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        wiring::block_on_all_cores(Box::pin(self.serve(globals)))
    }

    async fn serve(mut self, globals: &GlobalArgs) -> Result<Exit> {
        let mut interrupts = Interrupts::listen()?;
        let role = match (self.engine, &self.restate) {
            (EngineKind::Restate, Some(ingress)) => restate::submits_to(ingress)?,
            (EngineKind::Embedded, Some(_)) => return Err(ServiceError::Usage("--restate needs --engine restate".into())),
            (_, None) => EngineRole::Embedded,
        };
        let store = globals.open_or_make().await?;
        let bound = self.listening.bind(Some(store.clone()), globals, self.port).await?;
        let url = bound.url();
        let Listener { listener, address, guard, start_token, tls } = bound;
        let service = Service::build_as(role, globals, &mut self.model_options, guard, store, self.listening.json).await?;
        let serving = service.listen_with(listener, tls);
        let recovered = service.recover().await?;
        let mut out = anstream::stdout();
        match self.listening.json {
            true => {
                let token_file = start_token.as_ref().and_then(StartToken::file);
                let started = json!({ "url": url, "listening": address.to_string(), "recovered": recovered, "token_file": token_file });
                writeln!(out, "{started}")?;
            }
            false => {
                writeln!(out, "baton listens on {url}")?;
                // The link has a token, so it is printed to a terminal only.
                if let Some(start) = start_token.as_ref().filter(|_| std::io::stdout().is_terminal()) {
                    writeln!(out, "{}", paint(DIM, format!("from another account or through a proxy: {}", start.link(address))))?;
                }
                if recovered > 0 {
                    writeln!(out, "{recovered} unfinished runs go on")?;
                }
            }
        }
        let exit = serving.until(interrupts.next(), service).await;
        drop(start_token);
        exit
    }
}

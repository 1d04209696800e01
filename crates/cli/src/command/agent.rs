use std::io::Write as _;
use std::time::Duration;

use flows::Specialist;
use serde_json::json;
use server::langserve::Service;
use service::access::Listener;
use service::config::Config;
use service::global_args::GlobalArgs;
use service::langserve_flows;
use service::model_options::ModelOptions;
use service::wiring;

use crate::exit::{Exit, Result, ServiceError};
use crate::listen_args::ListenArgs;

/// Serve one agent of the team as a separate process, with LangServe's API
///
/// It has its own database and resumes its runs after a crash.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  baton agent researcher                        listens on 127.0.0.1:8001
  baton agent mailer --port 9003
  RESEARCHER_SERVICE_URL=http://localhost:8001 baton ask --flow supervise \"research tides and write a report\"
  curl -s localhost:8001/graph/invoke -H 'content-type: application/json' \\
    -d '{\"input\": {\"messages\": [{\"type\": \"human\", \"content\": \"research tides\"}], \"next\": \"\", \"context\": {}}}'")]
pub(crate) struct Agent {
    /// researcher, writer (also: DocumentCreator) or mailer (also: Gmail)
    name: String,
    /// Listen on this port [default: researcher 8001, writer 8002, mailer 8003; 0: any that is free]
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    #[command(flatten)]
    listening: ListenArgs,
    #[command(flatten)]
    model_options: ModelOptions,
}

/// Time for running requests to finish on shutdown; the rest is resumed at the next start.
const GRACE: Duration = Duration::from_secs(5);

impl Agent {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        let one = globals.flows.specialist(&self.name).ok_or_else(|| {
            let names: Vec<&str> = globals.flows.specialists().iter().map(|one| one.flow).collect();
            ServiceError::Usage(format!("there is no agent {:?}; there are {}", self.name, names.join(", ")))
        })?;
        let globals = globals.of_agent(one.flow)?;
        wiring::block_on_all_cores(self.serve(&one, &globals))
    }

    async fn serve(&self, one: &Specialist, globals: &GlobalArgs) -> Result<Exit> {
        let config = Config::for_run(globals)?;
        let bound = self.listening.bind(None, globals, self.port.unwrap_or(one.port)).await?;
        let url = bound.url();
        let Listener { listener, address, guard, start_token, tls } = bound;
        let (engine, profile) = wiring::new_engine(globals, &self.model_options, self.listening.json).await?;
        let has_docs = !self.model_options.servers.documents(&config).is_empty();
        let service =
            Service::new(engine.clone(), langserve_flows::all(one.flow, profile, &config, has_docs), Some(langserve_flows::description(one)));
        let taken_up = engine.recover().await?;
        let mut out = anstream::stdout();
        match self.listening.json {
            true => writeln!(out, "{}", json!({ "listening": address.to_string(), "agent": one.flow, "taken_up": taken_up }))?,
            false => {
                writeln!(out, "the {} ({}) listens on {url}/graph", one.flow, one.capability)?;
                if taken_up > 0 {
                    writeln!(out, "{taken_up} unfinished runs go on")?;
                }
            }
        }
        let router = service.router(&guard);
        let ended = tokio::select! {
            served = server::serve_with(config.server.limits, listener, tls, router) => served.map(|()| Exit::Well),
            exit = super::registry::stopped() => Ok(exit),
        };
        drop(start_token);
        engine.stop(GRACE).await;
        Ok(ended?)
    }
}

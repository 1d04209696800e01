//! `baton worker`: drives runs and performs effects for a Restate server.

use std::io::Write as _;
use std::net::SocketAddr;

use serde_json::json;
use service::restate::{self, WorkerOptions};
use service::{GlobalArgs, ModelOptions, wiring};

use crate::exit::{self, Exit, Result};
use crate::follow::Interrupts;

/// Work for a Restate server: drive the runs that servers with `--engine restate` submit, and perform their effects
#[derive(clap::Args)]
#[command(after_help = exit::with_codes(AFTER_HELP))]
pub(crate) struct Worker {
    /// The admin API of the Restate server, usually port 9070; BATON_RESTATE_TOKEN is sent as bearer token
    #[arg(long, value_name = "URL")]
    restate: String,
    /// Where the Restate server reaches this worker; several workers of one machine can share a port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9080")]
    listen: SocketAddr,
    /// The URL that the Restate server calls, if it is another: that of a load balancer before several workers
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,
    /// A public key of the Restate server (publickeyv1_…): requests that are not signed with it are refused. Needed for any address but loopback
    #[arg(long, value_name = "KEY")]
    identity_key: Vec<String>,
    /// Register although the Restate server has other handlers at this URL, after an upgrade of Baton
    #[arg(long)]
    force: bool,
    /// Print one JSON line when it is ready
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    model_options: ModelOptions,
}

const AFTER_HELP: &str = "\
Examples:
  restate-server                                        its ingress is port 8080, its admin API 9070
  baton worker --restate http://127.0.0.1:9070 --store postgres://baton@db/baton
  baton serve --port 8081 --engine restate --restate http://127.0.0.1:8080 --store postgres://baton@db/baton

Workers and servers use the same store. A worker that is killed loses nothing: its runs go on in another one, or when it is back.
The guide describes it: Run on Restate.";

impl Worker {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        wiring::block_on_all_cores(Box::pin(self.work(globals)))
    }

    async fn work(mut self, globals: &GlobalArgs) -> Result<Exit> {
        let mut interrupts = Interrupts::listen()?;
        let options = WorkerOptions {
            admin: self.restate,
            listen: self.listen,
            advertised: self.advertise,
            identity_keys: self.identity_key,
            is_forced: self.force,
        };
        let is_json = self.json;
        let ready = |address: SocketAddr, advertised: &str| {
            let line = match is_json {
                true => json!({ "listening": address.to_string(), "registered": advertised }).to_string(),
                false => format!("baton works at {advertised}"),
            };
            // A closed standard output must not stop the worker.
            let _ = writeln!(anstream::stdout(), "{line}");
        };
        let mut exit = None;
        let stop = async { exit = Some(interrupts.next().await) };
        Box::pin(restate::work(globals, &mut self.model_options, options, is_json, ready, stop)).await?;
        Ok(exit.unwrap_or(Exit::Well))
    }
}

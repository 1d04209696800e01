//! Steps of runs that a Restate server has driven by a worker in this process, beside calls of a service that does nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use engine::{Engine, Settings};
use engine_restate::{BareService, Calls, Client, Worker, WorkerSettings};
use service::{Result, ServiceError};
use store::Store;
use tokio::sync::watch;

use super::{LINE_BYTES, Numbers, TurnTimes, ended, flow, replay, us_since, whole, wrong};

/// Steps of each of the concurrent runs: few, because a call through Restate takes milliseconds.
const TOGETHER_STEPS: u64 = 20;
/// The names by which workers recognize one another's leases, as in a server.
const OWNER: &str = "restate:bench";

/// What is measured, and how often.
pub(super) struct RestateBench {
    pub(super) ingress: String,
    pub(super) admin: String,
    pub(super) together: u64,
    pub(super) steps: u64,
    pub(super) rounds: u32,
}

impl RestateBench {
    /// The runs are stored in `store`, as those of every server with `--engine restate`.
    pub(super) async fn measure(&self, store: Arc<dyn Store>) -> Result<Numbers> {
        let (ingress, admin) = (self.client(&self.ingress)?, self.client(&self.admin)?);
        if admin.has_worker().await.map_err(failed)? {
            let words = format!("the Restate server at {} has a worker already, whose runs this would take; name one that is not used", self.admin);
            return Err(ServiceError::Usage(words));
        }
        let calls = Calls::default();
        let clock = store.clock().unwrap_or_else(|| Settings::default().clock);
        let engine = |settings: Settings| -> Result<Engine> {
            let settings = Settings { clock: clock.clone(), ..settings };
            Ok(Engine::new(store.clone(), Arc::new(flow::BenchHandler), flow::all().map_err(wrong)?, settings))
        };
        let works = engine(Settings {
            owner: format!("{OWNER}-worker"),
            is_gone: Arc::new(|owner: &str| owner.starts_with(OWNER)),
            remote: Some(Arc::new(calls.clone())),
            ..Settings::default()
        })?;
        let submits = engine(Settings { owner: format!("{OWNER}-server"), dispatcher: Some(Arc::new(ingress.clone())), ..Settings::default() })?;

        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let worker = Worker::bind(local, works.clone(), calls, clock.clone(), &WorkerSettings::default()).map_err(ServiceError::Failed)?;
        let bare = BareService::bind(local)?;
        let addresses = [worker.address()?, bare.address()?];
        let (stopping, stopped) = watch::channel(false);
        let serving = [tokio::spawn(worker.serve(stopped.clone())), tokio::spawn(bare.serve(stopped))];
        let mut deployments = Vec::new();
        for address in addresses {
            deployments.push(admin.register(&format!("http://{address}"), false).await.map_err(failed)?);
        }
        let measured = self.turns(&ingress, &submits).await;
        // Also after a failure, so that the server can be measured again.
        for deployment in deployments {
            admin.unregister(&deployment).await.map_err(failed)?;
        }
        works.stop(std::time::Duration::ZERO).await;
        drop(stopping);
        for serving in serving {
            serving.await.map_err(wrong)?;
        }
        measured
    }

    fn client(&self, address: &str) -> Result<Client> {
        Client::new(address, std::env::var(service::restate::TOKEN).ok()).map_err(|error| ServiceError::Usage(error.to_string()))
    }

    async fn turns(&self, ingress: &Client, submits: &Engine) -> Result<Numbers> {
        // The first ones open connections.
        ingress.bare_calls("warm", 1, LINE_BYTES).await.map_err(failed)?;
        whole(submits, "effects", flow::left(1)).await?;
        let mut turns = TurnTimes::default();
        for round in 0..self.rounds {
            let started = Instant::now();
            ingress.bare_calls(&format!("alone-{round}"), self.steps, LINE_BYTES).await.map_err(failed)?;
            turns.add("bare_call_us", us_since(started) / self.steps as f64);

            let started = Instant::now();
            let run = whole(submits, "effects", flow::left(self.steps)).await?;
            turns.add("step_us", us_since(started) / self.steps as f64);
            replay(submits, &run, flow::events(self.steps, 1)).await?;

            let steps = self.steps.min(TOGETHER_STEPS);
            let per_s = |started: Instant| (self.together * steps) as f64 / (us_since(started) / 1e6);
            let started = Instant::now();
            let bare = (0..self.together).map(|n| {
                let ingress = ingress.clone();
                tokio::spawn(async move { ingress.bare_calls(&format!("together-{round}-{n}"), steps, LINE_BYTES).await })
            });
            for end in bare.collect::<Vec<_>>() {
                end.await.map_err(wrong)?.map_err(failed)?;
            }
            turns.add("bare_calls_per_s", per_s(started));

            let started = Instant::now();
            let runs = (0..self.together).map(|_| {
                let submits = submits.clone();
                tokio::spawn(async move { whole(&submits, "effects", flow::left(steps)).await })
            });
            ended(runs.collect()).await?;
            turns.add("steps_per_s", per_s(started));
        }
        let mut found = turns.best();
        found.insert("ratio_to_bare", turns.ratio("step_us", "bare_call_us"));
        found.insert("throughput_to_bare", turns.ratio("steps_per_s", "bare_calls_per_s"));
        Ok(found)
    }
}

fn failed(error: impl std::fmt::Display) -> ServiceError {
    ServiceError::Failed(error.to_string())
}

//! Telling an address that a run is over.
//!
//! The address is the client's, so it may lead anywhere: it must be public, its name is looked up once and the connection goes to what was checked, redirects are
//! not followed, and what is answered is not read. What is to be sent is kept until it was delivered or given up, so a restart forgets nothing.

use std::net::SocketAddr;
use std::time::Duration;

use engine::RunState;
use graph::{RunId, UserId};
use reqwest::Url;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;

use super::begin::StartedTurn;
use super::records::{self, Kept, WEBHOOK};
use super::{LangGraph, invalid, runs};
use crate::guard::Identity;
use crate::langserve::Refused;

/// Deliveries at the same time.
pub(super) const AT_ONCE_MAX: usize = 16;
const URL_BYTES_MAX: usize = 2_000;
const TIME_MAX: Duration = Duration::from_secs(10);
const TRIES_MAX: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct WebhookRecord {
    url: String,
    thread: String,
}

/// Refuses an address that must not be called.
pub(super) async fn check(graph: &LangGraph, url: &str) -> Result<(), Refused> {
    resolved(graph, url).await.map(drop).map_err(|why| invalid(format!("webhook: {why}")))
}

/// The address, and where its name leads: public places only.
async fn resolved(graph: &LangGraph, url: &str) -> Result<(Url, Vec<SocketAddr>), String> {
    let Some(api) = &graph.0.service.0.api else { return Err("this server sends none".to_owned()) };
    if url.len() > URL_BYTES_MAX {
        return Err(format!("the address has more than {URL_BYTES_MAX} bytes"));
    }
    let url = Url::parse(url).map_err(|_| "that is no address; write https://host/path".to_owned())?;
    if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some() {
        return Err("write http:// or https://, without a user name or password".to_owned());
    }
    let host = url.host_str().ok_or("the address names no host")?.trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default().unwrap_or(443);
    let found = tokio::time::timeout(TIME_MAX, tokio::net::lookup_host((host.as_str(), port))).await;
    let addresses: Vec<SocketAddr> = match found {
        Ok(Ok(found)) => found.collect(),
        Ok(Err(_)) | Err(_) => return Err(format!("the name {host} cannot be found")),
    };
    match !addresses.is_empty() && addresses.iter().all(|address| api.0.backend.is_public(address.ip())) {
        true => Ok((url, addresses)),
        false => Err(format!("{host} is not on the public internet; loopback and private networks are refused")),
    }
}

pub(super) async fn remember(graph: &LangGraph, user: &UserId, begun: &StartedTurn, url: &str) -> Result<(), Refused> {
    let record = WebhookRecord { url: url.to_owned(), thread: begun.thread.id.clone() };
    records::put(graph.store(), user, WEBHOOK, begun.run.as_str(), &record).await
}

/// Takes up what an earlier server did not deliver.
pub(super) async fn recover(graph: &LangGraph) {
    match records::list::<WebhookRecord>(graph.store(), None, WEBHOOK, "").await {
        Ok(all) => all.into_iter().for_each(|kept| deliver_after(graph.clone(), kept)),
        Err(refused) => tracing::warn!("webhooks of earlier runs could not be read: {}", refused.words()),
    }
}

impl LangGraph {
    /// Keeps a user's place until the run rests, and then tells who wanted to be told.
    pub(super) fn after_rest(&self, begun: &StartedTurn, user: UserId, place: Option<OwnedSemaphorePermit>, has_webhook: bool) {
        let (graph, run) = (self.clone(), begun.run.clone());
        tokio::spawn(async move {
            // However it ended, it is in the store; here it is only counted.
            let _ = graph.engine().wait(&run).await;
            drop(place);
            if has_webhook && let Ok(Some(kept)) = records::get::<WebhookRecord>(graph.store(), &user, WEBHOOK, run.as_str()).await {
                deliver_after(graph, kept);
            }
        });
    }
}

fn deliver_after(graph: LangGraph, kept: Kept<WebhookRecord>) {
    tokio::spawn(async move {
        let run = RunId::from(kept.key.as_str());
        // One that waits for a person is not over; its answer comes with a run of its own webhook, or none.
        if !matches!(graph.engine().wait(&run).await, Ok(RunState::Over(_) | RunState::Parked(_))) {
            return;
        }
        let _place = graph.0.webhooks.clone().acquire_owned().await;
        if let Err(why) = deliver(&graph, &kept, &run).await {
            tracing::warn!(%run, "its webhook was given up: {why}");
        }
        if let Err(refused) = records::remove(graph.store(), &kept.user, WEBHOOK, &kept.key).await {
            tracing::warn!(%run, "its webhook could not be forgotten: {}", refused.words());
        }
    });
}

async fn deliver(graph: &LangGraph, kept: &Kept<WebhookRecord>, run: &RunId) -> Result<(), String> {
    let who = Identity { user: kept.user.clone(), is_operator: false };
    let body = async {
        let thread = graph.thread(&who, &kept.value.thread).await?;
        let row = graph.run_in(&thread, run.as_str()).await?;
        runs::ended(graph, &who, &thread, &row).await
    };
    let body = body.await.map_err(|refused: Refused| refused.words())?.to_string();
    let mut pause = FIRST_PAUSE;
    let mut last = String::new();
    for attempt in 0..TRIES_MAX {
        if attempt > 0 {
            tokio::time::sleep(pause).await;
            pause *= 4;
        }
        last = match send(graph, &kept.value.url, body.clone()).await {
            Ok(status) if status.is_success() => return Ok(()),
            Ok(status) if status.is_client_error() => return Err(format!("status {status}")),
            Ok(status) => format!("status {status}"),
            Err(why) => why,
        };
    }
    Err(last)
}

async fn send(graph: &LangGraph, url: &str, body: String) -> Result<reqwest::StatusCode, String> {
    let (url, addresses) = resolved(graph, url).await?;
    let host = url.host_str().unwrap_or_default().to_owned();
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(TIME_MAX)
        .no_proxy()
        .resolve_to_addrs(&host, &addresses)
        .build()
        .map_err(|error| error.to_string())?;
    let sent = client.post(url).header("content-type", "application/json").body(body).send().await;
    sent.map(|response| response.status()).map_err(|error| error.without_url().to_string())
}

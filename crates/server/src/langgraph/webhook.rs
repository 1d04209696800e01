//! Telling an address that a run is over, as [`crate::outbound`] sends. What is to be sent is kept until it was delivered or given up, so a restart forgets nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::http::{HeaderMap, HeaderValue, header};
use engine::RunState;
use graph::{RunId, UserId};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::begin::StartedTurn;
use super::records::{self, Pages, StoredRecord, WEBHOOK};
use super::{LangGraph, invalid, runs};
use crate::api::Api;
use crate::guard::Identity;
use crate::langserve::Refused;
use crate::outbound;

/// Places for deliveries at the same time. One user has a quarter of them at most, so that one whose addresses answer slowly leaves places for the others.
pub(super) struct Deliveries {
    all: Arc<Semaphore>,
    of_user_max: usize,
    users: Mutex<HashMap<UserId, Weak<Semaphore>>>,
}

impl Deliveries {
    pub(super) fn new(at_once_max: usize) -> Deliveries {
        Deliveries { all: Arc::new(Semaphore::new(at_once_max)), of_user_max: at_once_max.div_ceil(4), users: Mutex::default() }
    }

    /// The user's own place first: who waits for one of those keeps nobody else waiting. Neither semaphore is ever closed.
    async fn place(&self, user: &UserId) -> (Arc<Semaphore>, Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>) {
        let own = {
            let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
            users.retain(|_, own| own.strong_count() > 0);
            let known = users.get(user).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let own = Arc::new(Semaphore::new(self.of_user_max));
                users.insert(user.clone(), Arc::downgrade(&own));
                own
            })
        };
        let of_user = own.clone().acquire_owned().await.ok();
        (own, of_user, self.all.clone().acquire_owned().await.ok())
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct WebhookRecord {
    url: String,
    thread: String,
}

/// Refuses an address that must not be called.
pub(super) async fn check(graph: &LangGraph, url: &str) -> Result<(), Refused> {
    let wrong = |why: String| invalid(format!("webhook: {why}"));
    outbound::resolved(sender(graph).map_err(wrong)?, url).await.map(drop).map_err(wrong)
}

fn sender(graph: &LangGraph) -> Result<&Api, String> {
    graph.0.service.0.api.as_ref().ok_or_else(|| "this server sends none".to_owned())
}

pub(super) async fn remember(graph: &LangGraph, user: &UserId, started: &StartedTurn, url: &str) -> Result<(), Refused> {
    let record = WebhookRecord { url: url.to_owned(), thread: started.thread.id.clone() };
    Ok(records::put(graph.store(), user, WEBHOOK, started.run.as_str(), &record).await?)
}

/// Delivers what an earlier server did not.
pub(super) async fn recover(graph: &LangGraph) {
    let mut pages = Pages::<WebhookRecord>::of(WEBHOOK);
    loop {
        match pages.next(graph.store()).await {
            Ok(Some(page)) => page.into_iter().for_each(|stored| deliver_after(graph.clone(), stored)),
            Ok(None) => return,
            Err(problem) => return tracing::warn!("webhooks of earlier runs could not be read: {}", problem.message),
        }
    }
}

impl LangGraph {
    /// Holds the user's slot until the run ends or waits for a person, then calls its webhook if it has one.
    pub(super) fn notify_when_stopped(&self, started: &StartedTurn, user: UserId, place: Option<OwnedSemaphorePermit>, has_webhook: bool) {
        let (graph, run) = (self.clone(), started.run.clone());
        tokio::spawn(async move {
            // However it ended, it is in the store; here it is only counted.
            let _ = graph.engine().wait(&run).await;
            drop(place);
            if has_webhook && let Ok(Some(stored)) = records::get::<WebhookRecord>(graph.store(), &user, WEBHOOK, run.as_str()).await {
                deliver_after(graph, stored);
            }
        });
    }
}

fn deliver_after(graph: LangGraph, stored: StoredRecord<WebhookRecord>) {
    tokio::spawn(async move {
        let run = RunId::from(stored.key.as_str());
        // One that waits for a person is not over; its answer comes with a run of its own webhook, or none.
        if !matches!(graph.engine().wait(&run).await, Ok(RunState::Over(_) | RunState::Parked(_))) {
            return;
        }
        let _place = graph.0.webhooks.place(&stored.user).await;
        if let Err(why) = deliver(&graph, &stored, &run).await {
            tracing::warn!(%run, "its webhook was given up: {why}");
        }
        if let Err(problem) = records::remove(graph.store(), &stored.user, WEBHOOK, &stored.key).await {
            tracing::warn!(%run, "its webhook could not be forgotten: {}", problem.message);
        }
    });
}

async fn deliver(graph: &LangGraph, stored: &StoredRecord<WebhookRecord>, run: &RunId) -> Result<(), String> {
    let who = Identity { user: stored.user.clone(), is_operator: false };
    let body = async {
        let thread = graph.thread(&who, &stored.value.thread).await?;
        let row = graph.run_in(&thread, run.as_str()).await?;
        runs::ended(graph, &who, &thread, &row).await
    };
    let body = body.await.map_err(|refused: Refused| refused.message())?.to_string();
    let json = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    outbound::post(sender(graph)?, &stored.value.url, &json, &body).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_user_with_slow_addresses_leaves_places_for_the_others() {
        let deliveries = Arc::new(Deliveries::new(8));
        let (mallory, ada) = (UserId::from("mallory"), UserId::from("ada"));
        let held = [deliveries.place(&mallory).await, deliveries.place(&mallory).await];
        let waiting = tokio::spawn({
            let (deliveries, mallory) = (deliveries.clone(), mallory.clone());
            async move { drop(deliveries.place(&mallory).await) }
        });
        tokio::task::yield_now().await;
        drop(deliveries.place(&ada).await);
        assert!(!waiting.is_finished(), "a quarter for each user");
        drop(held);
        waiting.await.unwrap();
        drop(deliveries.place(&ada).await);
        assert!(deliveries.users.lock().unwrap().len() <= 1, "users are forgotten");
    }
}

//! Push notifications: whenever a task asks something or ends, its address is sent the task.
//!
//! A configuration is a document of the store that has what was sent last, and one task looks at all of them: when a run here rests, and every few seconds for runs that
//! went on elsewhere. So nothing is forgotten by a restart, and what was not acknowledged is sent again; the same may come twice. Configurations of tasks that are over are
//! kept for a day.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use graph::{RunId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::Status;
use tokio::sync::{Notify, Semaphore};
use wire::a2a::error::TASK_NOT_FOUND;
use wire::a2a::{MEDIA_TYPE, PushConfig, StreamResponse, TOKEN_HEADER, Task};

use super::task::{Shape, is_missing};
use super::{A2a, Inner, refusal, wrong};
use crate::api::runs::digest_of;
use crate::guard::{Identity, now_ms};
use crate::outbound;
use crate::problem::Problem;
use crate::records::{self, Pages, StoredRecord};

pub(crate) const OPEN: &str = "a2a.push";
/// The record kind of tasks that are over.
pub(crate) const DONE: &str = "a2a.push.done";
const LOOK_AGAIN: Duration = Duration::from_secs(2);
const PAUSE_MAX: Duration = Duration::from_secs(60);
const DONE_KEPT_MS: i64 = 24 * 60 * 60 * 1_000;
const CONFIGS_MAX: usize = 10;
/// Notifications of one user that are sent at the same time, so that one whose addresses answer slowly leaves places for the others.
const OF_USER_MAX: usize = outbound::AT_ONCE_MAX.div_ceil(4);
const ID_BYTES_MAX: usize = 100;
const SECRET_BYTES_MAX: usize = 4_000;

pub(super) struct Push {
    due: Notify,
    places: Arc<Semaphore>,
    /// What is being sent: user and key.
    under_way: Mutex<HashSet<(UserId, String)>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    config: PushConfig,
    /// The state that was sent to the address last, and when the run reached it.
    sent: String,
    sent_ms: i64,
}

impl Push {
    pub(super) fn new() -> Push {
        Push { due: Notify::new(), places: Arc::new(Semaphore::new(outbound::AT_ONCE_MAX)), under_way: Mutex::default() }
    }
}

fn key_of(run: &str, id: &str) -> String {
    format!("{run}/{id}")
}

/// Refuses what cannot be sent to.
pub(super) async fn check(a2a: &A2a, config: &PushConfig) -> Result<(), Problem> {
    let is_id = |id: &str| id.len() <= ID_BYTES_MAX && id.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if !is_id(&config.id) {
        return Err(wrong(format!("id has at most {ID_BYTES_MAX} letters, digits, `-`, `_` and `.`; leave it out for a new one")));
    }
    headers(config).map_err(wrong)?;
    outbound::resolved(a2a.api(), &config.url).await.map(drop).map_err(|why| wrong(format!("url: {why}")))
}

/// What a notification carries beside its body.
fn headers(config: &PushConfig) -> Result<HeaderMap, String> {
    let secret = |what: &str, text: &str| {
        let value = HeaderValue::from_str(text).ok().filter(|_| text.len() <= SECRET_BYTES_MAX);
        let mut value = value.ok_or_else(|| format!("{what} has at most {SECRET_BYTES_MAX} characters that a header can have"))?;
        value.set_sensitive(true);
        Ok::<_, String>(value)
    };
    let mut headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE))]);
    if !config.token.is_empty() {
        headers.insert(HeaderName::from_static(TOKEN_HEADER), secret("token", &config.token)?);
    }
    if let Some(authentication) = config.authentication.as_ref().filter(|authentication| !authentication.credentials.is_empty()) {
        let value = format!("{} {}", authentication.scheme, authentication.credentials);
        headers.insert(header::AUTHORIZATION, secret("authentication", &value)?);
    }
    Ok(headers)
}

/// Keeps a configuration that was checked. For a task that has ended nothing more is sent.
pub(super) async fn put(a2a: &A2a, user: &UserId, run: &str, mut config: PushConfig) -> Result<PushConfig, Problem> {
    let known = all(a2a, user, run).await?;
    if config.id.is_empty() {
        config.id = digest_of(&["push", run, &config.url, &known.len().to_string()], 16);
    }
    if known.len() >= CONFIGS_MAX && !known.iter().any(|one| one.id == config.id) {
        return Err(wrong(format!("a task has at most {CONFIGS_MAX} addresses; delete one first")));
    }
    run.clone_into(&mut config.task_id);
    let is_over = a2a.store().run(&RunId::from(run)).await?.is_none_or(|row| row.status.is_over());
    let record = Record { config: config.clone(), sent: String::new(), sent_ms: 0 };
    records::put(a2a.store(), user, if is_over { DONE } else { OPEN }, &key_of(run, &config.id), &record).await?;
    schedule_notifications(a2a, &RunId::from(run));
    Ok(config)
}

pub(super) async fn get(a2a: &A2a, user: &UserId, run: &str, id: &str) -> Result<PushConfig, Problem> {
    let found = all(a2a, user, run).await?.into_iter().find(|config| config.id == id);
    found.ok_or_else(|| refusal(TASK_NOT_FOUND, "the task has no such configuration of notifications"))
}

pub(super) async fn all(a2a: &A2a, user: &UserId, run: &str) -> Result<Vec<PushConfig>, Problem> {
    let mut found = Vec::new();
    for kind in [OPEN, DONE] {
        found.extend(records::list::<Record>(a2a.store(), user, kind, &key_of(run, "")).await?.into_iter().map(|stored| stored.value.config));
    }
    Ok(found)
}

/// Deleting twice is no mistake.
pub(super) async fn remove(a2a: &A2a, user: &UserId, run: &str, id: &str) -> Result<(), Problem> {
    for kind in [OPEN, DONE] {
        records::remove(a2a.store(), user, kind, &key_of(run, id)).await?;
    }
    Ok(())
}

/// Has the notifications looked at when this run rests.
pub(super) fn schedule_notifications(a2a: &A2a, run: &RunId) {
    let (a2a, run) = (a2a.clone(), run.clone());
    tokio::spawn(async move {
        // However it rests, it is in the store.
        let _ = a2a.api().0.engine.wait(&run).await;
        a2a.0.push.due.notify_one();
    });
}

/// Sends for as long as the routes are served.
pub(super) fn spawn(a2a: &A2a) {
    tokio::spawn(keep_sending(Arc::downgrade(&a2a.0)));
}

async fn keep_sending(inner: Weak<Inner>) {
    loop {
        let Some(a2a) = inner.upgrade().map(A2a) else { return };
        let began = Instant::now();
        if let Err(problem) = send_due(&a2a).await {
            tracing::debug!("push notifications could not be looked at: {}", problem.message);
        }
        tokio::time::sleep(pause_after(began.elapsed())).await;
        let _ = tokio::time::timeout(LOOK_AGAIN, a2a.0.push.due.notified()).await;
    }
}

/// Looking takes a tenth of the time at most, however many configurations somebody has and however often their tasks rest.
fn pause_after(took: Duration) -> Duration {
    (took * 9).min(PAUSE_MAX)
}

async fn send_due(a2a: &A2a) -> Result<(), Problem> {
    let mut pages = Pages::<Record>::of(OPEN);
    while let Some(page) = pages.next(a2a.store()).await? {
        for stored in page {
            let Some(run) = stored.key.split('/').next().map(RunId::from) else { continue };
            match a2a.store().run(&run).await? {
                None => drop(records::remove(a2a.store(), &stored.user, OPEN, &stored.key).await?),
                // Nothing has happened since.
                Some(row) if row.status == Status::Running || row.updated_ms == stored.value.sent_ms => {}
                Some(_) => send_later(a2a, stored, run),
            }
        }
    }
    Ok(())
}

/// Sends beside the others, unless this is being sent or too many are; then the next look finds it.
fn send_later(a2a: &A2a, stored: StoredRecord<Record>, run: RunId) {
    let push = &a2a.0.push;
    let Ok(place) = push.places.clone().try_acquire_owned() else { return };
    let name = (stored.user.clone(), stored.key.clone());
    let under_way = || a2a.0.push.under_way.lock().unwrap_or_else(PoisonError::into_inner);
    if !may_send(&mut under_way(), &name) {
        return;
    }
    let a2a = a2a.clone();
    tokio::spawn(async move {
        if let Err(problem) = send(&a2a, stored, &run).await
            && !is_missing(&problem)
        {
            tracing::warn!(%run, "a push notification could not be sent: {}", problem.message);
        }
        a2a.0.push.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
        drop(place);
    });
}

/// Adds what is to be sent, unless it is being sent or its user has too many under way.
fn may_send(under_way: &mut HashSet<(UserId, String)>, name: &(UserId, String)) -> bool {
    under_way.iter().filter(|(user, _)| *user == name.0).count() < OF_USER_MAX && under_way.insert(name.clone())
}

async fn send(a2a: &A2a, stored: StoredRecord<Record>, run: &RunId) -> Result<(), Problem> {
    let StoredRecord { user, key, value: Record { config, sent, .. }, .. } = stored;
    let who = Identity { user, is_operator: false };
    let row = a2a.row(&who, run.as_str()).await?;
    let sent_ms = row.updated_ms;
    let task = a2a.task(&who, row, Shape::of(None)?).await?;
    let state = mark(&task);
    let is_over = task.status.state.is_terminal();
    if state == sent || !(is_over || task.status.state.is_interrupted()) {
        return Ok(());
    }
    let body = json!(StreamResponse::Task(Box::new(task))).to_string();
    let headers = headers(&config).map_err(wrong)?;
    if let Err(why) = outbound::post(a2a.api(), &config.url, &headers, &body).await {
        tracing::warn!(%run, "a push notification was given up: {why}");
    }
    // Deleted meanwhile: nothing more is to be sent or kept.
    if records::get::<Record>(a2a.store(), &who.user, OPEN, &key).await?.is_none() {
        return Ok(());
    }
    let record = Record { config, sent: state, sent_ms };
    match is_over {
        false => records::put(a2a.store(), &who.user, OPEN, &key, &record).await,
        true => {
            forget_old(a2a, &who.user).await?;
            records::put(a2a.store(), &who.user, DONE, &key, &record).await?;
            records::remove(a2a.store(), &who.user, OPEN, &key).await.map(drop)
        }
    }
}

/// The state, and the question in it: another one is news.
fn mark(task: &Task) -> String {
    let message = task.status.message.as_ref().map(|message| message.message_id.as_str()).unwrap_or_default();
    format!("{:?} {message}", task.status.state)
}

async fn forget_old(a2a: &A2a, user: &UserId) -> Result<(), Problem> {
    let old_ms = now_ms() - DONE_KEPT_MS;
    for (_, key) in records::by_age(a2a.store(), user, DONE).await?.into_iter().take_while(|(updated_ms, _)| *updated_ms < old_ms) {
        records::remove(a2a.store(), user, DONE, &key).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_look_is_followed_by_a_longer_pause() {
        assert_eq!(pause_after(Duration::from_millis(1)), Duration::from_millis(9));
        assert_eq!(pause_after(Duration::from_secs(5)), Duration::from_secs(45));
        assert_eq!(pause_after(Duration::from_secs(600)), PAUSE_MAX);
    }

    #[test]
    fn one_user_leaves_places_for_the_others() {
        let mut under_way = HashSet::new();
        let name = |user: &str, key: usize| (UserId::from(user), key.to_string());
        let sent = (0..1_000).filter(|key| may_send(&mut under_way, &name("mallory", *key))).count();
        assert_eq!(sent, OF_USER_MAX);
        const { assert!(OF_USER_MAX < outbound::AT_ONCE_MAX) };
        assert!(may_send(&mut under_way, &name("ada", 1)) && !may_send(&mut under_way, &name("ada", 1)), "each is sent once");
    }
}

//! Somebody who does nothing wrong: asks, reads, uploads, deletes. Every answer must be right, and theirs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Observations, marker};
use crate::sim::dice::Dice;

/// Longer than anything takes here, even on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two acts, in milliseconds.
const PAUSE_MS: (u64, u64) = (300, 900);
const THREADS_MAX: usize = 3;

#[derive(Clone)]
pub(super) struct RegularUser {
    http: reqwest::Client,
    url: String,
    pub(super) user: String,
    token: String,
    seen: Arc<Observations>,
    dice: Dice,
    /// Threads and the runs in them, the oldest first.
    pub(super) threads: Vec<(String, String)>,
    stop: watch::Receiver<bool>,
}

impl RegularUser {
    pub(super) fn new(url: &str, user: &str, token: &str, seen: Arc<Observations>, stop: watch::Receiver<bool>) -> RegularUser {
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client can be made");
        let seed = user.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
        RegularUser {
            http,
            url: url.to_owned(),
            user: user.to_owned(),
            token: token.to_owned(),
            seen,
            dice: Dice::new(&[seed]),
            threads: Vec::new(),
            stop,
        }
    }

    pub(super) async fn every_act_once(&mut self) {
        for act in 0..ACTS {
            self.act(act).await;
        }
    }

    pub(super) async fn until(mut self, end: Instant) {
        while Instant::now() < end && !*self.stop.borrow() {
            let act = self.dice.below(ACTS);
            self.act(act).await;
            let pause = PAUSE_MS.0 + self.dice.below(PAUSE_MS.1 - PAUSE_MS.0);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    async fn act(&mut self, act: u64) {
        let marker = marker(&self.user);
        match act {
            0 | 1 => {
                let body = json!({ "question": format!("What happens after a crash? {marker}"), "flow": "search" });
                let Some(run) = self.call(Method::POST, "/api/runs?wait=1", Some(body), 201).await else { return };
                if let (Some(thread), Some(run)) = (run["thread"].as_str(), run["run"].as_str()) {
                    self.threads.push((thread.to_owned(), run.to_owned()));
                }
            }
            2 => drop(self.call(Method::GET, "/api/threads", None, 200).await),
            3 => drop(self.call(Method::GET, "/api/documents", None, 200).await),
            4 => {
                let Some((thread, run)) = self.threads.last().cloned() else { return };
                self.call(Method::GET, &format!("/api/runs/{run}/answer"), None, 200).await;
                self.call(Method::GET, &format!("/api/threads/{thread}"), None, 200).await;
            }
            5 => self.upload(&format!("# Notes\n\n{marker} The baton is passed in the zone.\n")).await,
            6 => drop(self.call(Method::GET, "/api/status", None, 200).await),
            _ if self.threads.len() > THREADS_MAX => {
                let (thread, _) = self.threads.remove(0);
                self.call(Method::DELETE, &format!("/api/threads/{thread}"), None, 204).await;
            }
            _ => drop(self.call(Method::GET, "/api/runs", None, 200).await),
        }
    }

    async fn upload(&self, text: &str) {
        let request =
            self.http.put(format!("{}/api/documents/notes.md", self.url)).header("content-type", "application/octet-stream").body(text.to_owned());
        self.send(request, "PUT /api/documents/notes.md", 201).await;
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>, wanted: u16) -> Option<Value> {
        let request = self.http.request(method.clone(), format!("{}{path}", self.url));
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        let text = self.send(request, &format!("{method} {path}"), wanted).await?;
        Some(serde_json::from_str(&text).unwrap_or_default())
    }

    async fn send(&self, request: reqwest::RequestBuilder, what: &str, wanted: u16) -> Option<String> {
        let began = Instant::now();
        let answered = async {
            let response = request.bearer_auth(&self.token).send().await?;
            let status = response.status().as_u16();
            Ok::<_, reqwest::Error>((status, response.text().await?))
        };
        match answered.await {
            Ok((status, text)) => {
                self.seen.answered(began.elapsed(), what);
                self.seen.look(&self.user, what, &text);
                if status == wanted {
                    return Some(text);
                }
                self.seen.error(format!("{}: {what}: {status} {}", self.user, text.chars().take(200).collect::<String>()));
            }
            Err(error) => self.seen.error(format!("{}: {what}: {error:?}", self.user)),
        }
        None
    }
}

const ACTS: u64 = 8;

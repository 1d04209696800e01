//! Requests to a Restate server over HTTP: drive a run (ingress), register a worker (admin API).

use std::time::Duration;

use engine::{Dispatcher, DriveRequest};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use graph::RunId;
use reqwest::{StatusCode, Url};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::bare::{CALLER_SERVICE, CALLS, CallsInput};
use crate::{DRIVE, THREAD_SERVICE};

const TIMEOUT: Duration = Duration::from_secs(10);
/// For a whole series of calls.
const BARE_TIMEOUT: Duration = Duration::from_secs(600);
/// How much of an error page is shown.
const WORDS_MAX: usize = 500;

/// Why a Restate server did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum ClientError {
    #[error("{0:?} is not an address of a Restate server; give one as http://HOST:PORT")]
    Address(String),
    #[error("the Restate server at {at} cannot be reached: {why}")]
    Unreachable { at: String, why: String },
    #[error("the Restate server at {at} refused: {status} {why}")]
    Refused { at: String, status: u16, why: String },
}

/// The input of `drive`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DriveInput {
    pub(crate) run: RunId,
}

/// One port of a Restate server: its ingress or its admin API.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    token: Option<String>,
}

impl Client {
    /// A client of the server at this address. The token is sent as bearer token.
    pub fn new(address: &str, token: Option<String>) -> Result<Client, ClientError> {
        let wrong = || ClientError::Address(address.to_owned());
        let base = Url::parse(address).map_err(|_| wrong())?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(wrong());
        }
        let http = reqwest::Client::builder().timeout(TIMEOUT).build().map_err(|error| ClientError::Address(format!("{address}: {error}")))?;
        Ok(Client { http, base, token })
    }

    /// Where it is.
    pub fn address(&self) -> &str {
        self.base.as_str()
    }

    /// Has a run driven. The same ticket is submitted once.
    pub async fn drive(&self, wanted: &DriveRequest) -> Result<(), ClientError> {
        let url = self.url(&[THREAD_SERVICE, wanted.thread.as_str(), DRIVE, "send"])?;
        let input = DriveInput { run: wanted.run.clone() };
        let request = self.http.post(url).header("idempotency-key", &wanted.ticket).json(&input);
        self.send(request).await.map(drop)
    }

    /// Makes the worker at this address known to the server, whose admin API this is. Returns the id of the deployment.
    pub async fn register(&self, worker: &str, is_forced: bool) -> Result<String, ClientError> {
        let url = self.url(&["deployments"])?;
        let body = self.send(self.http.post(url).json(&json!({ "uri": worker, "force": is_forced }))).await?;
        let id = serde_json::from_str::<serde_json::Value>(&body).ok().and_then(|body| body["id"].as_str().map(str::to_owned));
        Ok(id.unwrap_or_default())
    }

    /// Removes a deployment from the server, whose admin API this is.
    pub async fn unregister(&self, deployment: &str) -> Result<(), ClientError> {
        let mut url = self.url(&["deployments", deployment])?;
        url.query_pairs_mut().append_pair("force", "true");
        self.send(self.http.delete(url)).await.map(drop)
    }

    /// Whether the server, whose admin API this is, has a worker of Baton.
    pub async fn has_worker(&self) -> Result<bool, ClientError> {
        match self.send(self.http.get(self.url(&["services", THREAD_SERVICE])?)).await {
            Ok(_) => Ok(true),
            Err(ClientError::Refused { status: 404, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Has a [`BareService`](crate::BareService) make so many calls, one after the other, and waits for the last reply.
    pub async fn bare_calls(&self, key: &str, calls: u64, bytes: usize) -> Result<(), ClientError> {
        let url = self.url(&[CALLER_SERVICE, key, CALLS])?;
        self.send(self.http.post(url).timeout(BARE_TIMEOUT).json(&CallsInput { calls, bytes })).await.map(drop)
    }

    fn url(&self, path: &[&str]) -> Result<Url, ClientError> {
        let mut url = self.base.clone();
        url.path_segments_mut().map_err(|()| ClientError::Address(self.base.to_string()))?.pop_if_empty().extend(path);
        Ok(url)
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<String, ClientError> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let at = || self.base.to_string();
        let unreachable = |error: reqwest::Error| ClientError::Unreachable { at: at(), why: innermost(&error) };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let body = response.text().await.map_err(unreachable)?;
        match status.is_success() {
            true => Ok(body),
            false => Err(ClientError::Refused { at: at(), status: status.as_u16(), why: words(status, &body) }),
        }
    }
}

impl Dispatcher for Client {
    fn submit(&self, wanted: DriveRequest) -> BoxFuture<'_, Result<(), String>> {
        async move { self.drive(&wanted).await.map_err(|error| error.to_string()) }.boxed()
    }
}

fn words(status: StatusCode, body: &str) -> String {
    let message = serde_json::from_str::<serde_json::Value>(body).ok().and_then(|body| body["message"].as_str().map(str::to_owned));
    match (status, message) {
        (StatusCode::NOT_FOUND, _) if body.contains(THREAD_SERVICE) => {
            "it has no worker yet; start one with `baton worker --restate URL-OF-THE-ADMIN-API`".to_owned()
        }
        (_, Some(message)) => effects::clip(&message, WORDS_MAX),
        (_, None) => effects::clip(body, WORDS_MAX),
    }
}

fn innermost(error: &reqwest::Error) -> String {
    let mut words = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        words = cause.to_string();
        next = cause.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_and_names_are_escaped() {
        for wrong in ["restate", "ftp://restate", "http://", ""] {
            assert!(matches!(Client::new(wrong, None), Err(ClientError::Address(_))), "{wrong}");
        }
        let client = Client::new("http://127.0.0.1:8080/", None).unwrap();
        let url = client.url(&[THREAD_SERVICE, "a/b c?", DRIVE, "send"]).unwrap();
        assert_eq!(url.as_str(), "http://127.0.0.1:8080/BatonThread/a%2Fb%20c%3F/drive/send");
    }
}

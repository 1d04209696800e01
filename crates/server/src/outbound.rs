//! Requests to addresses that clients name: webhooks and push notifications.
//!
//! Such an address may lead anywhere: it must be public, its name is looked up once and the connection goes to what was checked, redirects are not followed, and what is
//! answered is not read.

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::HeaderMap;
use reqwest::Url;

use crate::api::Api;

/// Deliveries of a protocol at the same time.
pub(crate) const AT_ONCE_MAX: usize = 16;
const URL_BYTES_MAX: usize = 2_000;
const TIME_MAX: Duration = Duration::from_secs(10);
const TRIES_MAX: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The address, and where its name leads; an error is why nothing may be sent there.
pub(crate) async fn resolved(api: &Api, url: &str) -> Result<(Url, Vec<SocketAddr>), String> {
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
    match !addresses.is_empty() && addresses.iter().all(|address| api.0.backend.may_notify(address.ip())) {
        true => Ok((url, addresses)),
        false => Err(format!(
            "{host} is not on the public internet; loopback and private networks are refused unless the server's configuration names them ([notify] networks)"
        )),
    }
}

/// Posts JSON, again after a pause if that fails. Refused is refused: a status of 4xx is not tried again.
pub(crate) async fn post(api: &Api, url: &str, headers: &HeaderMap, body: &str) -> Result<(), String> {
    let mut pause = FIRST_PAUSE;
    let mut last = String::new();
    for attempt in 0..TRIES_MAX {
        if attempt > 0 {
            tokio::time::sleep(pause).await;
            pause *= 4;
        }
        last = match send(api, url, headers.clone(), body.to_owned()).await {
            Ok(status) if status.is_success() => return Ok(()),
            Ok(status) if status.is_client_error() => return Err(format!("status {status}")),
            Ok(status) => format!("status {status}"),
            Err(why) => why,
        };
    }
    Err(last)
}

async fn send(api: &Api, url: &str, headers: HeaderMap, body: String) -> Result<reqwest::StatusCode, String> {
    let (url, addresses) = resolved(api, url).await?;
    let host = url.host_str().unwrap_or_default().to_owned();
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(TIME_MAX)
        .no_proxy()
        .resolve_to_addrs(&host, &addresses)
        .build()
        .map_err(|error| error.to_string())?;
    let sent = client.post(url).headers(headers).body(body).send().await;
    sent.map(|response| response.status()).map_err(|error| error.without_url().to_string())
}

//! Gmail's REST API, in two steps that can be distinguished afterwards: a mail is first created as a draft (nothing is sent), and then that
//! draft is sent, which removes it from the drafts. After a crash between the two, the server is asked whether the mail is among the sent
//! ones (`rfc822msgid:`) or still a draft.

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::settings::Gmail as Settings;
use super::{MailError, TransportResult};

const REPLY_BYTES_MAX: usize = 1_000_000;
/// For calls that are safe to repeat, when the server is busy or unreachable.
const TRIES_MAX: u32 = 4;
const PAUSE_MS_MAX: u64 = 10_000;

pub(super) struct Gmail {
    settings: Settings,
    client: Client,
    /// The access token; requested when first needed, and again when the server rejects it.
    token: Mutex<Option<String>>,
}

pub(super) enum Found {
    Sent { reply: String },
    Draft,
    Nowhere,
}

impl Gmail {
    pub(super) fn new(settings: &Settings) -> Result<Self, MailError> {
        let broken = |e: reqwest::Error| MailError::Settings(format!("no HTTP client for Gmail can be made: {e}"));
        let client = Client::builder().timeout(Duration::from_secs(settings.timeout_seconds.max(1))).build().map_err(broken)?;
        Ok(Self { settings: settings.clone(), client, token: Mutex::new(None) })
    }

    /// Creates the mail as a draft. One created before a crash is found again instead of being created twice.
    pub(super) async fn draft(&self, message_id: &str, mail: &[u8]) -> Result<String, Fault> {
        let listed = self.call(Method::GET, &self.url("gmail/v1/users/me/drafts", &[("q", &by_id("", message_id))])?, Body::None, true).await?;
        if let Some(id) = listed.pointer("/drafts/0/id").and_then(Value::as_str) {
            return Ok(id.to_owned());
        }
        let url = self.url("upload/gmail/v1/users/me/drafts", &[("uploadType", "media")])?;
        let made = self.call(Method::POST, &url, Body::Mail(mail), true).await?;
        made["id"].as_str().map(str::to_owned).ok_or_else(|| Fault::plain("Gmail made a draft without saying its id"))
    }

    /// Sends the draft. The caller has recorded the intent.
    pub(super) async fn send(&self, draft: &str, message_id: &str) -> Result<TransportResult, MailError> {
        let url = match self.url("gmail/v1/users/me/drafts/send", &[]) {
            Ok(url) => url,
            Err(fault) => return Ok(TransportResult::Refused { reply: fault.words, again: false }),
        };
        let fault = match self.call(Method::POST, &url, Body::Json(json!({ "id": draft })), false).await {
            Ok(sent) => return Ok(TransportResult::Accepted { reply: format!("Gmail message {}", sent["id"].as_str().unwrap_or("without id")) }),
            Err(fault) => fault,
        };
        if fault.certain {
            return Ok(TransportResult::Refused { reply: fault.words, again: fault.again });
        }
        // The connection failed; the server knows the result.
        match self.find(draft, message_id).await {
            Ok(Found::Sent { reply }) => Ok(TransportResult::Accepted { reply }),
            Ok(Found::Draft | Found::Nowhere) | Err(_) => Ok(TransportResult::Unknown { why: fault.words }),
        }
    }

    pub(super) async fn find(&self, draft: &str, message_id: &str) -> Result<Found, Fault> {
        let url = self.url("gmail/v1/users/me/messages", &[("q", &by_id("in:sent ", message_id))])?;
        let listed = self.call(Method::GET, &url, Body::None, true).await?;
        if let Some(id) = listed.pointer("/messages/0/id").and_then(Value::as_str) {
            return Ok(Found::Sent { reply: format!("Gmail message {id}") });
        }
        let url = self.url(&format!("gmail/v1/users/me/drafts/{draft}"), &[("format", "minimal")])?;
        match self.call(Method::GET, &url, Body::None, true).await {
            Ok(_) => Ok(Found::Draft),
            Err(fault) if fault.status == Some(StatusCode::NOT_FOUND) => Ok(Found::Nowhere),
            Err(fault) => Err(fault),
        }
    }

    async fn call(&self, method: Method, url: &Url, body: Body<'_>, repeatable: bool) -> Result<Value, Fault> {
        let mut tries = 0;
        let mut renewed = false;
        loop {
            tries += 1;
            let token = self.token(renewed).await?;
            let request = body.on(self.client.request(method.clone(), url.clone())).bearer_auth(token);
            let fault = match request.send().await {
                Ok(response) if response.status().is_success() => return read(response).await,
                Ok(response) if response.status() == StatusCode::UNAUTHORIZED && !renewed => {
                    renewed = true;
                    tries -= 1;
                    continue;
                }
                Ok(response) => Fault::answered(response).await,
                Err(e) => Fault::broken(&e),
            };
            // A rate-limited call was not executed; one that failed inside the server may have been.
            let busy = fault.status == Some(StatusCode::TOO_MANY_REQUESTS);
            if tries >= TRIES_MAX || !fault.again || !(repeatable || busy) {
                return Err(fault);
            }
            tokio::time::sleep(Duration::from_millis(fault.pause_ms.unwrap_or(250 << tries).min(PAUSE_MS_MAX))).await;
        }
    }

    async fn token(&self, renew: bool) -> Result<String, Fault> {
        #[derive(Deserialize)]
        struct Granted {
            access_token: String,
        }
        let mut held = self.token.lock().await;
        if let (Some(token), false) = (&*held, renew) {
            return Ok(token.clone());
        }
        let settings = &self.settings;
        let failed = |error: MailError| Fault::plain(error.to_string());
        let client_secret = settings.client_secret.read("client secret for Gmail").await.map_err(failed)?;
        let refresh_token = settings.refresh_token.read("refresh token for Gmail").await.map_err(failed)?;
        let form = [
            ("grant_type", "refresh_token"),
            ("client_id", &settings.client_id),
            ("client_secret", &client_secret),
            ("refresh_token", &refresh_token),
        ];
        let form = Url::parse_with_params("http://form.invalid", form).ok().and_then(|url| url.query().map(str::to_owned)).unwrap_or_default();
        let asked = self.client.post(&settings.token_url).header("content-type", "application/x-www-form-urlencoded").body(form);
        let response = asked.send().await.map_err(|e| Fault { certain: true, ..Fault::broken(&e) })?;
        if !response.status().is_success() {
            let fault = Fault::answered(response).await;
            let words = format!("Gmail gives no access ({}): let the user sign in again and set a new refresh token", fault.words);
            return Err(Fault { words, certain: true, ..fault });
        }
        let granted: Granted =
            serde_json::from_value(read(response).await?).map_err(|e| Fault::plain(format!("Gmail's token makes no sense: {e}")))?;
        *held = Some(granted.access_token.clone());
        Ok(granted.access_token)
    }

    fn url(&self, path: &str, query: &[(&str, &str)]) -> Result<Url, Fault> {
        let text = format!("{}/{path}", self.settings.base_url.trim_end_matches('/'));
        let parsed = if query.is_empty() { Url::parse(&text) } else { Url::parse_with_params(&text, query) };
        parsed.map_err(|e| Fault::plain(format!("`base_url` of the Gmail settings is no address: {e}")))
    }
}

fn by_id(place: &str, message_id: &str) -> String {
    format!("{place}rfc822msgid:{}", message_id.trim_matches(['<', '>']))
}

enum Body<'a> {
    None,
    Json(Value),
    Mail(&'a [u8]),
}

impl Body<'_> {
    fn on(&self, request: RequestBuilder) -> RequestBuilder {
        match self {
            Body::None => request,
            Body::Json(value) => request.json(value),
            Body::Mail(mail) => request.header("content-type", "message/rfc822").body(mail.to_vec()),
        }
    }
}

/// What failed, and whether it is certain that nothing was done.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) words: String,
    pub(super) status: Option<StatusCode>,
    pub(super) again: bool,
    pub(super) certain: bool,
    pause_ms: Option<u64>,
}

impl Fault {
    fn plain(words: impl Into<String>) -> Self {
        Self { words: words.into(), status: None, again: false, certain: true, pause_ms: None }
    }

    fn broken(e: &reqwest::Error) -> Self {
        // Addresses may contain private data.
        let words = format!("Gmail cannot be reached: {}", if e.is_timeout() { "it took too long".into() } else { short(&source_words(e)) });
        Self { words, status: None, again: true, certain: e.is_connect(), pause_ms: None }
    }

    async fn answered(response: Response) -> Self {
        let status = response.status();
        let pause = response.headers().get("retry-after").and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
        let body = read_some(response).await.unwrap_or_default();
        let message = serde_json::from_slice::<Value>(&body).ok().and_then(|value| {
            let message = value.pointer("/error/message").or(value.pointer("/error_description")).or(value.pointer("/error"));
            message.and_then(Value::as_str).map(short)
        });
        let words = format!("Gmail answered {status}{}", message.map(|message| format!(": {message}")).unwrap_or_default());
        let again = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        Self { words, status: Some(status), again, certain: !status.is_server_error(), pause_ms: pause.map(|s| s.saturating_mul(1000)) }
    }
}

async fn read(response: Response) -> Result<Value, Fault> {
    // The status was success, so it was done; only the response body is lost.
    let lost = |words: String| Fault { certain: false, ..Fault::plain(words) };
    let body = read_some(response).await.map_err(|e| lost(format!("Gmail's answer broke off: {e}")))?;
    serde_json::from_slice(&body).map_err(|e| lost(format!("Gmail's answer is not JSON: {e}")))
}

async fn read_some(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|e| source_words(&e))? {
        if body.len() + chunk.len() > REPLY_BYTES_MAX {
            return Err(format!("it is longer than {REPLY_BYTES_MAX} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn source_words(e: &reqwest::Error) -> String {
    std::error::Error::source(e).map_or_else(|| "the connection broke".into(), ToString::to_string)
}

fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}

//! Fetches a body: each redirect passes the guard; bytes are counted after decompression, while they arrive.

use std::sync::Arc;

use futures::StreamExt as _;
use reqwest::header::{CONTENT_TYPE, LAST_MODIFIED, LOCATION};
use reqwest::{Client, Response, Url};

use super::Limits;
use super::guard::{self, AllowedHost, Lookup, RefusedHost, Resolver};

pub(super) struct Getter {
    /// Connects to public addresses only.
    guarded: Client,
    /// For hosts that the user has allowed.
    open: Client,
    allowed: Vec<AllowedHost>,
    limits: Limits,
    /// PDF and DOCX can be parsed.
    pub(super) has_reader: bool,
}

pub(super) struct FetchedBody {
    pub(super) address: Url,
    /// It was reached because the user allowed its host, so its address may be private.
    pub(super) is_internal: bool,
    pub(super) kind: String,
    pub(super) changed: Option<String>,
    pub(super) body: Vec<u8>,
}

const ADDRESS_BYTES_MAX: usize = 4_000;

impl Getter {
    pub(super) fn new(allowed: Vec<AllowedHost>, lookup: &Arc<dyn Lookup>, limits: Limits) -> Result<Getter, String> {
        let client = |only_public| {
            let resolver = Resolver { lookup: Arc::clone(lookup), only_public };
            let built = Client::builder()
                .dns_resolver(Arc::new(resolver))
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .referer(false)
                .connect_timeout(limits.time_max)
                .user_agent(concat!("Mozilla/5.0 (compatible; baton/", env!("CARGO_PKG_VERSION"), ")"))
                .build();
            built.map_err(|error| format!("no HTTP client: {error}"))
        };
        Ok(Getter { guarded: client(true)?, open: client(false)?, allowed, limits, has_reader: false })
    }

    pub(super) async fn get(&self, address: &str) -> Result<FetchedBody, String> {
        let address = address.trim();
        if address.len() > ADDRESS_BYTES_MAX {
            return Err(format!("the address has more than {ADDRESS_BYTES_MAX} bytes"));
        }
        let url =
            Url::parse(address).map_err(|error| format!("`{address}` is not a web address ({error}); give one such as https://example.org/page"))?;
        match tokio::time::timeout(self.limits.time_max, self.follow(url)).await {
            Ok(end) => end,
            Err(_) => Err(format!("{address} did not come within {} s; try another source", self.limits.time_max.as_secs_f32())),
        }
    }

    async fn follow(&self, mut url: Url) -> Result<FetchedBody, String> {
        for _ in 0..=self.limits.redirects_max {
            let is_allowed = self.allowed.iter().any(|allowed| allowed.covers(&url));
            guard::check(&url, is_allowed)?;
            let client = if is_allowed { &self.open } else { &self.guarded };
            let accept = "text/html, application/xhtml+xml, text/markdown, text/plain;q=0.9, application/json;q=0.8, */*;q=0.5";
            let response = client.get(url.clone()).header("accept", accept).send().await.map_err(|error| explain(&url, &error))?;
            if !response.status().is_redirection() {
                return self.receive(url, is_allowed, response).await;
            }
            let next = response.headers().get(LOCATION).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
            let next = next.ok_or_else(|| format!("{url} answers {} and names no other place", response.status()))?;
            url = url.join(next).map_err(|error| format!("{url} leads to `{}`, which is no address ({error})", crate::passage::cut(next, 200)))?;
        }
        Err(format!("more than {} redirects, the last to {url}", self.limits.redirects_max))
    }

    async fn receive(&self, address: Url, is_internal: bool, response: Response) -> Result<FetchedBody, String> {
        let status = response.status();
        if !status.is_success() {
            return Err(match status.as_u16() {
                401..=403 => format!("{address} answers {status}: it is not open to everybody; try another source"),
                404 | 410 => format!("{address} answers {status}: there is no such page; search for where it is now"),
                429 => format!("{address} answers {status}: too many requests; try later or another source"),
                _ => format!("{address} answers {status}; try later or another source"),
            });
        }
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let kind = header(CONTENT_TYPE).unwrap_or_default();
        let changed = header(LAST_MODIFIED);
        super::page::check_kind(&address, &kind, self.has_reader)?;
        let most = self.limits.body_bytes_max;
        let mut body = Vec::new();
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| explain(&address, &error))?;
            if body.len() + chunk.len() > most {
                return Err(format!("{address} has more than {most} bytes; look for a smaller page on the same thing"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(FetchedBody { address, is_internal, kind, changed, body })
    }
}

fn explain(url: &Url, error: &reqwest::Error) -> String {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut last = String::new();
    while let Some(inner) = cause {
        if let Some(refused) = inner.downcast_ref::<RefusedHost>() {
            return refused.to_string();
        }
        last = inner.to_string();
        cause = inner.source();
    }
    let what = if error.is_connect() {
        "cannot be reached"
    } else if error.is_decode() && !last.contains("end of file") {
        "sent something that cannot be unpacked"
    } else {
        "broke off"
    };
    format!("{url} {what} ({last}); check the address or try another source")
}

//! The search providers. A provider builds a request and parses its response; sending, limits and errors are shared.

mod brave;
mod searxng;
mod serper;
mod tavily;
mod wikipedia;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Url};
use serde_json::Value;

use crate::{Secret, Settings};

/// One result, as ranked by a provider.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The title of the page.
    pub title: String,
    /// The URL of the page.
    pub address: String,
    /// The excerpt that the provider returns.
    pub text: String,
    /// The date of publication, as the provider states it.
    pub at: Option<String>,
}

/// A search engine.
pub trait Provider: Send + Sync {
    /// The name in the configuration.
    fn name(&self) -> &'static str;
    /// The request for `size` results.
    fn request(&self, http: &Client, query: &str, size: usize) -> RequestBuilder;
    /// Best first.
    fn read(&self, reply: &Value) -> Result<Vec<Hit>, String>;
    /// What to do after a 401 or 403.
    fn when_refused(&self) -> &'static str;
    /// Its errors may repeat the key.
    fn redact(&self, text: &str) -> String {
        text.to_owned()
    }
}

/// Every provider, and what it needs.
pub const NAMES: [(&str, &str); 5] =
    [("serper", "SERPER_API_KEY"), ("tavily", "TAVILY_API_KEY"), ("brave", "BRAVE_API_KEY"), ("searxng", "SEARXNG_URL"), ("wikipedia", "nothing")];

/// The configured ones, in a fixed order.
pub fn configured(settings: &Settings) -> Result<Vec<Box<dyn Provider>>, String> {
    let mut found: Vec<Box<dyn Provider>> = Vec::new();
    if let Some(key) = settings.secret("SERPER_API_KEY") {
        found.push(Box::new(serper::Serper { base: base(settings, "SERPER_URL", "https://google.serper.dev")?, key }));
    }
    if let Some(key) = settings.secret("TAVILY_API_KEY") {
        found.push(Box::new(tavily::Tavily { base: base(settings, "TAVILY_URL", "https://api.tavily.com")?, key }));
    }
    if let Some(key) = settings.secret("BRAVE_API_KEY") {
        found.push(Box::new(brave::Brave { base: base(settings, "BRAVE_URL", "https://api.search.brave.com")?, key }));
    }
    if settings.var("SEARXNG_URL").is_some() {
        found.push(Box::new(searxng::Searxng { base: base(settings, "SEARXNG_URL", "")? }));
    }
    let language = settings.var("WIKIPEDIA_LANGUAGE").unwrap_or_else(|| "en".to_owned());
    if !language.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') {
        return Err(format!("WIKIPEDIA_LANGUAGE is `{language}`; it must be the first part of a Wikipedia's address, such as `en` or `de`"));
    }
    let base = base(settings, "WIKIPEDIA_URL", &format!("https://{language}.wikipedia.org"))?;
    found.push(Box::new(wikipedia::Wikipedia { base }));
    Ok(found)
}

fn base(settings: &Settings, name: &str, default: &str) -> Result<Url, String> {
    let text = settings.var(name).unwrap_or_else(|| default.to_owned());
    let mut url = Url::parse(&text).map_err(|error| format!("{name} is not a web address: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{name} must begin with https:// or http://"));
    }
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

fn at(base: &Url, path: &str) -> Url {
    base.join(path).unwrap_or_else(|_| base.clone())
}

/// A key as a header that is not logged.
fn keyed(request: RequestBuilder, name: &'static str, prefix: &str, key: &Secret) -> RequestBuilder {
    match HeaderValue::from_str(&format!("{prefix}{}", key.reveal())) {
        Ok(mut value) => {
            value.set_sensitive(true);
            request.header(HeaderName::from_static(name), value)
        }
        // A key with a line break in it: the provider will report it as missing.
        Err(_) => request,
    }
}

/// The list at this path, or an error about what was found instead.
fn list<'v>(reply: &'v Value, path: &[&str]) -> Result<&'v [Value], String> {
    let mut value = reply;
    for name in path {
        match value.get(name) {
            Some(inner) => value = inner,
            None => return Ok(&[]),
        }
    }
    value.as_array().map(Vec::as_slice).ok_or_else(|| format!("its reply has no list at `{}`", path.join(".")))
}

fn text(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).unwrap_or_default()
}

fn some_text(value: &Value, name: &str) -> Option<String> {
    Some(text(value, name)).filter(|text| !text.is_empty())
}

/// Results without an address or text are dropped.
fn hit(title: String, address: String, text: String, at: Option<String>) -> Option<Hit> {
    let is_web = address.starts_with("https://") || address.starts_with("http://");
    (is_web && !(title.is_empty() && text.is_empty())).then(|| {
        let text = if text.is_empty() { title.clone() } else { text };
        Hit { title, address, text, at }
    })
}

fn without_marks(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('<') {
        plain.push_str(&rest[..open]);
        let is_mark = ["<strong>", "</strong>", "<b>", "</b>", "<em>", "</em>"].into_iter().find(|mark| rest[open..].starts_with(mark));
        let skip = is_mark.map_or(1, str::len);
        if is_mark.is_none() {
            plain.push('<');
        }
        rest = &rest[open + skip..];
    }
    plain.push_str(rest);
    [("&quot;", "\""), ("&#x27;", "'"), ("&#39;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")]
        .into_iter()
        .fold(plain, |plain, (from, to)| plain.replace(from, to))
}

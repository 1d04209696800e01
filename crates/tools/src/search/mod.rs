//! Web search: queries several providers at once and merges their lists into passages with sources.
//!
//! Every provider that is configured (a key, an address) is queried, and Wikipedia, which needs nothing. A failed one is named in the
//! reply; the call fails only if all do.

mod merge;
pub mod provider;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use evidence::Trust;
use futures::StreamExt as _;
use futures::future::join_all;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::passage::cut;
use crate::{Builtin, Hints, Kind, Passage, Passages, Settings, Tool, ToolError, ToolOutput, Toolset};
use provider::{Hit, Provider};

/// The server `search`: web search with several providers.
pub const KIND: Kind = Kind {
    name: "search",
    about: "Searches the web with every provider that is configured (Serper, Tavily, Brave, SearXNG) and Wikipedia, and merges what they find",
    port: 8001,
    trust: Trust::Untrusted,
    make,
};

const SIZE_DEFAULT: usize = 8;
const SIZE_MAX: usize = 20;
const QUERY_CHARS_MAX: usize = 400;
/// Limits of a provider's time and response size.
const PROVIDER_MAX: Duration = Duration::from_secs(10);
const BODY_BYTES_MAX: usize = 2 << 20;
const PASSAGE_BYTES_MAX: usize = 2_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    /// What to look for, in a few words or as a question.
    query: String,
    /// How many passages to give, from 1 to 20; 8 if not said.
    #[serde(default)]
    #[schemars(range(min = 1, max = 20))]
    size: Option<usize>,
    /// Ask only this one: serper, tavily, brave, searxng or wikipedia. Otherwise all that are configured are asked.
    #[serde(default)]
    provider: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SearchOutput {
    /// What was found, as one text.
    text: String,
    /// From 0 to 1: how well what was found fits the query, not how true it is.
    confidence: f64,
    /// Best first.
    passages: Vec<Passage>,
    /// Who answered.
    providers: Vec<String>,
    /// Who did not, and why.
    failed: Vec<Failed>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Failed {
    provider: String,
    why: String,
}

fn make(kind: &Kind, settings: &Settings) -> Result<Builtin, String> {
    // Settings that cannot work are reported at once.
    provider::configured(settings)?;
    let settings = Settings { env: settings.env.clone(), ..Settings::bare() };
    let searcher = Arc::new(Searcher::new(Box::new(move || provider::configured(&settings)), PROVIDER_MAX)?);
    let search = Tool::new(
        "search",
        "Search the web. Gives passages with title, address and confidence, best first. Use it for facts you do not have, for what is new, \
         and to find pages that `fetch` can then read whole.",
        Hints::READS_WORLD,
        move |takes: SearchArguments, _| {
            let searcher = Arc::clone(&searcher);
            async move { searcher.search(&takes).await }
        },
    );
    Ok(kind.around(Toolset::new(kind.name, kind.about, [search])))
}

/// Gives the providers that are configured at the moment of a search: keys may be stored and removed meanwhile.
type Providers = Box<dyn Fn() -> Result<Vec<Box<dyn Provider>>, String> + Send + Sync>;

struct Searcher {
    providers: Providers,
    http: reqwest::Client,
    provider_max: Duration,
}

impl Searcher {
    fn new(providers: Providers, provider_max: Duration) -> Result<Searcher, String> {
        // A redirect would send the key's header to its target.
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("baton/", env!("CARGO_PKG_VERSION"), " (research assistant)"))
            .build()
            .map_err(|error| format!("no HTTP client: {error}"))?;
        Ok(Searcher { providers, http, provider_max })
    }

    async fn search(&self, takes: &SearchArguments) -> Result<ToolOutput<SearchOutput>, ToolError> {
        let query = takes.query.split_whitespace().collect::<Vec<_>>().join(" ");
        if query.is_empty() {
            return Err("`query` is empty; say what to look for".into());
        }
        if query.chars().count() > QUERY_CHARS_MAX {
            return Err(ToolError(format!("`query` is longer than {QUERY_CHARS_MAX} characters; ask for the few words that matter")));
        }
        let size = takes.size.unwrap_or(SIZE_DEFAULT);
        if !(1..=SIZE_MAX).contains(&size) {
            return Err(ToolError(format!("`size` is {size}; it must be from 1 to {SIZE_MAX}")));
        }
        let providers = (self.providers)().map_err(ToolError)?;
        let asked = asked(&providers, takes.provider.as_deref())?;
        let answers = join_all(asked.iter().map(|provider| self.ask(*provider, &query, size))).await;
        let mut lists: Vec<(&'static str, Vec<Hit>)> = Vec::new();
        let mut failed = Vec::new();
        for (provider, answer) in asked.iter().zip(answers) {
            match answer {
                Ok(hits) => lists.push((provider.name(), hits)),
                Err(why) => {
                    tracing::warn!(provider = provider.name(), %why, "a search provider failed");
                    failed.push(Failed { provider: provider.name().to_owned(), why });
                }
            }
        }
        if lists.is_empty() {
            let whys: String = failed.iter().map(|failed| format!("\n- {}: {}", failed.provider, failed.why)).collect();
            return Err(ToolError(format!(
                "no search provider answered:{whys}\nTry again later, name another `provider`, answer from other tools (docs), or configure one: \
                 SERPER_API_KEY, TAVILY_API_KEY, BRAVE_API_KEY or SEARXNG_URL"
            )));
        }
        Ok(search_output(&query, size, &lists, failed))
    }

    async fn ask(&self, provider: &dyn Provider, query: &str, size: usize) -> Result<Vec<Hit>, String> {
        let work = async {
            let response = provider.request(&self.http, query, size).send().await.map_err(|error| plain(&error))?;
            let status = response.status();
            let wait = response.headers().get(reqwest::header::RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
            let body = bounded(response).await?;
            if !status.is_success() {
                return Err(provider.redact(&refused(provider, status, wait.as_deref(), &body)));
            }
            let value = serde_json::from_slice(&body).map_err(|error| format!("its reply is not JSON ({error})"))?;
            let mut hits = provider.read(&value).map_err(|why| provider.redact(&why))?;
            hits.truncate(size);
            Ok(hits)
        };
        match tokio::time::timeout(self.provider_max, work).await {
            Ok(end) => end,
            Err(_) => Err(format!("no answer within {} s", self.provider_max.as_secs_f32())),
        }
    }
}

fn asked<'p>(providers: &'p [Box<dyn Provider>], only: Option<&str>) -> Result<Vec<&'p dyn Provider>, ToolError> {
    let Some(only) = only.map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty()) else {
        return Ok(providers.iter().map(Box::as_ref).collect());
    };
    let found: Vec<&dyn Provider> = providers.iter().map(Box::as_ref).filter(|provider| provider.name() == only).collect();
    if found.is_empty() {
        let here: Vec<&str> = providers.iter().map(|provider| provider.name()).collect();
        let known = provider::NAMES.iter().find(|(name, _)| *name == only);
        return Err(ToolError(match known {
            Some((name, needs)) => format!("the provider `{name}` is not configured: set {needs}; configured are {}", here.join(", ")),
            None => format!("there is no provider `{only}`; configured are {}", here.join(", ")),
        }));
    }
    Ok(found)
}

fn search_output(query: &str, size: usize, lists: &[(&'static str, Vec<Hit>)], failed: Vec<Failed>) -> ToolOutput<SearchOutput> {
    let merged = merge::merge(query, lists, size);
    let confidence = merge::overall(&merged);
    let passages: Vec<Passage> = merged
        .into_iter()
        .map(|merged| Passage {
            text: cut(&merged.hit.text, PASSAGE_BYTES_MAX),
            title: Some(merged.hit.title).filter(|title| !title.is_empty()),
            address: Some(merged.hit.address),
            place: None,
            at: merged.hit.at,
            confidence: Some(merged.confidence),
        })
        .collect();
    let providers: Vec<String> = lists.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut text =
        if passages.is_empty() { format!("Nothing was found for “{query}”. Try fewer or other words.") } else { Passages(&passages).to_string() };
    for failed in &failed {
        text.push_str(&format!("\n\n({} did not answer: {})", failed.provider, failed.why));
    }
    ToolOutput { text: text.clone(), data: SearchOutput { text, confidence, passages, providers, failed } }
}

/// Reads up to the size limit of a search response.
async fn bounded(response: reqwest::Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk.map_err(|error| plain(&error))?);
        if body.len() > BODY_BYTES_MAX {
            return Err(format!("its reply has more than {BODY_BYTES_MAX} bytes"));
        }
    }
    Ok(body)
}

fn refused(provider: &dyn Provider, status: reqwest::StatusCode, wait: Option<&str>, body: &[u8]) -> String {
    let detail = cut(&String::from_utf8_lossy(body).split_whitespace().collect::<Vec<_>>().join(" "), 200);
    let next = match status.as_u16() {
        401 | 403 => provider.when_refused().to_owned(),
        402 => "its account has no credit left".to_owned(),
        429 => match wait {
            Some(wait) => format!("too many requests; it asks to wait {wait} s"),
            None => "too many requests; wait a while".to_owned(),
        },
        500.. => "it has trouble of its own; try again later".to_owned(),
        _ => "it refused the request".to_owned(),
    };
    format!("{status}: {next}{}{detail}", if detail.is_empty() { "" } else { " — " })
}

/// An error of the HTTP client without the URL, which may contain credentials.
fn plain(error: &reqwest::Error) -> String {
    let mut text = if error.is_timeout() {
        "no answer in time".to_owned()
    } else if error.is_connect() {
        "it cannot be reached".to_owned()
    } else {
        "the exchange broke off".to_owned()
    };
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        if inner.source().is_none() {
            text.push_str(&format!(" ({inner})"));
        }
        cause = inner.source();
    }
    text
}

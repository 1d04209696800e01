//! SearXNG: a self-hosted metasearch engine. Most instances must enable JSON output.

use reqwest::{Client, RequestBuilder, Url};
use serde_json::Value;

use super::{Hit, Provider, at, hit, list, some_text, text};

pub(super) struct Searxng {
    pub(super) base: Url,
}

impl Provider for Searxng {
    fn name(&self) -> &'static str {
        "searxng"
    }

    fn request(&self, http: &Client, query: &str, _size: usize) -> RequestBuilder {
        let mut url = at(&self.base, "search");
        url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
        http.get(url)
    }

    fn read(&self, reply: &Value) -> Result<Vec<Hit>, String> {
        if reply.get("results").is_none() {
            return Err("its reply has no list at `results`; is SEARXNG_URL a SearXNG?".to_owned());
        }
        let one = |found: &Value| hit(text(found, "title"), text(found, "url"), text(found, "content"), some_text(found, "publishedDate"));
        Ok(list(reply, &["results"])?.iter().filter_map(one).collect())
    }

    fn when_refused(&self) -> &'static str {
        "the instance does not give JSON; add `json` to `search.formats` in its settings.yml"
    }
}

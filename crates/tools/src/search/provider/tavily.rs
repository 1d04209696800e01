//! Tavily: a search API for agents, with the longest texts.

use reqwest::{Client, RequestBuilder, Url};
use serde_json::{Value, json};

use super::{Hit, Provider, at, hit, keyed, list, some_text, text};
use crate::Secret;

pub(super) struct Tavily {
    pub(super) base: Url,
    pub(super) key: Secret,
}

impl Provider for Tavily {
    fn name(&self) -> &'static str {
        "tavily"
    }

    fn request(&self, http: &Client, query: &str, size: usize) -> RequestBuilder {
        let body = json!({"query": query, "max_results": size, "search_depth": "basic", "include_answer": false});
        keyed(http.post(at(&self.base, "search")), "authorization", "Bearer ", &self.key).json(&body)
    }

    fn read(&self, reply: &Value) -> Result<Vec<Hit>, String> {
        let one = |found: &Value| hit(text(found, "title"), text(found, "url"), text(found, "content"), some_text(found, "published_date"));
        Ok(list(reply, &["results"])?.iter().filter_map(one).collect())
    }

    fn when_refused(&self) -> &'static str {
        "the key in TAVILY_API_KEY is not accepted"
    }

    fn redact(&self, text: &str) -> String {
        self.key.redact_in(text)
    }
}

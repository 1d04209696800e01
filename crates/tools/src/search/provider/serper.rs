//! Serper: Google's results as JSON. A knowledge panel, if any, precedes the list.

use reqwest::{Client, RequestBuilder, Url};
use serde_json::{Value, json};

use super::{Hit, Provider, at, hit, keyed, list, some_text, text};
use crate::Secret;

pub(super) struct Serper {
    pub(super) base: Url,
    pub(super) key: Secret,
}

impl Provider for Serper {
    fn name(&self) -> &'static str {
        "serper"
    }

    fn request(&self, http: &Client, query: &str, size: usize) -> RequestBuilder {
        keyed(http.post(at(&self.base, "search")), "x-api-key", "", &self.key).json(&json!({"q": query, "num": size}))
    }

    fn read(&self, reply: &Value) -> Result<Vec<Hit>, String> {
        let boxed = reply.get("answerBox").and_then(|found| {
            let words = some_text(found, "answer").or_else(|| some_text(found, "snippet"))?;
            hit(text(found, "title"), text(found, "link"), words, some_text(found, "date"))
        });
        let graph =
            reply.get("knowledgeGraph").and_then(|found| hit(text(found, "title"), text(found, "descriptionLink"), text(found, "description"), None));
        let one = |found: &Value| hit(text(found, "title"), text(found, "link"), text(found, "snippet"), some_text(found, "date"));
        Ok(boxed.into_iter().chain(graph).chain(list(reply, &["organic"])?.iter().filter_map(one)).collect())
    }

    fn when_refused(&self) -> &'static str {
        "the key in SERPER_API_KEY is not accepted"
    }

    fn redact(&self, text: &str) -> String {
        self.key.redact_in(text)
    }
}

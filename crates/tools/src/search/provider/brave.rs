//! Brave's own index. Descriptions contain markup around the matching words.

use reqwest::{Client, RequestBuilder, Url};
use serde_json::Value;

use super::{Hit, Provider, at, hit, keyed, list, some_text, text, without_marks};
use crate::Secret;

pub(super) struct Brave {
    pub(super) base: Url,
    pub(super) key: Secret,
}

impl Provider for Brave {
    fn name(&self) -> &'static str {
        "brave"
    }

    fn request(&self, http: &Client, query: &str, size: usize) -> RequestBuilder {
        let mut url = at(&self.base, "res/v1/web/search");
        url.query_pairs_mut().append_pair("q", query).append_pair("count", &size.to_string());
        keyed(http.get(url), "x-subscription-token", "", &self.key).header("accept", "application/json")
    }

    fn read(&self, reply: &Value) -> Result<Vec<Hit>, String> {
        let one = |found: &Value| {
            let more = found.get("extra_snippets").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            let words: Vec<String> =
                std::iter::once(text(found, "description")).chain(more.map(str::to_owned)).map(|text| without_marks(&text)).collect();
            hit(without_marks(&text(found, "title")), text(found, "url"), words.join(" ").trim().to_owned(), some_text(found, "page_age"))
        };
        Ok(list(reply, &["web", "results"])?.iter().filter_map(one).collect())
    }

    fn when_refused(&self) -> &'static str {
        "the key in BRAVE_API_KEY is not accepted"
    }

    fn redact(&self, text: &str) -> String {
        self.key.redact_in(text)
    }
}

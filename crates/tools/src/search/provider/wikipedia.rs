//! Wikipedia, without a key: a full-text search that returns the introduction of each article.

use reqwest::{Client, RequestBuilder, Url};
use serde_json::Value;

use super::{Hit, Provider, at, hit, list, text};

pub(super) struct Wikipedia {
    pub(super) base: Url,
}

impl Provider for Wikipedia {
    fn name(&self) -> &'static str {
        "wikipedia"
    }

    fn request(&self, http: &Client, query: &str, size: usize) -> RequestBuilder {
        let mut url = at(&self.base, "w/api.php");
        let size = size.to_string();
        let pairs = [
            ("action", "query"),
            ("format", "json"),
            ("formatversion", "2"),
            ("generator", "search"),
            ("gsrsearch", query),
            ("gsrlimit", &size),
            ("prop", "extracts|info|revisions"),
            ("exintro", "1"),
            ("explaintext", "1"),
            ("exlimit", "20"),
            ("inprop", "url"),
            ("rvprop", "timestamp"),
        ];
        url.query_pairs_mut().extend_pairs(pairs);
        http.get(url)
    }

    fn read(&self, reply: &Value) -> Result<Vec<Hit>, String> {
        if let Some(error) = reply.get("error") {
            return Err(format!("it says {}: {}", text(error, "code"), text(error, "info")));
        }
        if reply.get("query").is_none() && reply.get("batchcomplete").is_none() {
            return Err("its reply is not one of Wikipedia's".to_owned());
        }
        // Pages are ordered by id; `index` is the search rank.
        let mut pages: Vec<&Value> = list(reply, &["query", "pages"])?.iter().collect();
        pages.sort_by_key(|page| page.get("index").and_then(Value::as_i64).unwrap_or(i64::MAX));
        let one = |page: &&Value| {
            let revised = page.get("revisions").and_then(|revisions| revisions.get(0)).and_then(|revision| revision.get("timestamp"));
            hit(text(page, "title"), text(page, "fullurl"), text(page, "extract"), revised.and_then(Value::as_str).map(str::to_owned))
        };
        Ok(pages.iter().filter_map(one).collect())
    }

    fn when_refused(&self) -> &'static str {
        "it does not serve this network; set another provider"
    }
}

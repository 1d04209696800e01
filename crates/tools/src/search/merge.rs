//! Merges several ranked lists by reciprocal rank; the same page under two forms of its address is one page.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Url;

use super::provider::Hit;

pub(super) struct Merged {
    pub(super) hit: Hit,
    pub(super) confidence: f64,
}

/// The usual constant of reciprocal rank fusion: a first place counts little more than a third.
const RANK_SOFTENING: f64 = 60.0;

/// Best first, at most `size`.
pub(super) fn merge(query: &str, lists: &[(&'static str, Vec<Hit>)], size: usize) -> Vec<Merged> {
    struct Page {
        hit: Hit,
        score: f64,
        rank: usize,
        named_by: usize,
        order: usize,
    }
    let mut pages: BTreeMap<String, Page> = BTreeMap::new();
    for (_, hits) in lists {
        let mut seen = BTreeSet::new();
        for (rank, hit) in hits.iter().enumerate() {
            let key = canonical(&hit.address);
            // A page that a provider lists twice counts once.
            if !seen.insert(key.clone()) {
                continue;
            }
            let order = pages.len();
            let page = pages.entry(key).or_insert_with(|| Page { hit: hit.clone(), score: 0.0, rank, named_by: 0, order });
            page.score += 1.0 / (RANK_SOFTENING + 1.0 + rank as f64);
            page.rank = page.rank.min(rank);
            page.named_by += 1;
            if hit.text.len() > page.hit.text.len() {
                page.hit.text.clone_from(&hit.text);
            }
            if page.hit.at.is_none() {
                page.hit.at.clone_from(&hit.at);
            }
        }
    }
    let mut pages: Vec<Page> = pages.into_values().collect();
    pages.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.rank.cmp(&b.rank)).then(a.order.cmp(&b.order)));
    pages.truncate(size);
    let wanted = words(query);
    let asked = lists.len().max(1) as f64;
    let confident = |page: Page| {
        let found = words(&format!("{} {}", page.hit.title, page.hit.text));
        let covered = if wanted.is_empty() { 0.5 } else { wanted.intersection(&found).count() as f64 / wanted.len() as f64 };
        let ranked = 1.0 / (1.0 + page.rank as f64 / 3.0);
        let agreed = page.named_by as f64 / asked;
        // Mostly whether it covers the query; then its ranks, and the number of providers.
        let confidence = 0.6 * covered + 0.25 * ranked + 0.15 * agreed;
        Merged { hit: page.hit, confidence: (confidence * 100.0).round() / 100.0 }
    };
    pages.into_iter().map(confident).collect()
}

/// The confidence of the best passage: one good page is enough.
pub(super) fn overall(merged: &[Merged]) -> f64 {
    merged.iter().map(|merged| merged.confidence).fold(0.0, f64::max)
}

/// One form per page: without scheme, `www.`, trailing slash, fragment, and tracking parameters.
fn canonical(address: &str) -> String {
    let Ok(url) = Url::parse(address) else { return address.to_owned() };
    let host = url.host_str().unwrap_or_default().trim_start_matches("www.").replace(".m.wikipedia.org", ".wikipedia.org");
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let mut pairs: Vec<(String, String)> = url.query_pairs().into_owned().filter(|(name, _)| !is_mark(name)).collect();
    pairs.sort();
    let query: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{host}{port}{}?{}", url.path().trim_end_matches('/'), query.join("&"))
}

fn is_mark(name: &str) -> bool {
    name.starts_with("utm_") || ["gclid", "fbclid", "msclkid", "mc_cid", "mc_eid", "igshid", "ref_src"].contains(&name)
}

fn words(text: &str) -> BTreeSet<String> {
    const SMALL: [&str; 24] = [
        "a", "an", "and", "are", "at", "by", "did", "do", "does", "for", "from", "how", "in", "is", "of", "on", "or", "the", "to", "was", "what",
        "when", "who", "with",
    ];
    let all = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase);
    all.filter(|word| !SMALL.contains(&word.as_str()))
        .map(|word| word.strip_suffix('s').filter(|stem| stem.len() > 3).map(str::to_owned).unwrap_or(word))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_page_has_one_spelling() {
        let same = ["https://www.example.org/a/?utm_source=x&b=2&a=1#part", "http://example.org/a?a=1&b=2", "https://example.org/a/?b=2&a=1&gclid=7"];
        for address in same {
            assert_eq!(canonical(address), canonical(same[0]), "{address}");
        }
        for other in
            ["https://example.org/b?a=1&b=2", "https://example.org/a?a=1", "https://example.org:8080/a?a=1&b=2", "https://example.com/a?a=1&b=2"]
        {
            assert_ne!(canonical(other), canonical(same[0]), "{other}");
        }
    }

    #[test]
    fn pages_named_by_more_providers_come_first() {
        let hit = |address: &str, text: &str| Hit { title: String::new(), address: address.into(), text: text.into(), at: None };
        let lists = [
            ("one", vec![hit("https://a.org", "alpha"), hit("https://b.org/x/", "beta gamma"), hit("https://a.org/", "alpha again")]),
            ("two", vec![hit("https://www.b.org/x", "beta gamma delta, at length"), hit("https://c.org", "gamma")]),
        ];
        let merged = merge("beta gamma", &lists, 10);
        let order: Vec<&str> = merged.iter().map(|merged| merged.hit.address.as_str()).collect();
        assert_eq!(order, ["https://b.org/x/", "https://a.org", "https://c.org"]);
        assert_eq!(merged[0].hit.text, "beta gamma delta, at length");
        assert_eq!(merged[0].confidence, 1.0);
        assert!(merged[1].confidence < 0.4, "{}", merged[1].confidence);
        assert_eq!(overall(&merged), 1.0);
        assert_eq!(merge("x", &lists, 1).len(), 1);
        assert_eq!(overall(&merge("x", &[], 5)), 0.0);
    }
}

use std::collections::BTreeSet;

use serde_json::json;

use super::{DATA, Query, Stories};
use crate::testing::session;

#[test]
fn the_data_is_sound() {
    let stories = Stories::read(DATA).unwrap();
    assert!((190..=220).contains(&stories.all.len()), "{}", stories.all.len());
    let ids: BTreeSet<&str> = stories.all.iter().map(|(story, _)| story.id.as_str()).collect();
    let titles: BTreeSet<&str> = stories.all.iter().map(|(story, _)| story.title.as_str()).collect();
    let texts: BTreeSet<&str> = stories.all.iter().map(|(story, _)| story.text.as_str()).collect();
    assert_eq!((ids.len(), titles.len(), texts.len()), (stories.all.len(), stories.all.len(), stories.all.len()));
    for (story, _) in &stories.all {
        assert!(["backlog", "ready", "in progress", "in review", "done"].contains(&story.status.as_str()), "{story:?}");
        assert!([1, 2, 3, 5, 8, 13].contains(&story.points), "{story:?}");
        assert!(story.text.len() > 45 && story.tags.len() <= 5, "{story:?}");
    }
}

#[test]
fn queries_are_words_and_tags() {
    let set = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<_>>();
    let rows = [
        ("upstream keyword", Query { words: set(&["upstream", "keyword"]), tags: set(&[]), any_tag: false }),
        ("upstream tag:backend", Query { words: set(&["upstream"]), tags: set(&["backend"]), any_tag: false }),
        ("Upstream TAG:*", Query { words: set(&["upstream"]), tags: set(&[]), any_tag: true }),
        ("tag:api tag:\"billing\"", Query { words: set(&[]), tags: set(&["api", "billing"]), any_tag: false }),
        ("tag:api,billing", Query { words: set(&[]), tags: set(&["api", "billing"]), any_tag: false }),
        ("retry-policy", Query { words: set(&["retry", "policy"]), tags: set(&[]), any_tag: false }),
    ];
    for (text, query) in rows {
        assert_eq!(Query::read(text), query, "{text}");
    }
}

/// The numbers of the specification's example.
#[tokio::test]
async fn how_many_stories_have_the_upstream_keyword() {
    let stories = session("stories").await;
    for (query, size, total, shown) in
        [("upstream", 50, 12, 12), ("upstream tag:*", 50, 5, 5), ("upstream tag:backend", 5, 5, 5), ("upstream", 4, 12, 4)]
    {
        let reply = stories.call("search_stories", json!({"query": query, "size": size})).await;
        let list = reply.data["stories"].as_array().unwrap();
        assert_eq!((reply.data["total"].as_u64(), list.len()), (Some(total), shown), "{query}");
        assert!(reply.text.contains(&format!("Found {total} stories")), "{}", reply.text);
        assert_eq!(reply.data["passages"].as_array().unwrap().len(), shown);
        for story in list {
            assert!(story.to_string().to_lowercase().contains("upstream"), "{story}");
        }
    }
}

#[tokio::test]
async fn what_else_is_asked() {
    let stories = session("stories").await;
    let part = stories.call("search_stories", json!({"query": "upstream zeppelin"})).await;
    assert_eq!((part.data["matched"].as_str(), part.data["total"].as_u64()), (Some("any"), Some(12)));
    let none = stories.call("search_stories", json!({"query": "zeppelin"})).await;
    assert_eq!((none.data["total"].as_u64(), none.text.contains("no stories")), (Some(0), true));
    stories.refuses("search_stories", json!({"query": "  "}), &["tag:*"]).await;
    stories.refuses("search_stories", json!({"query": "tag:wibble"}), &["the tags are", "backend"]).await;
    stories.refuses("search_stories", json!({"query": "x", "size": 0}), &["1 to 50"]).await;
    stories.refuses("search_stories", json!({"query": "x", "size": -3}), &["size (integer"]).await;
}

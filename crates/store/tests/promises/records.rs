//! Documents of users: each user has their own, by kind and key, and they count as stored.

use baton_store::{NewRecord, RECORD_BYTES_MAX, RecordFilter, StoreError};
use serde_json::{Value, json};

use crate::hand::{NOW, TestStore};

fn new(user: &str, kind: &str, key: &str, value: Value) -> NewRecord {
    NewRecord { user: user.into(), kind: kind.into(), key: key.into(), value, at_ms: NOW }
}

async fn keys(home: &TestStore, kind: &str, user: Option<&str>, key_prefix: &str, limit: usize) -> Vec<String> {
    let filter = RecordFilter { kind: kind.into(), user: user.map(Into::into), key_prefix: key_prefix.into(), after: None, limit };
    home.records(filter).await.unwrap().into_iter().map(|row| row.key).collect()
}

pub(crate) async fn a_document_is_its_users_own_and_can_be_replaced(home: TestStore) {
    home.put_record(new("ada", "item", "a", json!({ "x": 1 }))).await.unwrap();
    home.put_record(new("bob", "item", "a", json!("bob's"))).await.unwrap();
    home.put_record(NewRecord { at_ms: NOW + 5, ..new("ada", "item", "a", json!([2])) }).await.unwrap();
    let row = home.record(&"ada".into(), "item", "a").await.unwrap().unwrap();
    assert_eq!((row.value, row.created_ms, row.updated_ms), (json!([2]), NOW, NOW + 5));
    assert_eq!(home.record(&"ada".into(), "cron", "a").await.unwrap(), None);
    assert!(home.drop_record(&"ada".into(), "item", "a").await.unwrap());
    assert!(!home.drop_record(&"ada".into(), "item", "a").await.unwrap());
    assert_eq!(home.record(&"bob".into(), "item", "a").await.unwrap().unwrap().value, json!("bob's"));
}

pub(crate) async fn documents_are_listed_in_order_by_user_and_prefix(home: TestStore) {
    for (user, key) in [("ada", "b/2"), ("ada", "a"), ("bob", "b/1"), ("ada", "b/1"), ("ada", "%")] {
        home.put_record(new(user, "item", key, json!(null))).await.unwrap();
    }
    assert_eq!(keys(&home, "item", Some("ada"), "", 10).await, ["%", "a", "b/1", "b/2"]);
    assert_eq!(keys(&home, "item", Some("ada"), "b/", 10).await, ["b/1", "b/2"]);
    assert_eq!(keys(&home, "item", None, "b/", 10).await, ["b/1", "b/1", "b/2"]);
    assert_eq!(keys(&home, "item", None, "", 2).await, ["%", "a"]);
    assert!(keys(&home, "other", None, "", 2).await.is_empty());
}

/// Page after page, of all users: nothing is missing or repeated, also if two users have the same key.
pub(crate) async fn documents_are_read_page_by_page(home: TestStore) {
    for (user, key) in [("ada", "a"), ("ada", "b"), ("bob", "a"), ("bob", "b"), ("cy", "b"), ("ada", "c")] {
        home.put_record(new(user, "item", key, json!(null))).await.unwrap();
    }
    for limit in [1, 2, 4, 9] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let filter = RecordFilter { kind: "item".into(), user: None, key_prefix: String::new(), after: after.clone(), limit };
            let page = home.records(filter).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some((last.key.clone(), last.user.clone()));
            seen.extend(page.into_iter().map(|row| format!("{}{}", row.key, row.user)));
        }
        assert_eq!(seen, ["aada", "abob", "bada", "bbob", "bcy", "cada"], "{limit}");
    }
}

pub(crate) async fn documents_count_as_stored_and_are_limited(home: TestStore) {
    let stored = async || home.stored_bytes(&"ada".into()).await.unwrap();
    home.put_record(new("ada", "item", "a", json!("x".repeat(1_000)))).await.unwrap();
    assert_eq!(stored().await, 1_002);
    home.put_record(new("ada", "item", "a", json!("x".repeat(10)))).await.unwrap();
    assert_eq!(stored().await, 12);
    home.drop_record(&"ada".into(), "item", "a").await.unwrap();
    assert_eq!(stored().await, 0);
    let refused = home.put_record(new("ada", "item", "a", json!("x".repeat(RECORD_BYTES_MAX)))).await;
    assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "{refused:?}");
}

pub(crate) async fn every_user_with_stored_data_is_listed(home: TestStore) {
    assert!(home.users().await.unwrap().is_empty());
    home.put_record(new("eve", "item", "a", json!(1))).await.unwrap();
    home.prefer(&"bob".into(), "strict", Some(json!(true))).await.unwrap();
    home.keep_token(baton_store::NewToken { digest: [7; 32], user: "ada".into(), made_with: None, created_ms: NOW, until_ms: None, scope: None })
        .await
        .unwrap();
    assert_eq!(home.users().await.unwrap(), ["ada", "bob", "eve"].map(Into::into));
    home.drop_record(&"eve".into(), "item", "a").await.unwrap();
    assert_eq!(home.users().await.unwrap(), ["ada", "bob"].map(Into::into));
}

/// Listing is in memory; one user's documents must neither fill it nor hide those of others.
pub(crate) async fn what_is_listed_at_once_is_bounded(home: TestStore) {
    let large = json!("x".repeat(3 << 20));
    for number in 0..12 {
        home.put_record(new("eve", "item", &format!("a/{number:02}"), large.clone())).await.unwrap();
    }
    home.put_record(new("bob", "item", "b", json!(1))).await.unwrap();
    let list = async |user: Option<&str>, key_prefix: &str, after: Option<(&str, &str)>, limit: usize| {
        let after = after.map(|(key, user)| (key.to_owned(), user.into()));
        home.records(RecordFilter { kind: "item".into(), user: user.map(Into::into), key_prefix: key_prefix.into(), after, limit }).await
    };
    let of_eve = list(Some("eve"), "", None, 100).await.unwrap();
    assert_eq!((of_eve.len(), list(Some("eve"), "", Some(("a/10", "eve")), 100).await.unwrap().len()), (11, 1));
    assert_eq!(list(Some("eve"), "a/0", None, 100).await.unwrap().len(), 10);
    assert_eq!(list(Some("eve"), "", None, 3).await.unwrap().len(), 3);
    let page = list(None, "", None, 100).await.unwrap();
    assert_eq!((page.len(), page.last().map(|row| row.key.as_str())), (11, Some("a/10")), "as many as begin within the limit");
    let rest: Vec<String> = list(None, "", Some(("a/10", "eve")), 100).await.unwrap().into_iter().map(|row| row.key).collect();
    assert_eq!(rest, ["a/11", "b"], "and the others behind them");
}

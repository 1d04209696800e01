//! A database as a file: copies while it is written, detection of other users, damage, and compaction.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use baton_store::{NewToken, SqliteSettings, SqliteStore, Store as _, StoreError, check_database, compact_database, copy_database, is_in_use};
use graph::{ThreadId, UserId};
use serde_json::json;

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, SqliteSettings::default()).unwrap()
}

fn has(path: &Path, marker: &str) -> bool {
    ["", "-wal"].iter().any(|ending| {
        let bytes = std::fs::read(format!("{}{ending}", path.display())).unwrap_or_default();
        bytes.windows(marker.len()).any(|part| part == marker.as_bytes())
    })
}

#[tokio::test]
async fn a_copy_is_whole_while_others_write() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("a.db"), folder.path().join("copy.db"));
    let store = open(&path);
    let write = async {
        for n in 0..200 {
            store.claim(&ThreadId::from(format!("thread-{n}")), "me", 0, 1).await.unwrap();
        }
    };
    let copying = tokio::task::spawn_blocking({
        let (path, copy) = (path.clone(), copy.clone());
        move || copy_database(&path, &copy)
    });
    let ((), copied) = tokio::join!(write, copying);
    copied.unwrap().unwrap();
    let checked = check_database(&copy).unwrap();
    assert_eq!(checked.schema, check_database(&path).unwrap().schema);
    assert!(checked.threads <= 200 && checked.unfinished == 0);
    assert!(copy_database(&path, &copy).is_err(), "a file is not written over");
    drop(store);
    assert_eq!(check_database(&path).unwrap().threads, 200);
}

#[test]
fn processes_that_have_a_database_open_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    assert!(!is_in_use(&path).unwrap());
    let store = open(&path);
    assert!(is_in_use(&path).unwrap());
    drop(store);
    assert!(!is_in_use(&path).unwrap());
    // Asking does not change it.
    drop(open(&path));
}

#[test]
fn what_is_damaged_or_foreign_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    drop(open(&path));
    let mut bytes = std::fs::read(&path).unwrap();
    let foreign = folder.path().join("b.db");
    std::fs::write(&foreign, "hello").unwrap();
    assert!(matches!(check_database(&foreign), Err(StoreError::Damaged { .. })));
    assert!(matches!(check_database(&folder.path().join("none.db")), Err(StoreError::Damaged { .. })));
    let (at, end) = (bytes.len() / 2, bytes.len());
    bytes[at..end].fill(0xee);
    std::fs::write(&path, bytes).unwrap();
    assert!(check_database(&path).is_err());
}

#[tokio::test]
async fn a_deleted_user_is_neither_in_rows_nor_in_free_places() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = open(&path);
    let (ada, bob) = (UserId::from("ada"), UserId::from("bob"));
    for (user, word) in [(&ada, "xq7markerzz"), (&bob, "bobsword")] {
        for n in 0..50 {
            store.prefer(user, &format!("name{n}"), Some(json!(word.repeat(40)))).await.unwrap();
        }
        let digest = [user.as_str().len() as u8 + word.len() as u8; 32];
        store.keep_token(NewToken { digest, user: user.clone(), made_with: None, created_ms: 0, until_ms: None, scope: None }).await.unwrap();
    }
    assert_eq!(store.users().await.unwrap(), [ada.clone(), bob.clone()]);
    store.delete_user(&ada).await.unwrap();
    assert_eq!(store.users().await.unwrap(), std::slice::from_ref(&bob));
    drop(store);
    compact_database(&path).unwrap();
    assert!(!has(&path, "xq7marker") && has(&path, "bobsword"));
    assert_eq!(open(&path).preferences(&bob).await.unwrap().len(), 50);
}

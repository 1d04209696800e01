//! Tool calls that users allowed for good: written with the answer that allows them, once, and revocable.

use baton_store::{Grant, NewPermission, PERMISSIONS_MAX, PermissionCheck, StoreError};
use graph::{DefinitionPart, ToolDefinition};

use crate::hand::{NOW, RunWriter, TestStore, everything, thread_id};

fn new(user: &str, grant: Grant) -> NewPermission {
    NewPermission { user: user.into(), grant, definition: Some(definition("Adds a note")), created_ms: NOW }
}

fn definition(description: &str) -> ToolDefinition {
    ToolDefinition { server: "s".into(), tools: "t".into(), description: description.into(), ..ToolDefinition::default() }
}

fn tool(tool: &str) -> Grant {
    Grant::Tool { tool: tool.into() }
}

fn server(server: &str) -> Grant {
    Grant::Server { server: server.into() }
}

fn conversation(thread: &str, tool: &str) -> Grant {
    Grant::Conversation { thread: thread_id(thread), tool: tool.into() }
}

async fn grants(home: &TestStore, user: &str) -> Vec<Grant> {
    home.permissions(&user.into()).await.unwrap().into_iter().map(|row| row.grant).collect()
}

pub(crate) async fn a_permission_is_there_when_its_commit_is_and_once(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    let all = [conversation("t", "notes.add"), tool("notes.add"), server("notes")];
    for line in ["1", "2"] {
        writer
            .write(|commit| {
                commit.lines = vec![line.into()];
                commit.permissions = all.iter().cloned().map(|grant| new("ada", grant)).collect();
            })
            .await
            .unwrap();
    }
    assert_eq!(grants(&home, "ada").await, all, "the second time nothing is added");
    let rows = home.permissions(&"ada".into()).await.unwrap();
    assert_eq!(home.keep_permission(NewPermission { created_ms: NOW + 9, ..new("ada", server("notes")) }).await.unwrap(), rows[2].permission);
    assert_eq!(home.permissions(&"ada".into()).await.unwrap(), rows, "what is allowed already keeps its number and its time");
}

pub(crate) async fn a_permission_is_for_a_definition_and_another_takes_its_place(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    let all = [conversation("t", "notes.add"), tool("notes.add"), server("notes")];
    writer.write(|commit| commit.permissions = all.iter().cloned().map(|grant| new("ada", grant)).collect()).await.unwrap();
    let rows = home.permissions(&"ada".into()).await.unwrap();
    assert!(rows.iter().all(|row| row.definition == Some(definition("Adds a note"))), "{rows:?}");
    // What they are for is different now, in a commit and by itself.
    let changed = |grant: Grant| NewPermission { definition: Some(definition("Deletes \"all\" \0 notes")), created_ms: NOW + 5, ..new("ada", grant) };
    writer
        .write(|commit| {
            commit.lines = vec!["1".into()];
            commit.permissions = vec![changed(all[0].clone()), changed(all[1].clone())];
        })
        .await
        .unwrap();
    assert_eq!(home.keep_permission(changed(all[2].clone())).await.unwrap(), rows[2].permission);
    let after = home.permissions(&"ada".into()).await.unwrap();
    for (before, after) in rows.iter().zip(&after) {
        assert_eq!((after.permission, &after.grant, after.created_ms), (before.permission, &before.grant, NOW + 5));
        assert_eq!(after.definition, Some(definition("Deletes \"all\" \0 notes")));
    }
    assert_eq!(after[1].check(&definition("Adds a note")), PermissionCheck::Changed(vec![DefinitionPart::Description]));
    assert_eq!(after[2].check(&definition("Adds a note")), PermissionCheck::Valid, "of a server, the list of its tools counts");
    // One without a definition, as from before there were any.
    home.keep_permission(NewPermission { definition: None, ..new("bob", tool("notes.add")) }).await.unwrap();
    let old = home.permissions(&"bob".into()).await.unwrap().remove(0);
    assert_eq!(
        (old.definition.clone(), old.check(&definition("Adds a note")), old.check(&ToolDefinition::default())),
        (None, PermissionCheck::Unbound, PermissionCheck::Unbound)
    );
}

pub(crate) async fn a_refused_commit_allows_nothing(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    let before = everything(&home).await;
    writer.next_seq = 7;
    let refused = writer.write(|commit| commit.permissions = vec![new("ada", tool("notes.add"))]).await;
    assert!(matches!(refused, Err(StoreError::OutOfOrder { .. })), "{refused:?}");
    assert_eq!(everything(&home).await, before);
    let nowhere = home.keep_permission(new("ada", conversation("nowhere", "notes.add"))).await;
    assert!(matches!(nowhere, Err(StoreError::NoThread { .. })), "{nowhere:?}");
    assert!(grants(&home, "ada").await.is_empty());
}

pub(crate) async fn permissions_are_a_users_own_until_they_are_revoked(home: TestStore) {
    let of_ada = home.keep_permission(new("ada", tool("notes.add"))).await.unwrap();
    let of_bob = home.keep_permission(new("bob", tool("notes.add"))).await.unwrap();
    assert_eq!((grants(&home, "ada").await, grants(&home, "local").await), (vec![tool("notes.add")], vec![]));
    assert!(!home.revoke_permission(&"bob".into(), of_ada).await.unwrap(), "nobody revokes for another");
    assert!(home.revoke_permission(&"ada".into(), of_ada).await.unwrap());
    assert!(!home.revoke_permission(&"ada".into(), of_ada).await.unwrap());
    assert_eq!((grants(&home, "ada").await, grants(&home, "bob").await), (vec![], vec![tool("notes.add")]));
    assert!(home.keep_permission(new("ada", tool("notes.add"))).await.unwrap() > of_bob, "numbers are never used again");
}

pub(crate) async fn a_conversations_permission_goes_with_its_thread(home: TestStore) {
    for (thread, run) in [("t", "r"), ("u", "s")] {
        let mut writer = RunWriter::start(&home, thread, run).await;
        writer
            .write(|commit| {
                commit.permissions = vec![new("ada", conversation(thread, "notes.add")), new("ada", server(thread))];
                commit.release = true;
            })
            .await
            .unwrap();
    }
    home.delete_thread(&thread_id("t"), NOW).await.unwrap();
    assert_eq!(grants(&home, "ada").await, [server("t"), conversation("u", "notes.add"), server("u")]);
    RunWriter::start(&home, "t", "again").await;
    assert_eq!(grants(&home, "ada").await.len(), 3, "a new thread of that name has none");
}

pub(crate) async fn permissions_are_bounded_in_number(home: TestStore) {
    home.keep_permission(new("bob", server("first"))).await.unwrap();
    for number in 0..=PERMISSIONS_MAX {
        home.keep_permission(new("ada", tool(&format!("notes.{number}")))).await.unwrap();
    }
    let kept = grants(&home, "ada").await;
    assert_eq!((kept.len(), kept[0].name(), kept[PERMISSIONS_MAX - 1].name()), (PERMISSIONS_MAX, "notes.1", "notes.1000"));
    assert_eq!(grants(&home, "bob").await.len(), 1);
}

//! Long conversations: what is read and shown of them is bounded.

use graph::{Outcome, RunId, ThreadId};
use serde_json::json;
use store::{Commit, MemoryStore, NewMessage, NewRun, Status, Store as _, ThreadRow};

use super::{branches, export, messages, shares};

/// A thread of ada's with runs `r0`, `r1`, …, each with a question and an answer of so many bytes.
async fn thread(store: &MemoryStore, turns: usize, bytes: usize) -> ThreadRow {
    let name = ThreadId::from("t");
    let lease = store.claim(&name, "me", 1, 1_000).await.unwrap();
    for number in 0..turns {
        let mut commit = Commit::new(RunId::from(format!("r{number}").as_str()), lease.clone(), 1, 0);
        commit.new = Some(NewRun { flow: "direct".into(), parent: None, title: "q".into(), user: "ada".into() });
        let message = |role: &str| NewMessage { role: role.into(), content: format!("{number:04}{}", "x".repeat(bytes)) };
        commit.messages = vec![message("user"), message("assistant")];
        commit.status = Some(Status::Done);
        let outcome = Outcome::Done { output: json!({ "answer": "y".repeat(bytes) }) };
        commit.outcome = Some(serde_json::to_value(engine::RunResult { outcome, spent: graph::Usage::default(), elapsed_us: 0 }).unwrap());
        store.commit(commit).await.unwrap();
    }
    store.thread(&name).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_page_of_messages_ends_by_their_bytes_and_goes_on() {
    let store = MemoryStore::new();
    let row = thread(&store, 120, 1_000).await;
    let page = async |from, count_max, bytes_max| messages::page(&store, &row.thread, from, count_max, bytes_max).await.unwrap();
    assert_eq!(page(0, 1_000, usize::MAX).await.len(), 240);
    assert_eq!(page(0, 130, usize::MAX).await.len(), 130);
    assert_eq!(page(0, 1_000, 10_100).await.len(), 10);
    assert_eq!(page(0, 1_000, 1).await.len(), 1, "one is always returned");
    let (mut from, mut all) = (0, Vec::new());
    loop {
        let rows = page(from, 7, 5_100).await;
        let Some(last) = rows.last() else { break };
        from = last.seq + 1;
        all.extend(rows.into_iter().map(|row| row.seq));
    }
    assert_eq!(all, (0..240).collect::<Vec<u64>>());
}

#[tokio::test]
async fn turns_have_their_questions_and_together_a_limit() {
    let store = MemoryStore::new();
    let row = thread(&store, 150, 20_000).await;
    let named = |numbers: std::ops::Range<usize>| Some(numbers.map(|number| RunId::from(format!("r{number}").as_str())).collect::<Vec<_>>());
    let last = export::turns(&store, &row, named(149..150)).await.unwrap();
    assert!(last[0].question.starts_with("0149x") && last[0].answer.starts_with('y'), "{}", &last[0].question[..9]);
    assert_eq!(export::turns(&store, &row, named(0..100)).await.unwrap().len(), 100);
    let refused = export::turns(&store, &row, None).await.map(|turns| turns.len()).unwrap_err();
    assert!(refused.status == 422 && refused.message.contains("choose fewer"), "{}", refused.message);
}

#[tokio::test]
async fn a_link_is_opened_by_its_whole_token_only() {
    let store = MemoryStore::new();
    let row = thread(&store, 3, 10).await;
    let links: Vec<String> = vec![
        shares::make(&store, &row, None).await.unwrap().path.unwrap(),
        shares::make(&store, &row, Some(&["r1".to_owned()])).await.unwrap().path.unwrap(),
    ];
    let token = |link: &str| link.trim_start_matches(shares::PATH).to_owned();
    for (link, turns) in links.iter().zip([3, 1]) {
        let (found, runs) = shares::open(&store, &token(link)).await.unwrap().unwrap();
        assert_eq!((found.thread, runs.len()), (row.thread.clone(), turns));
        let cut = &token(link)[..20];
        assert!(shares::open(&store, cut).await.unwrap().is_none() && shares::open(&store, "").await.unwrap().is_none());
    }
}

#[tokio::test]
async fn the_past_of_a_branch_is_read_from_its_end() {
    let store = MemoryStore::new();
    let row = thread(&store, 400, 10).await;
    let messages = branches::history(&store, &row, "r399").await.unwrap().unwrap();
    assert_eq!((messages.len(), &messages[0].content[..4], &messages[199].content[..4]), (200, "0300", "0399"));
    let early = branches::history(&store, &row, "r1").await.unwrap().unwrap();
    assert_eq!(early.iter().map(|message| &message.content[..4]).collect::<Vec<_>>(), ["0000", "0000", "0001", "0001"]);
    assert!(branches::history(&store, &row, "absent").await.unwrap().is_none());
}

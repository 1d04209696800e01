//! Every event that is sent is one that the API describes, with all its fields.

use std::sync::Arc;

use engine::{FeedItem, TreeItem};
use graph::{Event, Failure, FailureKind, NumberedEvent, Outcome, Parent, Reply, RunId, TaskId, Usage};
use serde_json::{Value, json};
use wire::api::RunEvent;

use super::event_data;

fn events() -> Vec<Event> {
    let task = TaskId { step: 1, index: 2 };
    let failure = || Failure { output: Some("half".into()), has_acted: true, ..Failure::new(FailureKind::Network, "reset").retry() };
    let usage = Usage { tokens_in: 1, tokens_out: 2, usd_micros: 3, calls: 4 };
    let replied = |reply: Reply, again_ms| Event::Replied { task, attempt: 1, reply: Arc::new(reply), again_ms };
    let ended = |outcome| Event::Ended { outcome: Arc::new(outcome) };
    let effect = Arc::new(graph::tool("docs.search", json!({ "query": "x" })));
    vec![
        Event::Started { run: RunId::from("r"), thread: "t".into(), flow: "search".into() },
        Event::Entered { step: 1, node: "plan".into() },
        Event::Asked { task, attempt: 1, label: "docs.search".into(), effect, after_ms: 5 },
        replied(Reply { took_us: 7, ..Reply::ok(json!({ "text": "x" })) }.using(usage).about(json!({ "model": "m" })), None),
        replied(Reply::ok(Value::Null), None),
        replied(Reply::failed(failure()), Some(5)),
        Event::Skipped { task, failure: failure() },
        Event::Doubted { task, attempt: 1 },
        Event::Held { task, attempt: 1, why: "it sends mail".into() },
        Event::Noted { step: 1, name: "plan".into(), value: json!({ "tasks": [] }) },
        Event::Said { role: "assistant".into(), content: "Yes.".into() },
        Event::Left { step: 1, node: "plan".into(), to: "execute".into() },
        Event::Edited { step: 1, patch: Arc::new(json!({ "question": "y" })) },
        ended(Outcome::Done { output: json!({ "answer": "Yes." }) }),
        ended(Outcome::Cancelled { reason: "no longer needed".into() }),
    ]
}

/// Whether all that `sent` has is also in `read`; a type without a field loses it.
fn is_in(sent: &Value, read: &Value) -> bool {
    match (sent, read) {
        (Value::Object(sent), Value::Object(read)) => sent.iter().all(|(name, value)| read.get(name).is_some_and(|other| is_in(value, other))),
        (sent, read) => sent == read,
    }
}

#[test]
fn events_are_as_the_api_describes_them() {
    for (seq, event) in events().into_iter().enumerate() {
        let numbered = NumberedEvent { seq: seq as u64, event };
        let item = |parent| TreeItem {
            run: RunId::from("r"),
            path: Arc::new([]),
            parent,
            item: FeedItem::Event(Arc::new(numbered.clone()), 9),
            is_known: false,
            is_answer: true,
        };
        for parent in [None, Some(Parent { run: RunId::from("p"), task: TaskId { step: 0, index: 0 } })] {
            let sent: Value = serde_json::from_str(&event_data(&item(parent), &numbered, 9)).unwrap();
            let read: RunEvent = serde_json::from_value(sent.clone()).unwrap_or_else(|error| panic!("{error}: {sent}"));
            let read = serde_json::to_value(read).unwrap();
            assert!(is_in(&sent, &read), "{sent}\n{read}");
        }
    }
}

//! Every reply of every tool fits the tool's output schema, also when a list is empty or a field is absent.
//!
//! [`Session::call`](crate::testing::Session::call) checks each reply. The list below must name every tool; only those that need a network
//! are tested in their own folder.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use rmcp::handler::server::tool::schema_for_output;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::code::{CodeResult, Outcome, WrittenFile};
use crate::testing::session_of;
use crate::workspace::Workspaces;
use crate::{Settings, document, mail};

/// Called in `search/tests.rs` and `fetch/tests.rs`, against local servers and through the same check; `code` needs the program's own
/// binary, and its replies are checked below as values.
const ELSEWHERE: [(&str, &str); 3] = [("search", "search"), ("fetch", "fetch"), ("code", "run_python")];

struct TestServers {
    folder: TempDir,
    settings: Settings,
}

fn place() -> TestServers {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["docs", "index", "work"] {
        fs::create_dir(at(name)).unwrap();
    }
    fs::write(at("docs/guide.md"), "# Guide\n\nA lease is renewed every ten seconds.\n").unwrap();
    let documents = index::Folders::open(&[at("docs")], &at("index"), &index::Model::none(), index::Limits::default()).unwrap();
    let settings = Settings {
        workspaces: Some(Workspaces::fixed(at("work"), at("records"))),
        docs: Some(Arc::new(documents)),
        document: Some(document::Settings { folder: at("written"), ..document::Settings::default() }),
        mail: Some(mail::Settings { from: Some("Baton <baton@example.org>".into()), outbox: at("outbox"), ..mail::Settings::default() }),
        ..Settings::bare()
    };
    TestServers { folder, settings }
}

/// Server, tool and arguments, in call order.
fn calls(place: &TestServers) -> Vec<(&'static str, &'static str, Value)> {
    let guide = fs::canonicalize(place.folder.path().join("docs/guide.md")).unwrap();
    let letter = json!({ "to": ["ann@example.org"], "subject": "s", "body": "b", "key": "k" });
    vec![
        ("docs", "search", json!({ "query": "lease", "size": 1 })),
        ("docs", "search", json!({ "query": "xylophone" })),
        ("docs", "read", json!({ "file": guide })),
        ("docs", "read", json!({ "file": guide, "from": 3, "to": 3 })),
        ("files", "list", json!({ "path": "." })),
        ("files", "find", json!({ "pattern": "*.none" })),
        ("files", "write", json!({ "path": "a/empty.txt", "content": "" })),
        ("files", "read", json!({ "path": "a/empty.txt" })),
        ("files", "append", json!({ "path": "a/b.txt", "content": "one\ntwo\n" })),
        ("files", "read", json!({ "path": "a/b.txt" })),
        ("files", "list", json!({ "path": "a" })),
        ("files", "find", json!({ "pattern": "**/*.txt" })),
        ("calc", "calculate", json!({ "expression": "1/3" })),
        ("calc", "calculate", json!({ "expression": "2^10" })),
        ("stories", "search_stories", json!({ "query": "xylophone" })),
        ("stories", "search_stories", json!({ "query": "tag:*", "size": 1 })),
        ("summary", "summarize", json!({ "text": "The bridge opens in March." })),
        ("summary", "summarize", json!({ "texts": ["The bridge opens in March.", "Ferries run until then."], "words": 10, "focus": "ferries" })),
        ("document", "create", json!({ "markdown": "# T", "format": "html" })),
        ("document", "create", json!({ "markdown": "# T", "format": "html" })),
        ("mail", "look_up", json!({ "key": "k" })),
        ("mail", "draft", json!({ "to": ["ann@example.org"], "subject": "s", "body": "b" })),
        ("mail", "send", letter),
        ("mail", "look_up", json!({ "key": "k" })),
    ]
}

#[tokio::test]
async fn every_tool_keeps_to_its_output_schema() {
    let place = place();
    let calls = calls(&place);
    let (servers, unready) = crate::all(&place.settings);
    assert!(unready.iter().all(|lack| lack.name == "code"), "{unready:?}");
    let mut untested: BTreeSet<(String, String)> = BTreeSet::new();
    for server in servers {
        let name = server.name;
        let session = session_of(server).await;
        untested.extend(session.tools.iter().map(|tool| (name.to_owned(), tool.name.to_string())));
        for (_, tool, arguments) in calls.iter().filter(|(server, _, _)| *server == name) {
            session.call(tool, arguments.clone()).await;
            untested.remove(&(name.to_owned(), (*tool).to_owned()));
        }
    }
    untested.retain(|(server, tool)| !ELSEWHERE.contains(&(server.as_str(), tool.as_str())));
    // A dry run has a known outcome, so there is nothing to settle.
    assert_eq!(untested.into_iter().collect::<Vec<_>>(), [("mail".to_owned(), "settle".to_owned())]);
}

#[test]
fn every_outcome_of_code_fits_its_schema() {
    let schema = Value::Object(schema_for_output::<CodeResult>().as_ref().clone());
    for outcome in [Outcome::Ok, Outcome::Error, Outcome::TimeLimit, Outcome::MemoryLimit, Outcome::OutputLimit, Outcome::Crashed] {
        for (result, error, files) in
            [(Value::Null, None, Vec::new()), (json!({ "a": [1] }), Some("Oops".to_owned()), vec![WrittenFile { path: "a".into(), bytes: 1 }])]
        {
            let ran = CodeResult {
                outcome,
                stdout: String::new(),
                result,
                error,
                files,
                milliseconds: 0,
                walls_missing: Vec::new(),
                walls: Default::default(),
            };
            let data = serde_json::to_value(&ran).unwrap();
            assert!(jsonschema::is_valid(&schema, &data), "{data}");
        }
    }
}

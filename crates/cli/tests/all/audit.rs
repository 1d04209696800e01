//! The audit log: what a server and commands record, and that damage is detected.

use std::path::PathBuf;

use reqwest::Method;
use serde_json::{Value, json};

use crate::Home;
use crate::permissions::TICKETS;
use crate::serve_hostile::token;

impl Home {
    pub(crate) fn audit(&self, more: &[&str]) -> Vec<Value> {
        self.well(&[&["audit", "show", "--json"], more].concat()).lines()
    }

    fn audit_file(&self) -> PathBuf {
        self.db().with_file_name("audit").join("00000001.jsonl")
    }
}

fn kinds(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["what"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_records_who_signed_in_what_was_allowed_and_what_was_called() {
    let home = Home::new();
    let ada = token(&home, "ada");
    let served = home.serve(&home.script(TICKETS), &[]);
    assert_eq!(served.by("a wrong token", Method::GET, "/api/status", None).await.0, 401);
    let body = json!({ "question": "Close ticket 7", "flow": "search" });
    let (status, run) = served.by(&ada, Method::POST, "/api/runs?wait=1", Some(&body)).await;
    assert_eq!((status, run["status"].as_str()), (201, Some("asking")), "{run}");
    let name = run["run"].as_str().unwrap();
    let waiting = &run["waiting"][0];
    let answer = json!({ "task": waiting["task"], "attempt": waiting["attempt"], "value": { "allow": "tool" } });
    let (status, reply) = served.by(&ada, Method::POST, &format!("/api/runs/{name}/answer"), Some(&answer)).await;
    assert_eq!(status, 202, "{reply}");
    served.all_of(&ada, name).await;
    let (_, permissions) = served.by(&ada, Method::GET, "/api/permissions", None).await;
    let id = permissions["permissions"][0]["id"].as_u64().unwrap();
    assert_eq!(served.by(&ada, Method::DELETE, &format!("/api/permissions/{id}"), None).await.0, 204);
    let thread = run["thread"].as_str().unwrap();
    assert_eq!(served.by(&ada, Method::DELETE, &format!("/api/threads/{thread}"), None).await.0, 204);
    drop(served);
    home.well(&["tokens", "remove", "1"]);

    let all = home.audit(&[]);
    let expected = [
        "token_added",
        "sign_in_refused",
        "sign_in",
        "approval",
        "tool_call",
        "tool_call_ended",
        "permission_revoked",
        "thread_deleted",
        "token_removed",
    ];
    assert_eq!(kinds(&all), expected, "{all:#?}");
    let call = &all[4];
    assert_eq!((call["user"].as_str(), call["tool"].as_str(), call["run"].as_str()), (Some("ada"), Some("tickets.close"), Some(name)));
    assert_eq!(call["arguments"].as_str().unwrap().len(), 64);
    assert_eq!((all[3]["detail"].as_str(), all[3]["tool"].as_str(), all[5]["detail"].as_str()), (Some("tool"), Some("tickets.close"), Some("done")));
    let text = std::fs::read_to_string(home.audit_file()).unwrap();
    assert!(!text.contains(&ada) && !text.contains("\"id\":7") && !text.contains("Close ticket"), "{text}");
    assert_eq!(kinds(&home.audit(&["--user", "ada", "--since", "1h"])).len(), 6);
    assert!(home.audit(&["--since", "2999-01-01"]).is_empty());
    home.baton(&["audit", "show", "--since", "yesterday"]).complains(2, &["30m, 12h, 7d"]);
}

#[test]
fn a_changed_line_is_named_and_a_kept_head_shows_what_a_chain_cannot() {
    let home = Home::new();
    for user in ["ada", "bob", "eve"] {
        token(&home, user);
    }
    let verified = &home.well(&["audit", "verify", "--json"]).lines()[0];
    assert_eq!((verified["ok"].as_bool(), verified["lines"].as_u64()), (Some(true), Some(3)), "{verified}");
    let kept = format!("{}:{}", verified["head"]["seq"], verified["head"]["hash"].as_str().unwrap());
    home.well(&["audit", "verify", "--kept", &kept]);

    let whole = std::fs::read_to_string(home.audit_file()).unwrap();
    std::fs::write(home.audit_file(), whole.replace("2 for bob", "2 for dan")).unwrap();
    home.baton(&["audit", "verify"]).complains(1, &["00000001.jsonl: line 2 is broken", "hash"]);
    home.baton(&["audit", "show"]).complains(1, &["line 2 is broken"]);

    let cut: String = whole.lines().take(2).map(|line| format!("{line}\n")).collect();
    std::fs::write(home.audit_file(), cut).unwrap();
    home.well(&["audit", "verify"]);
    home.baton(&["audit", "verify", "--kept", &kept]).complains(1, &["line 3 is missing", "cut off"]);
    token(&home, "mallory");
    home.baton(&["audit", "verify", "--kept", &kept]).complains(1, &["a different hash"]);
    home.baton(&["audit", "verify", "--kept", "3"]).complains(2, &["64 hexadecimal digits"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_recorded_is_not_done() {
    let home = Home::new();
    let ada = token(&home, "ada");
    let served = home.serve(&home.script(TICKETS), &[]);
    let body = json!({ "question": "Close ticket 7", "flow": "search", "allow": ["tickets.close"] });
    let (_, run) = served.by(&ada, Method::POST, "/api/runs?wait=1", Some(&body)).await;
    assert_eq!((home.changes("tickets.close"), run["status"].as_str()), (1, Some("done")), "{run}");
    // The last line is damaged while the server runs: it neither appends to it nor acts without a record.
    let text = std::fs::read_to_string(home.audit_file()).unwrap();
    std::fs::write(home.audit_file(), text.trim_end().replace("done\"", "dome\"") + "x\n").unwrap();
    let (_, run) = served.by(&ada, Method::POST, "/api/runs?wait=1", Some(&body)).await;
    assert_eq!(home.changes("tickets.close"), 1, "{run}");
}

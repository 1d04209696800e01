//! Roles, scopes and expiry of tokens, and budgets of users.

use reqwest::Method;
use serde_json::{Value, json};

use crate::permissions::TICKETS;
use crate::serve::Served;
use crate::serve_hostile::token;
use crate::{Home, LOOKS_UP};

impl Home {
    /// With `[users]` tables.
    fn serve_users(&self, script: &str, tables: &str) -> Served {
        let config = self.db().with_file_name("users.toml");
        std::fs::write(&config, tables).unwrap();
        self.serve(&self.script(script), &["--config", config.to_str().unwrap()])
    }
}

fn question() -> Value {
    json!({ "question": "What happens after a crash?", "flow": "search" })
}

fn why(reply: &Value) -> &str {
    reply["error"]["message"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_reads_and_changes_nothing_and_an_operator_changes_tools() {
    let home = Home::new();
    let (ada, eve, bob) = (token(&home, "ada"), token(&home, "eve"), token(&home, "bob"));
    let reading = home.well(&["tokens", "add", "bob", "--scope", "read", "--json"]).lines()[0]["token"].as_str().unwrap().to_owned();
    let served = home.serve_users(LOOKS_UP, "[users.ada]\nrole = \"viewer\"\n[users.eve]\nrole = \"operator\"\n");
    let (_, run) = served.by(&bob, Method::POST, "/api/runs?wait=1", Some(&question())).await;
    let run = run["run"].as_str().unwrap();
    for viewer in [&ada, &reading] {
        assert_eq!(served.by(viewer, Method::GET, "/api/threads", None).await.0, 200);
        for (method, path) in [
            (Method::POST, "/api/runs".to_owned()),
            (Method::POST, "/api/query".to_owned()),
            (Method::POST, format!("/api/runs/{run}/fork")),
            (Method::POST, "/search/invoke".to_owned()),
            (Method::PUT, "/api/documents/a.md".to_owned()),
            (Method::PATCH, "/api/settings".to_owned()),
            (Method::DELETE, format!("/api/threads/{run}")),
        ] {
            let (status, reply) = served.by(viewer, method.clone(), &path, Some(&question())).await;
            assert_eq!(status, 403, "{method} {path}: {reply}");
        }
        assert_eq!(served.by(viewer, Method::GET, "/metrics", None).await.0, 403);
    }
    // The read-only token can read Bob's data, also as a session of the page.
    assert_eq!(served.by(&reading, Method::GET, &format!("/api/runs/{run}"), None).await.0, 200);
    let opened = served.request(Method::POST, "/api/session").json(&json!({ "token": reading })).send().await.unwrap();
    let cookie = opened.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let session = |method: Method, path: &str| served.request(method, path).header("cookie", &cookie).header("origin", &served.url);
    assert_eq!(session(Method::GET, &format!("/api/runs/{run}")).send().await.unwrap().status(), 200);
    assert_eq!(session(Method::POST, "/api/runs").json(&question()).send().await.unwrap().status(), 403);
    for (token, role, status) in [(&ada, "viewer", 403), (&bob, "user", 403), (&eve, "operator", 200), (&reading, "viewer", 403)] {
        assert_eq!(served.by(token, Method::GET, "/api/status", None).await.1["role"], role);
        assert_eq!(served.by(token, Method::GET, "/metrics", None).await.0, status, "{role}");
    }
    // An operator cannot see other users' data.
    assert_eq!(served.by(&eve, Method::GET, &format!("/api/runs/{run}"), None).await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn budgets_of_a_day_hold_for_all_runs_of_a_user_and_after_a_restart() {
    let home = Home::new();
    let (ada, bob) = (token(&home, "ada"), token(&home, "bob"));
    let tables = "[users.default]\nruns_per_day = 2\n[users.bob]\ntokens_per_day = 100\n";
    let served = home.serve_users(LOOKS_UP, tables);
    for _ in 0..2 {
        let (status, run) = served.by(&ada, Method::POST, "/api/runs?wait=1", Some(&question())).await;
        assert_eq!((status, run["status"].as_str()), (201, Some("done")), "{run}");
    }
    for (path, body) in [("/api/runs", question()), ("/api/query", json!({ "query": "What happens after a crash?" }))] {
        let (status, reply) = served.by(&ada, Method::POST, path, Some(&body)).await;
        assert_eq!(status, 402, "{path}: {reply}");
        assert!(why(&reply).contains("2 runs of ada"), "{reply}");
    }
    let (_, status) = served.by(&ada, Method::GET, "/api/status", None).await;
    assert_eq!((&status["allowance"]["runs_per_day"], &status["allowance"]["runs_today"]), (&json!(2), &json!(2)), "{status}");
    // A run that exceeds the remaining budget is stopped before its next call.
    let (_, run) = served.by(&bob, Method::POST, "/api/runs?wait=1", Some(&question())).await;
    let (_, status) = served.by(&bob, Method::GET, "/api/status", None).await;
    let spent = status["allowance"]["tokens_today"].as_u64().unwrap();
    assert!((100..=140).contains(&spent), "two calls of 70 tokens, not a third: {status} {run}");
    let (status, reply) = served.by(&bob, Method::POST, "/api/runs", Some(&question())).await;
    assert_eq!(status, 402, "{reply}");
    assert!(why(&reply).contains("100 tokens of bob for today are spent"), "{reply}");
    drop(served);
    let served = home.serve_users(LOOKS_UP, tables);
    for token in [&ada, &bob] {
        assert_eq!(served.by(token, Method::POST, "/api/runs", Some(&question())).await.0, 402);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn models_and_tools_are_those_of_the_user_whatever_the_plan() {
    let home = Home::new();
    let (ada, bob) = (token(&home, "ada"), token(&home, "bob"));
    let served = home.serve_users(TICKETS, "[users.ada]\ntools = [\"docs\"]\n[users.bob]\nmodels = [\"ollama/*\"]\n");
    let body = json!({ "question": "Close ticket 7", "flow": "search", "allow": ["tickets"] });
    let (_, run) = served.by(&ada, Method::POST, "/api/runs?wait=1", Some(&body)).await;
    assert_eq!(home.changes("tickets.close"), 0, "{run}");
    let (status, reply) = served.by(&bob, Method::POST, "/api/runs?wait=1", Some(&body)).await;
    assert_eq!((status, home.changes("tickets.close")), (403, 0), "{reply}");
    assert!(why(&reply).contains("not open to bob; these are: ollama/*"), "{reply}");
    let (_, status) = served.by(&ada, Method::GET, "/api/status", None).await;
    assert_eq!(status["allowance"]["tools"], json!(["docs"]), "{status}");

    let config = home.db().with_file_name("users.toml");
    std::fs::write(&config, "[users.ada]\nrole = \"king\"\n").unwrap();
    home.baton(&["serve", "--port", "0", "--config", config.to_str().unwrap()]).complains(2, &["king", "viewer"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_expire_and_are_rotated() {
    let home = Home::new();
    let first = token(&home, "ada");
    let limited = home.well(&["tokens", "add", "bob", "--days", "1", "--json"]).lines()[0].clone();
    let rotated = home.well(&["tokens", "rotate", "1", "--hours", "0", "--json"]).lines()[0].clone();
    assert_eq!((&rotated["user"], &rotated["replaces"]), (&json!("ada"), &json!(1)));
    let served = home.serve(&home.script(LOOKS_UP), &[]);
    let works = async |token: &str| served.by(token, Method::GET, "/api/status", None).await.0;
    assert_eq!(works(&first).await, 401);
    assert_eq!(works(rotated["token"].as_str().unwrap()).await, 200);
    assert_eq!(works(limited["token"].as_str().unwrap()).await, 200);
    let listed = home.well(&["tokens", "list", "--json"]).lines();
    assert!(listed.iter().all(|row| row["scope"] == "all"), "{listed:?}");
    let reading = home.well(&["tokens", "add", "carol", "--scope", "read", "--json"]).lines()[0]["number"].to_string();
    let rotated = home.well(&["tokens", "rotate", &reading, "--json"]).lines()[0].clone();
    let rows = home.well(&["tokens", "list", "--json"]).lines();
    let row = rows.iter().find(|row| row["number"] == rotated["number"]).unwrap();
    assert_eq!((&row["user"], &row["scope"]), (&json!("carol"), &json!("read")), "a new token allows what the old one does");
    let status = served.by(rotated["token"].as_str().unwrap(), Method::POST, "/api/runs", Some(&json!({ "question": "x" }))).await.0;
    assert_eq!(status, 403, "reading only");
    let until = listed.iter().find(|row| row["user"] == "bob").unwrap()["until_ms"].as_i64().unwrap();
    assert!(until > 0);
    home.baton(&["tokens", "rotate", "99"]).complains(2, &["there is no token 99"]);
    home.baton(&["tokens", "add", "eve", "--days", "0"]).complains(2, &["0"]);
}

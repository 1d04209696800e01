//! Access to a server without a configured token, and the operator's limits.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use reqwest::Method;
use serde_json::{Value, json};

use crate::serve::Served;
use crate::{Home, LOOKS_UP};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

impl Home {
    /// With a `[server]` table.
    fn serve_within(&self, table: &str) -> Served {
        let config = self.db().with_file_name("limits.toml");
        std::fs::write(&config, format!("[server]\n{table}\n")).unwrap();
        self.serve(&self.script(LOOKS_UP), &["--config", config.to_str().unwrap()])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_a_start_is_in_a_file_of_the_account_and_in_a_link() {
    let home = Home::new();
    let mut served = home.serve(&home.script(LOOKS_UP), &[]);
    let links = home.well(&["tokens", "link", "--json"]).lines();
    let (link, file) = (links[0]["link"].as_str().unwrap(), Path::new(links[0]["token_file"].as_str().unwrap()));
    assert_eq!((mode(file), mode(file.parent().unwrap())), (0o600, 0o700));
    let token = std::fs::read_to_string(file).unwrap();

    // Programs of this account need no token. Through a proxy the caller could be anybody.
    assert_eq!(served.get("/api/status").await.0, 200);
    let forwarded = || served.request(Method::GET, "/api/status").header("x-forwarded-for", "192.0.2.1");
    let refused = forwarded().send().await.unwrap();
    assert_eq!(refused.status(), 401);
    let why: Value = refused.json().await.unwrap();
    assert!(why["error"]["message"].as_str().unwrap().contains("baton tokens link"), "{why}");
    assert_eq!(forwarded().bearer_auth(token.trim()).send().await.unwrap().status(), 200);

    // The link opens the page with a cookie, and the page's address has no token.
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let opened = client.get(link).send().await.unwrap();
    assert_eq!((opened.status().as_u16(), opened.headers()["location"].to_str().unwrap()), (303, "/"));
    let cookie = opened.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    assert!(!cookie.contains(token.trim()));
    assert_eq!(forwarded().header("cookie", &cookie).send().await.unwrap().status(), 200);
    assert_eq!(client.get(link.replace("token=", "token=x")).send().await.unwrap().status(), 401);
    assert_eq!(client.get(link).header("sec-fetch-site", "cross-site").send().await.unwrap().status(), 403);

    // The next start has another.
    let file = file.to_owned();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(served.id().try_into().unwrap()), nix::sys::signal::Signal::SIGTERM).unwrap();
    served.ended();
    assert!(!file.exists());
    home.baton(&["tokens", "link"]).complains(2, &["no server of this account runs"]);
    let served = home.serve(&home.script(LOOKS_UP), &[]);
    let again = served.request(Method::GET, "/api/status").header("x-forwarded-for", "192.0.2.1").header("cookie", cookie).bearer_auth(token.trim());
    assert_eq!(again.send().await.unwrap().status(), 401);
}

/// Only root can switch accounts; for other accounts the guard's own tests cover this.
#[tokio::test(flavor = "multi_thread")]
async fn another_account_of_the_machine_is_refused_and_this_one_is_not() {
    let home = Home::new();
    let served = home.serve(&home.script(LOOKS_UP), &[]);
    let address = served.url.trim_start_matches("http://").replace(':', "/");
    let script = format!(
        "exec 3<>/dev/tcp/{address}; printf 'POST /api/runs HTTP/1.1\\r\\nhost: localhost\\r\\nconnection: close\\r\\ncontent-type: application/json\\r\\ncontent-length: 2\\r\\n\\r\\n{{}}' >&3; head -1 <&3"
    );
    let call = |account: Option<u32>| {
        let mut command = Command::new("/bin/bash");
        command.args(["-c", &script]).current_dir("/").stderr(Stdio::null());
        if let Some(account) = account {
            command.uid(account);
        }
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let own = call(None);
    assert!(!own.contains(" 401 ") && own.starts_with("HTTP/1.1 "), "{own:?}");
    if is_root() {
        for account in [1, 65_534] {
            assert!(call(Some(account)).contains(" 401 "), "{account}");
        }
    }
}

/// `/proc/self` belongs to the account of its process.
fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_can_come_from_a_file_or_from_standard_input() {
    let home = Home::new();
    let file = home.db().with_file_name("token");
    std::fs::write(&file, "a token from a file\n").unwrap();
    let served = home.serve(&home.script(LOOKS_UP), &["--token-file", file.to_str().unwrap()]);
    assert_eq!(served.get("/api/status").await.0, 401, "a configured token is needed by this account too");
    assert_eq!(served.by("a token from a file", Method::GET, "/api/status", None).await.0, 200);

    let mut command = home.command(&["serve", "--port", "0", "--json", "--token-file", "-"]);
    let (reader, mut writer) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut writer, b"a token from a prompt\n").unwrap();
    command.env("BATON_SCRIPT", home.script(LOOKS_UP)).stdin(reader).stdout(Stdio::piped()).stderr(Stdio::null());
    let served = home.started(&mut command);
    assert_eq!(served.by("a token from a prompt", Method::GET, "/api/status", None).await.0, 200);
    home.baton(&["serve", "--port", "0", "--token-file", "/nowhere"]).complains(2, &["the token cannot be read from /nowhere"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_set_in_the_configuration() {
    let home = Home::new();
    let served = home.serve_within("streams_max = 2\nrequests_burst_max = 8\nrequests_per_second_max = 1\nbody_bytes_max = 2000");
    let long = json!({ "question": "x".repeat(3_000) });
    let response = served.request(Method::POST, "/api/runs").json(&long).send().await.unwrap();
    assert_eq!(response.status(), 413);
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(served.client.get(format!("{}/api/feed", served.url)).send().await.unwrap());
    }
    assert_eq!(streams.iter().map(|stream| stream.status().as_u16()).collect::<Vec<_>>(), [200, 200, 429]);
    let mut statuses = Vec::new();
    for _ in 0..12 {
        statuses.push(served.get("/api/status").await.0);
    }
    assert!(statuses.contains(&200) && statuses.contains(&429), "{statuses:?}");

    let config = home.db().with_file_name("limits.toml");
    let config = config.to_str().unwrap();
    std::fs::write(config, "[server]\nruns = 5\n").unwrap();
    home.baton(&["serve", "--port", "0", "--config", config]).complains(2, &["there is no limit \"runs\"", "runs_max, runs_total_max"]);
    std::fs::write(config, "[server]\nruns_max = 0\n").unwrap();
    home.baton(&["serve", "--port", "0", "--config", config]).complains(2, &["runs_max is an integer from 1 to 100000, not 0"]);
    let help = home.well(&["serve", "--help"]).out;
    assert!(help.contains("stored_bytes_max") && help.contains("Runs of one user at the same time."), "{help}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_whose_conversations_take_too_much_can_start_nothing() {
    let home = Home::new();
    let served = home.serve_within("stored_bytes_max = 1048576");
    let question = format!("What happens after a crash? {}", "x".repeat(30 << 10));
    let mut statuses = Vec::new();
    while statuses.last() != Some(&507) && statuses.len() < 1_000 {
        statuses.push(served.post("/api/runs?wait=1", &json!({ "question": question, "flow": "search" })).await.0);
    }
    assert!(statuses.len() > 1 && statuses.last() == Some(&507), "{statuses:?}");
    let bytes = std::fs::metadata(home.db()).unwrap().len() + std::fs::metadata(format!("{}-wal", home.db().display())).map_or(0, |wal| wal.len());
    assert!(bytes < 32 << 20, "{bytes}");
    let (status, refused) = served.post("/api/runs", &json!({ "question": "And now?", "flow": "search" })).await;
    assert_eq!((status, refused["error"]["kind"].as_str()), (507, Some("limit")), "{refused}");
    let call = json!({ "input": { "messages": [{ "type": "human", "content": "And now?" }], "next": "", "context": {} } });
    assert_eq!(served.post("/search/invoke", &call).await.0, 507);
    let (_, threads) = served.get("/api/threads").await;
    for thread in threads["threads"].as_array().unwrap() {
        let path = format!("/api/threads/{}", thread["thread"].as_str().unwrap());
        assert_eq!(served.request(Method::DELETE, &path).send().await.unwrap().status(), 204);
    }
    assert_eq!(served.post("/api/runs?wait=1", &json!({ "question": "And now?", "flow": "search" })).await.0, 201);
}

/// Files are readable by this account only, wherever the database is.
#[tokio::test(flavor = "multi_thread")]
async fn files_are_for_this_account_only() {
    let home = Home::new();
    let served = home.serve("", &["--model", "extract"]);
    let put = served.request(Method::PUT, "/api/documents/notes.md").header("content-type", "application/octet-stream").body("# Mine");
    assert_eq!(put.send().await.unwrap().status(), 201);
    let folder = home.db().parent().unwrap().to_owned();
    let mut seen = 0;
    let mut left = vec![folder.join("uploads"), folder.join("access")];
    left.extend(std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()).filter(|path| path.to_string_lossy().contains(".db")));
    while let Some(path) = left.pop() {
        seen += 1;
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), wanted, "{}", path.display());
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().flatten().map(|entry| entry.path()));
        }
    }
    assert!(seen >= 6, "{seen}");
}

/// Tool arguments contain user input and are not logged at any level.
#[test]
fn arguments_of_tools_are_not_logged() {
    let home = Home::new();
    let arguments = r#"{"expression": "123456789 + 1"}"#;
    let mut command = home.command(&["tools", "call", "calc.calculate", arguments]);
    let output = command.env_remove("BATON_SCRIPT").env("BATON_LOG", "trace").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("123456790"), "{out} {err}");
    assert!(!err.contains("123456789"), "{err}");
}

/// Every account of the machine can reach a tool server on loopback.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_server_alone_is_for_its_account() {
    use std::io::BufRead as _;
    let home = Home::new();
    let mut process = home.command(&["mcp", "calc", "--port", "0"]).spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(process.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().split(' ').next_back().unwrap().to_owned();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let status = async |headers: &[(&str, &str)]| {
        let request = headers.iter().fold(client.post(&url), |request, (name, value)| request.header(*name, *value));
        request.header("content-type", "application/json").body("{}").send().await.unwrap().status().as_u16()
    };
    assert!(!matches!(status(&[]).await, 401 | 403), "this account");
    assert_eq!(status(&[("x-forwarded-for", "192.0.2.1")]).await, 401, "somebody through a proxy");
    assert_eq!(status(&[("origin", "http://localhost:3000")]).await, 403, "a page of another port");
    let _ = process.kill();
    let _ = process.wait();
}

/// A run that waits for a person occupies no slot; the answer that resumes it needs one.
#[tokio::test(flavor = "multi_thread")]
async fn answers_and_resumptions_count_as_runs() {
    let home = Home::new();
    let config = home.db().with_file_name("limits.toml");
    std::fs::write(&config, "[server]\nruns_max = 1\n").unwrap();
    let slow = format!("when model plan text~endless reply {{\"reasoning\": \"\", \"tasks\": []}} after 600000ms\n{LOOKS_UP}");
    let served = home.serve(&home.script(&slow), &["--config", config.to_str().unwrap()]);
    let body = json!({ "question": "What happens after a crash?", "flow": "search", "approve": true });
    let (status, asking) = served.post("/api/runs?wait=1", &body).await;
    assert_eq!((status, asking["status"].as_str()), (201, Some("asking")), "{asking}");
    let (endless, _) = served.start(&json!({ "question": "endless", "flow": "search" })).await;
    let run = asking["run"].as_str().unwrap();
    let answer = json!({ "task": asking["waiting"][0]["task"], "attempt": 1, "value": { "approve": true } });
    assert_eq!(served.post(&format!("/api/runs/{run}/answer"), &answer).await.0, 429);
    assert_eq!(served.post(&format!("/api/runs/{run}/resume"), &json!({})).await.0, 429);
    served.post(&format!("/api/runs/{endless}/cancel"), &json!({})).await;
    served.wait(&endless).await;
    let answered = async {
        while served.post(&format!("/api/runs/{run}/answer"), &answer).await.0 != 202 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::serve::PATIENCE, answered).await.unwrap();
}

//! Several servers on one Postgres, and the commands that use it. `lab/peers/postgres` starts a database for these.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::serve::{Event, PATIENCE, Served, event_lines};
use crate::{ANSWER, CommandOutput, Home};

/// The specification allows 5 s; the rest is margin for busy machines.
const TAKEOVER_MAX: Duration = Duration::from_secs(10);

/// A schema of its own in the database that `lab/peers/postgres` started.
pub(crate) struct Shared {
    pub(crate) home: Home,
    url: String,
    schema: String,
}

impl Shared {
    pub(crate) async fn new() -> Shared {
        let url = std::env::var("BATON_POSTGRES_URL").expect("`lab/peers/postgres` starts a database and runs this");
        let schema = format!("t{}_{}", std::process::id(), std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos());
        let shared = Shared { home: Home::new(), url, schema };
        shared.sql(&format!("CREATE SCHEMA {}", shared.schema)).await;
        shared
    }

    async fn sql(&self, sql: &str) {
        let (client, connection) = tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("SET search_path = {}; {sql}", self.schema)).await.unwrap();
    }

    /// With the password, for the environment only.
    fn store(&self) -> String {
        format!("{}?options=-c%20search_path%3D{}", self.url, self.schema)
    }

    fn password(&self) -> &str {
        self.url.split_once('@').unwrap().0.rsplit_once(':').unwrap().1
    }

    fn store_without_password(&self) -> String {
        self.store().replace(&format!(":{}@", self.password()), "@")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command.env("BATON_STORE", self.store()).env("XDG_CONFIG_HOME", self.home.db().with_file_name("config"));
        command
    }

    pub(crate) fn baton(&self, args: &[&str]) -> CommandOutput {
        CommandOutput::of(self.command(args).output().unwrap())
    }

    pub(crate) fn well(&self, args: &[&str]) -> CommandOutput {
        let output = self.baton(args);
        assert_eq!(output.code, Some(0), "{args:?}: {output:?}");
        output
    }

    fn serve(&self, script: &str) -> Served {
        let mut command = self.command(&["serve", "--port", "0", "--json"]);
        self.home.started(command.env("BATON_SCRIPT", script).stderr(Stdio::null()))
    }

    /// The sample script with one rule before it.
    pub(crate) fn script(&self, name: &str, rule: &str) -> String {
        let path = self.home.db().with_file_name(name);
        std::fs::write(&path, format!("{rule}\n{}", flows::SCRIPT)).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

pub(crate) fn question() -> Value {
    json!({ "question": "What is it?", "flow": "research" })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: lab/peers/postgres"]
async fn another_server_takes_over_and_its_watchers_continue_from_the_same_event() {
    let shared = Shared::new().await;
    let slow = shared.script("slow.script", "when model answer reply \"late\" after 600s");
    let (mut first, second) = (shared.serve(&slow), shared.serve("sample"));
    let (run, _) = first.start(&question()).await;
    // A watcher at the other server sees the run live, up to the slow model call.
    let is_waiting = |event: &Event| event.data["event"] == "asked" && event.data["effect"]["call_model"]["purpose"] == "answer";
    let before = second.events(&run, None, is_waiting).await;
    assert!(before.last().is_some_and(is_waiting), "{before:?}");
    let cursor = before.iter().rev().find_map(|event| event.id.clone());

    let killed = Instant::now();
    first.kill();
    let after = second.events(&run, cursor.as_deref(), |event| event.event == "end").await;
    let took = killed.elapsed();
    println!("the other server had finished the run {} ms after the kill", took.as_millis());
    assert!(took < TAKEOVER_MAX, "it took {took:?}");
    assert_eq!(second.get(&format!("/api/runs/{run}")).await.1["status"], "done");

    // Together they are the run's events: none twice, none missing.
    let all = event_lines(&second.events(&run, None, |event| event.event == "end").await);
    let seen: Vec<String> = event_lines(&before).into_iter().chain(event_lines(&after)).collect();
    assert_eq!(seen, all);
    assert_eq!(shared.home.changes("notes.append"), 1);
    assert!(shared.well(&["runs", "replay", &run]).out.starts_with("the same"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: lab/peers/postgres"]
async fn servers_are_killed_one_after_the_other_and_nothing_is_lost_or_done_twice() {
    let kills: u64 = if std::env::var_os("BATON_SCALE").is_some() { 100 } else { 5 };
    let shared = Shared::new().await;
    let steady = shared.script("steady.script", "when tool notes.append reply {\"n\": 1} checkable after 30ms");
    let mut servers = [shared.serve(&steady), shared.serve(&steady)];
    let mut runs = Vec::new();
    let mut dice: u64 = 20_261_116;
    for round in 0..kills {
        let victim = (round % 2) as usize;
        for _ in 0..3 {
            runs.push(servers[victim].start(&question()).await.0);
        }
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        tokio::time::sleep(Duration::from_millis((dice >> 33) % 120)).await;
        servers[victim].kill();
        servers[victim] = shared.serve(&steady);
    }
    for run in &runs {
        let row = tokio::time::timeout(PATIENCE, servers[0].wait(run)).await.unwrap();
        assert_eq!(row["status"], "done", "{row}");
    }
    assert_eq!(shared.home.changes("notes.append"), runs.len(), "each run adds its note once");
    for run in &runs {
        assert!(shared.well(&["runs", "replay", run]).out.starts_with("the same"));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: lab/peers/postgres"]
async fn a_database_that_is_away_for_a_while_loses_nothing() {
    let Ok(control) = std::env::var("BATON_POSTGRES_CONTROL") else { panic!("`lab/peers/postgres` sets BATON_POSTGRES_CONTROL") };
    let away = Duration::from_secs(if std::env::var_os("BATON_SCALE").is_some() { 60 } else { 3 });
    let shared = Shared::new().await;
    let steady = shared.script("steady.script", "when tool notes.append reply {\"n\": 1} checkable after 300ms");
    let server = shared.serve(&steady);
    let mut runs = Vec::new();
    for _ in 0..10 {
        runs.push(server.start(&question()).await.0);
    }
    for (action, wait) in [("stop", away), ("start", Duration::ZERO)] {
        let mut pg_ctl = Command::new(&control);
        pg_ctl.arg(action).stdout(Stdio::null());
        if action == "stop" {
            pg_ctl.args(["-m", "immediate"]);
        }
        assert!(pg_ctl.status().unwrap().success(), "{action}");
        tokio::time::sleep(wait).await;
    }
    for run in &runs {
        let begun = Instant::now();
        loop {
            let (status, row) = server.get(&format!("/api/runs/{run}")).await;
            if status == 200 && row["status"] == "done" {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{run}: {row}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    assert_eq!(shared.home.changes("notes.append"), runs.len());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: lab/peers/postgres"]
async fn commands_use_the_store_and_keep_its_password() {
    let shared = Shared::new().await;
    assert_eq!(shared.well(&["ask", "What is it?"]).out, ANSWER);
    assert!(!shared.home.db().exists(), "nothing is kept in a file");
    assert_eq!(shared.well(&["runs", "list", "--json"]).lines().len(), 1);
    assert_eq!(shared.well(&["threads", "list", "--json"]).lines().len(), 1);
    shared.well(&["tokens", "add", "ada"]);
    assert_eq!(shared.well(&["tokens", "list", "--json"]).lines().len(), 1);
    assert!(shared.well(&["doctor", "--json"]).out.contains("postgres://baton@"));

    // On the command line the password would be visible to other accounts.
    let (with, without) = (shared.store(), shared.store_without_password());
    let list = |store: &str| {
        let mut command = shared.home.command(&["runs", "list", "--json", "--store", store]);
        command.env_remove("BATON_STORE_PASSWORD");
        command
    };
    let refused = CommandOutput::of(list(&with).output().unwrap());
    refused.complains(2, &["BATON_STORE_PASSWORD"]);
    assert!(!refused.err.contains(shared.password()), "{refused:?}");
    let missing = CommandOutput::of(list(&without).output().unwrap());
    assert!(missing.code != Some(0) && missing.err.contains("BATON_STORE_PASSWORD"), "{missing:?}");
    let by_variable = CommandOutput::of(list(&without).env("BATON_STORE_PASSWORD", shared.password()).output().unwrap());
    assert_eq!(by_variable.lines().len(), 1, "{by_variable:?}");
    let file = shared.home.db().with_file_name("password");
    std::fs::write(&file, format!("{}\n", shared.password())).unwrap();
    let by_file = CommandOutput::of(list(&without).env("BATON_STORE_PASSWORD_FILE", &file).output().unwrap());
    assert_eq!(by_file.lines().len(), 1, "{by_file:?}");
    let config = shared.home.db().with_file_name("store.toml");
    std::fs::write(&config, format!("[store]\nurl = {without:?}\npassword_file = {file:?}\n")).unwrap();
    let mut by_config = shared.home.command(&["runs", "list", "--json", "--config", config.to_str().unwrap()]);
    let by_config = CommandOutput::of(by_config.env_remove("BATON_DB").output().unwrap());
    assert_eq!(by_config.lines().len(), 1, "{by_config:?}");
    shared.home.baton(&["runs", "list", "--store", "mysql://x/y"]).complains(2, &["postgres://", "--db"]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: lab/peers/postgres"]
async fn a_store_is_copied_there_and_back() {
    let shared = Shared::new().await;
    for question in ["What is it?", "And what is it for?"] {
        shared.home.well(&["ask", question]);
    }
    shared.home.well(&["tokens", "add", "ada"]);
    let runs = shared.home.well(&["runs", "list", "--json"]).out;
    let (file, url) = (shared.home.db(), shared.store_without_password());
    let copy = |from: &str, to: &str| {
        let mut command = shared.home.command(&["store", "copy", from, to, "--json"]);
        CommandOutput::of(command.env("BATON_STORE_PASSWORD", shared.password()).output().unwrap())
    };
    let file = file.to_str().unwrap();
    let there = copy(file, &url);
    assert_eq!(there.code, Some(0), "{there:?}");
    let sums = there.lines()[0]["tables"].clone();
    assert!(sums["journal"]["rows"].as_u64().unwrap() > 10, "{sums}");
    assert_eq!(shared.well(&["runs", "list", "--json"]).out, runs);

    // An interrupted copy continues; any other content is refused.
    shared.sql("DELETE FROM journal WHERE run = 2 AND seq > 3; DELETE FROM messages; DELETE FROM tokens").await;
    let again = copy(file, &url);
    assert_eq!(again.lines()[0]["tables"], sums, "{again:?}");
    assert!(again.lines()[0]["copied"].as_u64().unwrap() < there.lines()[0]["copied"].as_u64().unwrap());
    let back = shared.home.db().with_file_name("back.db");
    let back = back.to_str().unwrap();
    assert_eq!(copy(&url, back).lines()[0]["tables"], sums);
    let shown = CommandOutput::of(shared.home.command(&["runs", "list", "--json", "--db", back]).output().unwrap());
    assert_eq!(shown.out, runs);

    // Copied runs continue normally.
    assert_eq!(shared.well(&["ask", "What is it?"]).out, ANSWER);
    copy(file, &url).complains(2, &["empty database"]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: lab/peers/postgres"]
async fn a_user_is_listed_exported_and_deleted_while_a_server_runs() {
    let shared = Shared::new().await;
    let ada = shared.well(&["tokens", "add", "ada", "--json"]).lines()[0]["token"].as_str().unwrap().to_owned();
    let bob = shared.well(&["tokens", "add", "bob", "--json"]).lines()[0]["token"].as_str().unwrap().to_owned();
    let served = shared.serve("sample");
    for (token, word) in [(&ada, "adasword"), (&bob, "bobsword")] {
        let body = json!({ "question": format!("What is {word}?"), "flow": "research" });
        assert_eq!(served.by(token, reqwest::Method::POST, "/api/runs?wait=1", Some(&body)).await.0, 201);
        let item = json!({ "namespace": ["notes"], "key": "k", "value": { "word": word } });
        assert_eq!(served.by(token, reqwest::Method::PUT, "/store/items", Some(&item)).await.0, 204);
    }
    let users = |shared: &Shared| -> Vec<String> {
        shared.well(&["users", "list", "--json"]).lines().iter().map(|row| row["user"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(users(&shared), ["ada", "bob"]);
    let file = shared.home.db().with_file_name("ada.tar");
    assert_eq!(shared.well(&["users", "export", "ada", file.to_str().unwrap(), "--json"]).lines()[0]["threads"], 1);
    let exported = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
    assert!(exported.contains("adasword") && exported.contains("langgraph.item.json") && !exported.contains("bobsword"));
    shared.well(&["users", "delete", "ada", "--yes"]);
    assert_eq!(users(&shared), ["bob"]);
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(served.by(&ada, reqwest::Method::GET, "/api/status", None).await.0, 401);
    assert_eq!(served.by(&bob, reqwest::Method::GET, "/api/threads", None).await.1["threads"].as_array().unwrap().len(), 1);
    let refused = shared.baton(&["backup", shared.home.db().with_file_name("b.tar").to_str().unwrap()]);
    assert!(refused.code == Some(2) && refused.err.contains("pg_dump") && refused.err.contains("baton store copy"), "{refused:?}");
}

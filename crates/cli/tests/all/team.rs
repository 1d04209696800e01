//! `baton agent` and `baton up`, as processes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Home;

const PATIENCE: Duration = Duration::from_secs(60);

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

fn post(port: u16, path: &str, body: &Value) -> (String, Value) {
    let body = body.to_string();
    let mut line = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(
        line,
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut text = String::new();
    line.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), serde_json::from_str(body).unwrap())
}

/// Stopped with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const RESEARCH: &str = r#"
when tool registry.tools reply {"text": "", "data": {"tools": []}, "spans": []}
when model triage reply {"needs_research": true, "topic": "Tides", "questions": ["What are tides?"], "reply": ""}
when model research reply "The moon does it."
when model report reply {"summary": "The moon does it.", "key_points": []}
"#;

#[test]
fn p1_an_agent_is_a_process_with_a_port_and_a_database_of_its_own() {
    let home = Home::new();
    let script = home.script(RESEARCH);
    let mut command = home.command(&["agent", "researcher", "--port", "0", "--json"]);
    let mut agent = Process(command.env("BATON_SCRIPT", &script).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(agent.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let announced: Value = serde_json::from_str(&line).unwrap();
    let port: u16 = announced["listening"].as_str().unwrap().rsplit_once(':').unwrap().1.parse().unwrap();
    let (status, body) = post(port, "/graph/invoke", &json!({ "input": { "messages": [{ "type": "human", "content": "research tides" }] } }));
    let contract: Value = serde_json::from_str(body["output"]["messages"][1]["content"].as_str().unwrap()).unwrap();
    assert_eq!((status.as_str(), &contract["completed_capability"]), ("HTTP/1.1 200 OK", &json!("research")), "{body}");
    assert_eq!(contract["data"]["tool_used"], false);
    drop(agent);
    assert!(home.runs().iter().any(|run| run["flow"] == "researcher" && run["status"] == "done"), "it is in the database");
    home.baton(&["agent", "painter"]).complains(2, &["there is no agent \"painter\"", "researcher, writer, mailer"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    home.baton(&["agent", "writer", "--port", &port]).complains(2, &[&port, "cannot listen on"]);
}

/// Child processes, with their command lines.
fn children(parent: u32) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
        if fields.get(1).and_then(|ppid| ppid.parse::<u32>().ok()) == Some(parent) && fields.first() != Some(&"Z") {
            found.push((pid, std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default().replace('\0', " ")));
        }
    }
    found
}

#[test]
fn p8_up_starts_the_team_restarts_it_and_stops_all_of_it() {
    let home = Home::new();
    let doors: Vec<TcpListener> = (0..5).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let ports: Vec<u16> = doors.iter().map(|door| door.local_addr().unwrap().port()).collect();
    let config = home.folder.path().join("baton.toml");
    let text = format!(
        "model = \"extract\"\n[team]\nregistry_port = {}\npage_port = {}\n[team.ports]\nresearcher = {}\nwriter = {}\nmailer = {}\n",
        ports[3], ports[4], ports[0], ports[1], ports[2]
    );
    std::fs::write(&config, text).unwrap();
    let up = || {
        let mut command = home.command(&["--config", config.to_str().unwrap(), "up"]);
        command.env_remove("BATON_SCRIPT").stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    let refused = up().output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains(&format!("port {} for the researcher is taken", ports[0])), "{words}");
    drop(doors);

    let mut team = Process(up().spawn().unwrap());
    ports.iter().for_each(|port| until("it listens", || listens(*port)));
    let writer = |pid: &u32| children(*pid).into_iter().find(|(_, started)| started.contains("agent writer"));
    let id = team.0.id();
    let (first, _) = writer(&id).expect("a writer");
    let kill = |signal: &str, pid: u32| assert!(std::process::Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
    kill("-KILL", first);
    until("the writer is back", || writer(&id).is_some_and(|(pid, _)| pid != first) && listens(ports[1]));
    kill("-TERM", id);
    let begun = Instant::now();
    let status = loop {
        match team.0.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(begun.elapsed() < PATIENCE, "it does not stop"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(143));
    assert!(ports.iter().all(|port| !listens(*port)), "nobody is left behind");
    let log = std::fs::read_to_string(home.folder.path().join("up.log")).unwrap();
    assert!(log.contains("the writer exited") && log.contains("all stopped") && log.contains("mailer"), "{log}");
}

#[test]
fn p9_agents_that_run_on_this_machine_are_used_without_configuration_and_shown() {
    let home = Home::new();
    let script = home.script(RESEARCH);
    let mut command = home.command(&["agent", "Researcher", "--port", "0", "--json"]);
    let mut agent = Process(command.env("BATON_SCRIPT", &script).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(agent.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let announced: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(announced["agent"], "researcher", "by the document's name");
    let port = announced["listening"].as_str().unwrap().rsplit_once(':').unwrap().1;
    // The ports of this test instead of the default ones, which nothing uses.
    let config = home.folder.path().join("baton.toml");
    std::fs::write(&config, format!("model = \"extract\"\n[team.ports]\nresearcher = {port}\nDocumentCreator = 1\nGmail = 1\n")).unwrap();
    let other = Home::new();
    let mut command = crate::models::bare(&other, &["ask", "--flow", "supervise", "research tides", "--config", config.to_str().unwrap()]);
    let asked = crate::CommandOutput::of(command.output().unwrap());
    assert_eq!(asked.code, Some(0), "{asked:?}");
    let expected = format!("research (researcher at 127.0.0.1:{port}): The moon does it.");
    assert!(asked.out.replace("**", "").contains(&expected), "{asked:?}");
    assert!(home.runs().iter().any(|run| run["flow"] == "researcher" && run["status"] == "done"), "the process did it");
    assert_eq!(other.runs().len(), 1, "and no flow of this one");
}

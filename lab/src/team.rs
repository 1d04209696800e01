//! The team as its user runs it: `baton agent` three times, `baton ask --flow supervise`, one configuration; with a scripted model, an
//! encyclopedia and a mailbox. For the specification's story, once undisturbed and then with killed processes.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Json;
use axum::routing::post;
use serde_json::{Value, json};
use store::{RunFilter, RunRow, SqliteSettings, SqliteStore, Store};

use crate::provider::dialect::{Dialect, ScriptedAnswer};
use crate::provider::mailbox::{self, Mailbox};
use crate::provider::scripted_thought::errand_in;
use crate::provider::web;

pub const AGENTS: [&str; 3] = ["researcher", "writer", "mailer"];
pub const ME: &str = "ann@example.org";

pub struct Team {
    pub folder: PathBuf,
    /// The program, built by `cargo build --workspace --bins`.
    pub baton: PathBuf,
    pub ports: BTreeMap<&'static str, u16>,
    agents: BTreeMap<&'static str, Child>,
    mail: Mail,
    /// Number of model calls, by errand and kind.
    pub asked: Arc<Mutex<BTreeMap<(u64, String), u64>>>,
    runtime: tokio::runtime::Runtime,
    encyclopedia: String,
}

/// The mail server: our own minimal SMTP, or an external one.
enum Mail {
    Ours { mailbox: Mailbox, path: PathBuf },
    Theirs { server: Child, port: u16, folder: PathBuf },
}

impl Mail {
    fn port(&self) -> u16 {
        match self {
            Mail::Ours { mailbox, .. } => mailbox.port,
            Mail::Theirs { port, .. } => *port,
        }
    }
}

impl Team {
    /// `BATON_SMTP_SERVER` names a server (`lab/peers/mail_server.py`), as for `mail_kill`.
    pub fn new(folder: &Path, baton: &Path) -> Team {
        assert!(baton.exists(), "{} is missing: cargo build --workspace --bins", baton.display());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let asked: Arc<Mutex<BTreeMap<(u64, String), u64>>> = Arc::default();
        let (model, encyclopedia) = runtime.block_on(async { (serve_model(asked.clone()).await, web::serve(web::ARTICLE).await) });
        let mail = match std::env::var("BATON_SMTP_SERVER") {
            Ok(command) => theirs(&command, &folder.join("mails")),
            Err(_) => {
                let path = folder.join("mailbox");
                Mail::Ours { mailbox: runtime.block_on(Mailbox::serve(&path)), path }
            }
        };
        let ports = AGENTS.map(|name| (name, free_port())).into();
        let team = Team { folder: folder.to_owned(), baton: baton.to_owned(), ports, agents: BTreeMap::new(), mail, asked, runtime, encyclopedia };
        std::fs::write(team.config(), team.configuration(&model)).expect("it can be written");
        team
    }

    fn config(&self) -> PathBuf {
        self.folder.join("baton.toml")
    }

    fn configuration(&self, model: &str) -> String {
        let folder = self.folder.display();
        let mut text = format!(
            r#"model = "compat/lab/qwen-max"
[endpoints.lab]
url = "{model}/v1"
key = {{ env = "LAB_KEY" }}
[models."compat/lab/qwen-max"]
context_tokens_max = 32000
[tools]
allowed = ["mail.send"]
[tools.document]
folder = "{folder}/documents"
[tools.mail]
from = "baton@example.org"
outbox = "{folder}/outbox"
attachment_folders = ["{folder}/documents"]
[tools.mail.transport]
kind = "smtp"
host = "127.0.0.1"
port = {}
tls = "none"
[team]
me = "{ME}"
"#,
            self.mail.port()
        );
        for (name, port) in &self.ports {
            text.push_str(&format!("[agents.{name}]\nurl = \"http://127.0.0.1:{port}\"\n"));
        }
        text
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.baton);
        command.env("LAB_KEY", "sk-lab").env("WIKIPEDIA_URL", &self.encyclopedia).env("BATON_NO_PULL", "1").env("HOME", &self.folder);
        command.env("XDG_CACHE_HOME", self.folder.join("cache")).env("XDG_DATA_HOME", self.folder.join("data"));
        command.arg("--config").arg(self.config()).stdin(Stdio::null());
        command
    }

    /// Starts or restarts an agent, and waits until it listens. Returns the number of unfinished runs it found.
    pub fn start(&mut self, name: &'static str) -> u64 {
        let port = self.ports[name];
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.folder.join(format!("{name}.log"))).expect("a log");
        let mut command = self.command();
        command.arg("--db").arg(self.folder.join(format!("{name}.db"))).args(["agent", name, "--json", "--port", &port.to_string()]);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().expect("it can be started");
        let mut line = String::new();
        let out = child.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut line).expect("it can be read");
        assert!(line.contains("listening"), "the {name} does not listen: {line:?}, see {name}.log: {}", self.log(name));
        self.agents.insert(name, child);
        let printed: Value = serde_json::from_str(&line).expect("it prints JSON");
        printed["taken_up"].as_u64().unwrap_or(0)
    }

    pub fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.join(format!("{name}.log"))).unwrap_or_default()
    }

    pub fn kill(&mut self, name: &str) {
        let mut child = self.agents.remove(name).expect("it runs");
        child.kill().expect("it can be killed");
        child.wait().expect("it can be buried");
    }

    /// The supervisor, as a user starts it.
    pub fn ask(&self, errand: u64) -> Child {
        let words = format!("Errand {errand}: research relays, write it up as a PDF and mail it to me");
        self.supervisor(&["ask", "--flow", "supervise", "--json", "--thread", &format!("t{errand}"), &words]).spawn().expect("it can be started")
    }

    pub fn supervisor(&self, arguments: &[&str]) -> Command {
        let mut command = self.command();
        command.arg("--db").arg(self.folder.join("main.db")).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The run of an errand.
    pub fn run(&self, errand: u64) -> Option<RunRow> {
        let path = self.folder.join("main.db");
        if !path.exists() {
            return None;
        }
        let store = SqliteStore::open(path, SqliteSettings::default()).expect("the database is sound");
        let filter = RunFilter { thread: Some(format!("t{errand}").into()), ..RunFilter::default() };
        let rows = self.runtime.block_on(store.runs(filter)).expect("it can be read");
        rows.into_iter().find(|row| row.parent.is_none())
    }

    /// Number of mails about an errand in the mailbox, once all connections are finished.
    pub fn mails(&self, errand: u64) -> usize {
        let is_of = |subject: &str| errand_in(subject) == Some(errand);
        match &self.mail {
            Mail::Ours { mailbox, path } => {
                self.runtime.block_on(mailbox.settle());
                mailbox::subjects(path).iter().filter(|subject| is_of(subject)).count()
            }
            Mail::Theirs { .. } => {
                // It stores a mail within a few hundredths of a second after the transfer, or never.
                std::thread::sleep(Duration::from_millis(200));
                self.letters().iter().filter(|letter| letter.lines().any(|line| line.strip_prefix("Subject: ").is_some_and(is_of))).count()
            }
        }
    }

    /// Mails as transferred, where the server stores them; otherwise as handed to it.
    pub fn letters(&self) -> Vec<String> {
        let folder = match &self.mail {
            Mail::Ours { .. } => self.folder.join("outbox"),
            Mail::Theirs { folder, .. } => folder.clone(),
        };
        let mut letters = Vec::new();
        let mut open = vec![folder];
        while let Some(folder) = open.pop() {
            for path in std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())) {
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|kind| kind == "eml") {
                    letters.push(String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned());
                }
            }
        }
        letters
    }

    /// Number of model calls of this kind about an errand.
    pub fn count(&self, errand: u64, what: &str) -> u64 {
        self.asked.lock().expect("lock").get(&(errand, what.to_owned())).copied().unwrap_or(0)
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        for (_, mut child) in std::mem::take(&mut self.agents) {
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Mail::Theirs { server, .. } = &mut self.mail {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Waits for a process, with a timeout.
pub fn within(mut child: Child, time: Duration) -> Option<Output> {
    // Both pipes are read while it runs, otherwise it could block.
    let mut readers = Vec::new();
    for from in [
        child.stdout.take().map(|out| Box::new(out) as Box<dyn std::io::Read + Send>),
        child.stderr.take().map(|err| Box::new(err) as Box<dyn std::io::Read + Send>),
    ] {
        readers.push(std::thread::spawn(move || {
            let mut read = Vec::new();
            if let Some(mut from) = from {
                let _ = from.read_to_end(&mut read);
            }
            read
        }));
    }
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().expect("it can be looked at") {
            Some(status) => break Some(status),
            None if begun.elapsed() > time => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let mut read = readers.into_iter().map(|reader| reader.join().unwrap_or_default());
    let (stdout, stderr) = (read.next().unwrap_or_default(), read.next().unwrap_or_default());
    status.map(|status| Output { status, stdout, stderr })
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

fn theirs(command: &str, folder: &Path) -> Mail {
    let mut words = command.split_whitespace();
    let mut server = Command::new(words.next().expect("a command"))
        .args(words)
        .arg(folder)
        .arg("7")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the mail server can be started");
    let mut lines = BufReader::new(server.stdout.take().expect("it is piped")).lines();
    let line = lines.next().expect("a line").expect("it can be read");
    let port = line.strip_prefix("port ").and_then(|port| port.trim().parse().ok()).unwrap_or_else(|| panic!("it printed {line:?}"));
    // The rest must be read, otherwise it would block on a full pipe.
    std::thread::spawn(move || for _ in lines {});
    Mail::Theirs { server, port, folder: folder.to_owned() }
}

async fn serve_model(asked: Arc<Mutex<BTreeMap<(u64, String), u64>>>) -> String {
    let answer = move |Json(body): Json<Value>| {
        let asked = asked.clone();
        async move {
            let (what, reply) = think(&body);
            let messages = body["messages"].to_string();
            *asked.lock().expect("lock").entry((errand_in(&messages).unwrap_or_default(), what.to_owned())).or_default() += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
            // With a watcher, a stream is requested.
            let (kind, words) = match body["stream"] == Value::Bool(true) {
                true => ("text/event-stream", Dialect::OpenaiChat.stream(&ScriptedAnswer::Text(&reply)).concat()),
                false => ("application/json", Dialect::OpenaiChat.body(&ScriptedAnswer::Text(&reply)).to_string()),
            };
            ([("content-type", kind)], words)
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let app = Router::new().route("/v1/chat/completions", post(answer));
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

/// A valid reply, by the schema.
fn think(body: &Value) -> (&'static str, String) {
    let messages = body["messages"].to_string();
    let errand = format!("Errand {}", errand_in(&messages).unwrap_or_default());
    let fields = body.pointer("/response_format/json_schema/schema/properties").and_then(Value::as_object);
    let has = |name: &str| fields.is_some_and(|fields| fields.contains_key(name));
    let fact = "In a relay race the runner hands a baton to the next one within the exchange zone [1].";
    let (what, reply) = if has("plan") {
        ("plan", json!({ "plan": ["research", "create_document", "send_mail"], "reply": "" }))
    } else if has("needs_research") {
        ("triage", json!({ "needs_research": true, "topic": format!("{errand}: relays"), "questions": ["What is a relay race?"], "reply": "" }))
    } else if has("calls") {
        let has_looked = messages.contains("Calls made so far");
        (
            "calls",
            json!({ "calls": if has_looked { json!([]) } else { json!([{ "tool": "search.search", "arguments": { "query": "relay race" } }]) } }),
        )
    } else if has("summary") {
        ("report", json!({ "summary": fact, "key_points": ["The exchange zone is 30 metres long."] }))
    } else if has("markdown") {
        ("document", json!({ "title": errand, "markdown": fact }))
    } else if has("subject") {
        ("letter", json!({ "subject": errand, "body": "Here is what was found." }))
    } else {
        return ("research", fact.to_owned());
    };
    (what, reply.to_string())
}

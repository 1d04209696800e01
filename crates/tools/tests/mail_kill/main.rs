//! Mails through a real SMTP server while the sending process is killed, 100 times, at random moments around the sending. In the end every
//! mail is in the mailbox exactly once.
//!
//! The test acts as the engine: after a kill it looks the mail up, sends it again only if it certainly was not sent, and if that is unknown
//! checks the mailbox like a person. `lab/peers/mail` installs the server and runs this.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

mod victim;

const KILLS: u32 = 100;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "victim") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(victim::live(&words[1..])).unwrap();
    }
    if std::env::var_os("BATON_SMTP_SERVER").is_none() {
        return println!("skipped: needs a real SMTP server; lab/peers/mail installs one and runs this");
    }
    tls_and_a_password();
    a_hundred_kills_send_each_mail_once();
}

fn a_hundred_kills_send_each_mail_once() {
    let seed: u64 = std::env::var("BATON_KILL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_261_115);
    println!("BATON_KILL_SEED={seed}");
    let mut dice = Dice(seed);
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::start(home.path(), seed);
    let smtp = json!({"kind": "smtp", "host": "127.0.0.1", "port": server.port, "tls": "none", "timeout_seconds": 30});
    let settings = json!({"from": "Baton <baton@example.org>", "outbox": home.path().join("outbox"), "transport": smtp}).to_string();

    let begun = Instant::now();
    let whole = run(&settings, "send", "undisturbed", &[]);
    assert_eq!(whole["outcome"], "sent", "{whole}");
    let span = begun.elapsed();

    let mut sent: BTreeMap<String, String> = BTreeMap::from([("undisturbed".into(), whole["message_id"].as_str().unwrap().into())]);
    let (mut kills, mut survived, mut number) = (0, 0, 0);
    // Results of look_up after a kill, and of the mailbox where it is unknown.
    let mut found = BTreeMap::<&str, u32>::new();
    while kills < KILLS {
        number += 1;
        assert!(number < 50 * KILLS, "the victim is hardly ever hit: {survived} survived {kills} kills");
        let key = format!("mail {number}");
        loop {
            let mut victim = spawn(&settings, "send", &key, &[]);
            std::thread::sleep(span.mul_f64(dice.below(1_200) as f64 / 1_000.0));
            match victim.try_wait().unwrap() {
                Some(_) => survived += 1,
                None => {
                    victim.kill().unwrap();
                    victim.wait().unwrap();
                    kills += 1;
                }
            }
            let looked = run(&settings, "look_up", &key, &[]);
            match looked["done"].as_bool() {
                Some(true) => {
                    *found.entry("sent").or_default() += 1;
                    sent.insert(key.clone(), looked["result"]["message_id"].as_str().unwrap().into());
                    break;
                }
                Some(false) => *found.entry("not sent").or_default() += 1,
                None => {
                    server.settle();
                    let there = server.mailbox().iter().any(|text| text.contains(&format!("Subject: Mail {}\n", key)));
                    *found.entry(if there { "a person found it" } else { "a person did not find it" }).or_default() += 1;
                    let settled = run(&settings, "settle", &key, &[if there { "yes" } else { "no" }]);
                    assert_eq!(settled["done"], json!(there), "{settled}");
                    if there {
                        sent.insert(key.clone(), settled["result"]["message_id"].as_str().unwrap().into());
                        break;
                    }
                }
            }
        }
    }
    server.settle();
    let mut copies = BTreeMap::<String, u32>::new();
    for text in server.mailbox() {
        let id = text.lines().find_map(|line| line.strip_prefix("Message-ID: ")).unwrap().to_owned();
        *copies.entry(id).or_default() += 1;
    }
    println!("{kills} kills, {survived} undisturbed, {} mails; after each: {found:?}", sent.len());
    for (key, id) in &sent {
        assert_eq!(copies.remove(id), Some(1), "{key} {id}");
    }
    assert!(copies.is_empty(), "nobody sent these: {copies:?}");
    assert!(found.contains_key("not sent") && found.len() >= 3, "the kills missed what they were meant for: {found:?}");
}

fn tls_and_a_password() {
    let home = tempfile::tempdir().unwrap();
    let tls = PathBuf::from(std::env::var("BATON_SMTP_TLS").expect("BATON_SMTP_TLS is where the certificates are; run lab/peers/mail"));
    let server = Server::start_with(home.path(), 1, &[tls.join("server.pem"), tls.join("server.key")]);
    std::fs::write(home.path().join("right"), "open sesame\n").unwrap();
    std::fs::write(home.path().join("wrong"), "let me in\n").unwrap();
    let authority = tls.join("authority.pem");
    // The setup; the result of sending.
    let cases = [
        ("good", json!({"tls": "starttls", "user": "ann", "password": {"file": home.path().join("right")}, "authority_file": authority}), "sent"),
        (
            "wrong password",
            json!({"tls": "starttls", "user": "ann", "password": {"file": home.path().join("wrong")}, "authority_file": authority}),
            "535",
        ),
        (
            "no password",
            json!({"tls": "starttls", "user": "ann", "password": {"env": "BATON_NOT_SET"}, "authority_file": authority}),
            "BATON_NOT_SET",
        ),
        ("no user", json!({"tls": "starttls", "authority_file": authority}), "530"),
        ("unknown authority", json!({"tls": "starttls", "user": "ann", "password": {"file": home.path().join("right")}}), "certificate"),
        ("in the clear", json!({"tls": "none"}), "530"),
        ("TLS at once", json!({"tls": "implicit", "authority_file": authority, "timeout_seconds": 3}), "nothing was sent"),
    ];
    for (key, mut smtp, wanted) in cases {
        smtp["kind"] = json!("smtp");
        smtp["host"] = json!("localhost");
        smtp["port"] = json!(server.port);
        let settings = json!({"from": "Baton <baton@example.org>", "outbox": home.path().join("outbox"), "transport": smtp}).to_string();
        let printed = run(&settings, "send", key, &[]).to_string();
        println!("{key}: {printed}");
        assert!(printed.contains(wanted) && !printed.contains("sesame"), "{key}: {printed}");
        assert_eq!(run(&settings, "look_up", key, &[])["done"], json!(wanted == "sent"), "{key}");
    }
    assert_eq!(server.mailbox().len(), 1);
}

/// Pseudo-random numbers (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }
}

fn command(settings: &str, what: &str, key: &str, rest: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["victim", settings, what, key]).args(rest).stdout(Stdio::piped());
    command
}

fn spawn(settings: &str, what: &str, key: &str, rest: &[&str]) -> Child {
    command(settings, what, key, rest).spawn().unwrap()
}

fn run(settings: &str, what: &str, key: &str, rest: &[&str]) -> Value {
    let output = command(settings, what, key, rest).output().unwrap();
    assert!(output.status.success(), "{what} {key}: {}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

struct Server {
    process: Child,
    port: u16,
    lines: Receiver<String>,
    folder: PathBuf,
    open: i64,
}

impl Server {
    fn start(home: &Path, seed: u64) -> Self {
        Self::start_with(home, seed, &[])
    }

    fn start_with(home: &Path, seed: u64, rest: &[PathBuf]) -> Self {
        let command = std::env::var("BATON_SMTP_SERVER").expect("BATON_SMTP_SERVER is the command of the server; run lab/peers/mail");
        let folder = home.join("mailbox");
        let mut words = command.split(' ');
        let mut process =
            Command::new(words.next().unwrap()).args(words).arg(&folder).arg(seed.to_string()).args(rest).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        let first: String = lines.recv_timeout(Duration::from_secs(60)).unwrap();
        let port = first.strip_prefix("port ").unwrap().parse().unwrap();
        Self { process, port, lines, folder, open: 0 }
    }

    /// Waits until the server has closed all connections: then the mailbox is complete.
    fn settle(&mut self) {
        // Opens a connection, after which all earlier ones have been reported.
        drop(std::net::TcpStream::connect(("127.0.0.1", self.port)).unwrap());
        let mut ours_seen = false;
        while !(ours_seen && self.open == 0) {
            let line = self.lines.recv_timeout(Duration::from_secs(60)).expect("the server settles");
            match line.as_str() {
                "opened" => {
                    self.open += 1;
                    ours_seen = true;
                }
                "closed" => self.open -= 1,
                _ => {}
            }
            // Messages about earlier connections may still be pending: only an empty channel without open connections is quiet.
            if ours_seen
                && self.open == 0
                && let Ok(line) = self.lines.recv_timeout(Duration::from_millis(200))
            {
                self.open += match line.as_str() {
                    "opened" => 1,
                    "closed" => -1,
                    _ => 0,
                };
            }
        }
    }

    fn mailbox(&self) -> Vec<String> {
        let files = std::fs::read_dir(&self.folder).unwrap();
        files.map(|file| String::from_utf8(std::fs::read(file.unwrap().path()).unwrap()).unwrap().replace("\r\n", "\n")).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has no state to save.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

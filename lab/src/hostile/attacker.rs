//! Somebody who sends all of `lab/hostile` again and again, keeps connections half open, and asks for as much as is answered.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::calm::RegularUser;
use super::requests::{self, Body, OtherUser, Request};
use super::{Observations, documents};

const PATIENCE: Duration = Duration::from_secs(60);
/// Half-open connections of one attacker.
const HALF_OPEN: usize = 100;
/// Requests in one flood, at the same time.
const FLOOD: usize = 200;
const STREAMS: usize = 80;
/// Bodies that never end, and the bytes that are sent of each.
const SLOW_BODIES: usize = 5;
const SLOW_BYTES: usize = 8 << 20;
/// How often each form of an answer is asked for at the same time.
const RENDERED: usize = 4;

/// What an attacker does, one after the other and again from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    Documents,
    Requests,
    Flood,
    HalfOpen,
    Streams,
    SlowBodies,
    Guesses,
}

impl Attack {
    /// All of them, by their names on the command line.
    pub const ALL: [(&str, Attack); 7] = [
        ("documents", Attack::Documents),
        ("requests", Attack::Requests),
        ("flood", Attack::Flood),
        ("half-open", Attack::HalfOpen),
        ("streams", Attack::Streams),
        ("slow-bodies", Attack::SlowBodies),
        ("guesses", Attack::Guesses),
    ];
}

pub(super) struct Attacker {
    http: reqwest::Client,
    address: Ipv4Addr,
    url: String,
    user: String,
    token: String,
    attacks: Vec<Attack>,
    other: OtherUser,
    seen: Arc<Observations>,
}

impl Attacker {
    /// `number`: of this attacker among all. Each begins elsewhere in the list of attacks, so that not all do the same.
    pub(super) fn new(
        url: &str,
        (user, token): (&str, &str),
        number: usize,
        attacks: &[Attack],
        victim: &RegularUser,
        seen: Arc<Observations>,
    ) -> Attacker {
        // Each from an address of its own, as on a network; the regular users come from 127.0.0.1.
        let address = Ipv4Addr::new(127, 0, 1, (number % 250) as u8 + 1);
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).local_address(IpAddr::V4(address)).build().expect("a client can be made");
        let (thread, run) = victim.threads.last().cloned().unwrap_or_default();
        let other = OtherUser { user: victim.user.clone(), thread, run };
        let mut attacks = attacks.to_vec();
        let begin = number % attacks.len().max(1);
        attacks.rotate_left(begin);
        Attacker { http, address, url: url.to_owned(), user: user.to_owned(), token: token.to_owned(), attacks, other, seen }
    }

    pub(super) async fn until(self, end: Instant) {
        for attack in self.attacks.iter().cycle() {
            if Instant::now() >= end {
                return;
            }
            match attack {
                Attack::Documents => self.documents().await,
                Attack::Requests => self.requests().await,
                Attack::Flood => self.flood().await,
                Attack::HalfOpen => self.half_open().await,
                Attack::Streams => self.streams().await,
                Attack::SlowBodies => self.slow_bodies().await,
                Attack::Guesses => self.guesses().await,
            }
        }
    }

    async fn documents(&self) {
        for (name, bytes) in documents::all() {
            let request = self.http.put(format!("{}/api/documents/{name}", self.url)).header("content-type", "application/octet-stream").body(bytes);
            self.send(request, name).await;
        }
        // Make room for the next time.
        for (name, _) in documents::all() {
            self.send(self.http.delete(format!("{}/api/documents/{name}", self.url)), name).await;
        }
    }

    async fn requests(&self) {
        for Request { name, method, path, body } in requests::all(&self.other) {
            let method = Method::from_bytes(method.as_bytes()).unwrap_or(Method::GET);
            let request = self.http.request(method, format!("{}{path}", self.url));
            let text = self
                .send(
                    match body {
                        Body::None => request,
                        Body::Json(value) => request.json(&value),
                        Body::Bytes(kind, bytes) => request.header("content-type", kind).body(bytes),
                    },
                    name,
                )
                .await;
            let begun: Value = serde_json::from_str(&text).unwrap_or_default();
            if let (Some(run), Some(thread)) = (begun["run"].as_str(), begun["thread"].as_str()) {
                self.render(name, run, thread).await;
            }
        }
    }

    /// What a run answered in every form, many times at once: as an answer, as files, as a conversation, and behind a link.
    async fn render(&self, name: &str, run: &str, thread: &str) {
        let get = |path: String| self.send(self.http.get(format!("{}{path}", self.url)), name);
        let share = self.http.post(format!("{}/api/threads/{thread}/shares", self.url)).json(&serde_json::json!({}));
        let shared: Value = serde_json::from_str(&self.send(share, name).await).unwrap_or_default();
        let mut paths: Vec<String> = ["", ".html", ".pdf", ".docx"].map(|ending| format!("/api/runs/{run}/answer{ending}")).into();
        paths.extend(["md", "html", "pdf"].map(|ending| format!("/api/threads/{thread}/export/{ending}")));
        paths.extend(shared["path"].as_str().map(str::to_owned));
        futures::future::join_all(paths.iter().cycle().take(paths.len() * RENDERED).cloned().map(get)).await;
    }

    async fn flood(&self) {
        let each = (0..FLOOD).map(|number| {
            let path = if number % 2 == 0 { "/api/threads?limit=100" } else { "/api/runs?limit=100" };
            self.send(self.http.get(format!("{}{path}", self.url)), "a flood of lists")
        });
        futures::future::join_all(each).await;
        let body = serde_json::json!({ "question": "What happens after a crash?", "flow": "reason" });
        let runs = (0..FLOOD / 4).map(|_| self.send(self.http.post(format!("{}/api/runs", self.url)).json(&body), "a flood of runs"));
        futures::future::join_all(runs).await;
    }

    /// Connections that send a little and wait.
    async fn half_open(&self) {
        let mut open = Vec::new();
        for bytes in requests::raw().iter().cycle().take(HALF_OPEN) {
            let Ok(Ok(mut stream)) = tokio::time::timeout(Duration::from_secs(2), self.connect()).await else { break };
            self.seen.attacked();
            // The server may have closed it already.
            let _ = stream.write_all(&bytes[..bytes.len().min(40)]).await;
            open.push(stream);
        }
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            for stream in &mut open {
                let _ = stream.write_all(b"x").await;
            }
        }
        for (stream, bytes) in open.iter_mut().zip(requests::raw()) {
            let _ = stream.write_all(&bytes).await;
            let mut some = [0_u8; 512];
            let _ = tokio::time::timeout(Duration::from_millis(200), stream.read(&mut some)).await;
        }
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let server = self.url.trim_start_matches("http://").parse().map_err(io::Error::other)?;
        let socket = TcpSocket::new_v4()?;
        socket.bind((self.address, 0).into())?;
        socket.connect(server).await
    }

    /// Uploads that send almost everything and then nothing, so that the server keeps it in memory.
    async fn slow_bodies(&self) {
        let (host, token) = (self.url.trim_start_matches("http://"), &self.token);
        let head = format!(
            "PUT /api/documents/slow.md HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\ncontent-type: application/octet-stream\r\ncontent-length: {}\r\n\r\n",
            SLOW_BYTES + 1
        );
        let piece = vec![b'x'; 1 << 20];
        let mut open = Vec::new();
        for _ in 0..SLOW_BODIES {
            let Ok(Ok(mut stream)) = tokio::time::timeout(Duration::from_secs(2), self.connect()).await else { break };
            self.seen.attacked();
            let send = async {
                stream.write_all(head.as_bytes()).await?;
                for _ in 0..SLOW_BYTES / piece.len() {
                    stream.write_all(&piece).await?;
                }
                io::Result::Ok(())
            };
            // It is refused as soon as the user, or everybody, has too much in memory.
            let _ = tokio::time::timeout(Duration::from_secs(5), send).await;
            open.push(stream);
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }

    async fn streams(&self) {
        let mut open = Vec::new();
        for _ in 0..STREAMS {
            self.seen.attacked();
            if let Ok(response) = self.http.get(format!("{}/api/feed", self.url)).bearer_auth(&self.token).send().await {
                open.push(response);
            }
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }

    async fn guesses(&self) {
        for number in 0..50 {
            self.seen.attacked();
            // Refused, or slowed down; both are counted below as what they are.
            let _ = self.http.get(format!("{}/api/status", self.url)).bearer_auth(format!("guess-{number}")).send().await;
        }
    }

    async fn send(&self, request: reqwest::RequestBuilder, what: &str) -> String {
        self.seen.attacked();
        let Ok(response) = request.bearer_auth(&self.token).send().await else { return String::new() };
        let status = response.status().as_u16();
        // 503 and 507 are limits; any other 5xx is a fault.
        if status >= 500 && status != 503 && status != 507 {
            self.seen.failed_at(format!("{what}: {status}"));
        }
        let text = tokio::time::timeout(Duration::from_secs(20), response.text()).await.ok().and_then(Result::ok).unwrap_or_default();
        self.seen.look(&self.user, what, &text);
        text
    }
}

//! A server on loopback with one provider's API and a scripted behaviour. It records its requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use futures::stream;
use serde_json::Value;

use super::dialect::{Dialect, ScriptedAnswer};

#[derive(Clone, Debug)]
pub enum Behaviour {
    Answers(ScriptedAnswer<'static>),
    /// A function of the request.
    Thinks(fn(&Value) -> String),
    /// A status, headers and a body.
    Refuses(u16, &'static [(&'static str, &'static str)], String),
    /// Breaks off in the middle, with a reset or with a clean end.
    BreaksOff {
        cleanly: bool,
    },
    /// Valid HTTP with invalid content.
    Garbage(Nonsense),
    /// Accepts the request and never replies; or sends one piece and then nothing.
    Hangs {
        after_a_word: bool,
    },
    /// An error in the middle of a stream.
    GivesUp,
}

#[derive(Clone, Copy, Debug)]
pub enum Nonsense {
    Html,
    BrokenJson,
    OtherJson,
    Bytes,
    Empty,
}

#[derive(Clone, Debug)]
pub struct RecordedRequest {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Value,
}

impl RecordedRequest {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

pub struct Server {
    pub url: String,
    seen: Arc<Mutex<Vec<RecordedRequest>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    pub async fn start(dialect: Dialect, behaviour: Behaviour) -> Server {
        Server::start_with(dialect, vec![behaviour]).await
    }

    /// Each behaviour in turn; the last one repeats.
    pub async fn start_with(dialect: Dialect, behaviours: Vec<Behaviour>) -> Server {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let seen: Arc<Mutex<Vec<RecordedRequest>>> = Arc::default();
        let kept = seen.clone();
        let handler = move |uri: Uri, headers: HeaderMap, body: Bytes| {
            let (kept, behaviours) = (kept.clone(), behaviours.clone());
            async move {
                let path = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
                let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let count = {
                    let mut seen = kept.lock().expect("lock");
                    seen.push(RecordedRequest { path: path.clone(), headers, body: body.clone() });
                    seen.len()
                };
                let behaviour = behaviours[(count - 1).min(behaviours.len() - 1)].clone();
                respond(dialect, behaviour, &path, &body).await
            }
        };
        let app = Router::new().fallback(handler);
        let task = tokio::spawn(async move { axum::serve(listener, app).await.expect("serving") });
        Server { url, seen, task }
    }

    pub fn seen(&self) -> Vec<RecordedRequest> {
        self.seen.lock().expect("lock").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn respond(dialect: Dialect, behaviour: Behaviour, path: &str, body: &Value) -> Response<Body> {
    let streaming = body["stream"] == Value::Bool(true) || path.contains("streamGenerateContent");
    let dialect = dialect.at(path);
    let kind = match (streaming, dialect) {
        (false, _) => "application/json",
        (true, Dialect::Ollama) => "application/x-ndjson",
        (true, _) => "text/event-stream",
    };
    let chunks = |answer: &ScriptedAnswer<'_>| if streaming { dialect.stream(answer) } else { vec![dialect.body(answer).to_string()] };
    let hello = ScriptedAnswer::Text("Hello there, reader.");
    let ok = |kind: &str, body: Body| Response::builder().status(200).header("content-type", kind).body(body).expect("a response");
    match behaviour {
        Behaviour::Answers(answer) => ok(kind, dripping(chunks(&answer), End::Clean)),
        Behaviour::Thinks(think) => ok(kind, dripping(chunks(&ScriptedAnswer::Text(&think(body))), End::Clean)),
        Behaviour::Refuses(status, headers, words) => {
            let mut response = Response::builder().status(StatusCode::from_u16(status).expect("a status")).header("content-type", "application/json");
            for (name, value) in headers {
                response = response.header(*name, *value);
            }
            response.body(Body::from(words)).expect("a response")
        }
        Behaviour::BreaksOff { cleanly } => {
            let mut part = chunks(&hello);
            if streaming {
                part.truncate(part.len() / 2);
            } else {
                let half = part[0].len() / 2;
                part[0].truncate(half);
            }
            ok(kind, dripping(part, if cleanly { End::Clean } else { End::Dead }))
        }
        Behaviour::Garbage(nonsense) => match nonsense {
            Nonsense::Html => ok("text/html", Body::from("<html><body>Welcome to nginx</body></html>")),
            Nonsense::BrokenJson => ok(kind, Body::from("data: {\"choices\": [[[\n\n{\"message\": \n\n")),
            Nonsense::OtherJson => ok(kind, Body::from(if streaming { "data: {\"cats\": 3}\n\n" } else { "{\"cats\": 3}" })),
            Nonsense::Bytes => ok(kind, Body::from([0xff_u8, 0xfe, 0x00, 0x80, 0xc3, 0x28].repeat(200))),
            Nonsense::Empty => ok(kind, Body::empty()),
        },
        Behaviour::Hangs { after_a_word: false } => std::future::pending().await,
        Behaviour::Hangs { after_a_word: true } => {
            let mut part = chunks(&hello);
            part.truncate(1.max(part.len() / 2));
            if !streaming {
                part[0].truncate(5);
            }
            ok(kind, dripping(part, End::Never))
        }
        Behaviour::GivesUp => {
            let mut part = chunks(&hello);
            part.truncate(part.len() / 2);
            part.push(dialect.stream_error());
            ok(kind, dripping(part, End::Clean))
        }
    }
}

#[derive(Clone, Copy)]
enum End {
    Clean,
    Dead,
    Never,
}

/// Chunk by chunk, each in two pieces, so that nothing depends on the boundaries.
fn dripping(chunks: Vec<String>, end: End) -> Body {
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    for chunk in chunks {
        let (front, back) = chunk.as_bytes().split_at(chunk.len() / 2);
        pieces.extend([front.to_vec(), back.to_vec()]);
    }
    let pieces = pieces.into_iter();
    Body::from_stream(stream::unfold(pieces, move |mut pieces| async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        match (pieces.next(), end) {
            (Some(piece), _) => Some((Ok(Bytes::from(piece)), pieces)),
            (None, End::Clean) => None,
            (None, End::Dead) => Some((Err(std::io::Error::other("cut")), pieces)),
            (None, End::Never) => std::future::pending().await,
        }
    }))
}

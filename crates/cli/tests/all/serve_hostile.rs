//! Hostile requests to a server.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::serve::{Served, send};
use crate::{Home, LOOKS_UP};

impl Served {
    /// With a token.
    pub(crate) async fn by(&self, token: &str, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let request = self.request(method, path).bearer_auth(token);
        send(match body {
            Some(body) => request.json(body),
            None => request,
        })
        .await
    }

    async fn put(&self, token: Option<&str>, name: &str, bytes: impl Into<reqwest::Body>) -> u16 {
        let request = self.request(Method::PUT, &format!("/api/documents/{name}")).header("content-type", "application/octet-stream").body(bytes);
        let request = token.into_iter().fold(request, |request, token| request.bearer_auth(token));
        request.send().await.unwrap().status().as_u16()
    }

    /// Sends raw bytes and returns the first line of the response.
    async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = tokio::net::TcpStream::connect(self.url.trim_start_matches("http://")).await.unwrap();
        // The server may close the connection before all of it was sent.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
        String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
    }
}

pub(crate) fn token(home: &Home, user: &str) -> String {
    home.well(&["tokens", "add", user, "--json"]).lines()[0]["token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_users_each_sees_what_is_their_own() {
    let home = Home::new();
    let (ada, bob) = (token(&home, "ada"), token(&home, "bob"));
    let served = home.serve(&home.script(LOOKS_UP), &[]);
    let body = json!({ "question": "What happens after a crash?", "flow": "search", "approve": true });
    let (status, started) = served.by(&ada, Method::POST, "/api/runs?wait=1", Some(&body)).await;
    assert_eq!((status, started["status"].as_str()), (201, Some("asking")), "{started}");
    let (run, thread) = (started["run"].as_str().unwrap(), started["thread"].as_str().unwrap());
    let answer = json!({ "task": started["waiting"][0]["task"], "attempt": 1, "value": { "approve": true } });
    let fork = json!({ "at_step": 0 });
    for (method, path, body) in [
        (Method::GET, format!("/api/runs/{run}"), None),
        (Method::GET, format!("/api/runs/{run}/events"), None),
        (Method::GET, format!("/api/runs/{run}/answer"), None),
        (Method::GET, format!("/api/runs/{run}/answer.pdf"), None),
        (Method::GET, format!("/api/runs/{run}/spans/1"), None),
        (Method::GET, format!("/api/threads/{thread}"), None),
        (Method::GET, format!("/api/threads?before={thread}"), None),
        (Method::GET, format!("/api/runs?thread={thread}"), None),
        (Method::GET, format!("/api/runs?before={run}"), None),
        (Method::DELETE, format!("/api/threads/{thread}"), None),
        (Method::POST, format!("/api/runs/{run}/cancel"), Some(&json!({}))),
        (Method::POST, format!("/api/runs/{run}/resume"), Some(&json!({}))),
        (Method::POST, format!("/api/runs/{run}/answer"), Some(&answer)),
        (Method::POST, format!("/api/runs/{run}/fork"), Some(&fork)),
    ] {
        let (status, error) = served.by(&bob, method.clone(), &path, body).await;
        assert_eq!(status, 404, "{method} {path}: {error}");
        assert!(!error.to_string().contains("crash"), "{method} {path}: {error}");
    }
    assert_eq!(served.by(&bob, Method::GET, "/api/threads", None).await.1["threads"], json!([]));
    // Another user's thread name behaves like an unused one: the run starts in a thread of the caller.
    let mut answers = Vec::new();
    for name in [thread, "nobody's"] {
        let body = json!({ "question": "mine now", "flow": "search", "thread": name });
        let (status, started) = served.by(&bob, Method::POST, "/api/runs?wait=1", Some(&body)).await;
        let own = started["thread"].as_str().unwrap().to_owned();
        assert!(own.starts_with(name) && own != name, "{own}");
        answers.push((status, own.len() - name.len(), started.as_object().unwrap().keys().cloned().collect::<Vec<_>>()));
        let (_, conversation) = served.by(&bob, Method::GET, &format!("/api/threads/{name}"), None).await;
        assert_eq!(conversation["thread"]["thread"], own.as_str(), "{conversation}");
        assert_eq!(served.by(&bob, Method::DELETE, &format!("/api/threads/{own}"), None).await.0, 204);
    }
    assert_eq!(answers[0], answers[1]);
    let shown = async |name: &str| served.by(&bob, Method::GET, &format!("/api/threads/{name}"), None).await;
    assert_eq!(shown(thread).await, shown("nobody's").await);
    assert_eq!(served.by(&bob, Method::GET, "/api/runs", None).await.1["runs"], json!([]));
    // The same key is a different run for another user.
    let keyed = |token: &str| {
        send(
            served
                .request(Method::POST, "/api/runs")
                .bearer_auth(token)
                .header("idempotency-key", "same")
                .json(&json!({ "question": "q", "flow": "search" })),
        )
    };
    assert_ne!(keyed(&ada).await.1["run"], keyed(&bob).await.1["run"]);
    assert_eq!(served.put(Some(&ada), "secret.md", "# Mine").await, 201);
    assert_eq!(served.by(&bob, Method::GET, "/api/documents", None).await.1["files"], json!([]));
    assert_eq!(served.by(&bob, Method::DELETE, "/api/documents/secret.md", None).await.0, 404);
    assert_eq!(served.by(&ada, Method::GET, "/api/documents", None).await.1["files"][0]["name"], "secret.md");
    // Global data is for the operator only.
    assert_eq!(served.by(&ada, Method::GET, "/metrics", None).await.0, 403);

    assert_eq!(served.get("/api/threads").await.0, 401);
    assert_eq!(served.get("/healthz").await, (200, json!({ "ok": true })));
    assert_eq!(served.by(&ada, Method::POST, &format!("/api/runs/{run}/answer"), Some(&answer)).await.0, 202);
    home.well(&["tokens", "remove", "1"]);
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(served.by(&ada, Method::GET, "/api/threads", None).await.0, 401);
}

/// With the real index and extraction as the model.
#[tokio::test(flavor = "multi_thread")]
async fn what_one_user_uploads_is_cited_in_its_place_and_found_by_nobody_else() {
    let home = Home::new();
    let (ada, bob) = (token(&home, "ada"), token(&home, "bob"));
    let served = home.serve("", &["--model", "extract"]);
    let words =
        "# Relay notes\n\nSome words before, \u{fc}n\u{ef}code \u{1f3c3}.\n\n## Colour\n\nThe secret baton of Ada is painted turquoise since 1999.\n";
    assert_eq!(served.put(Some(&ada), "notes.md", words).await, 201);
    let indexed = async {
        while served.by(&ada, Method::GET, "/api/documents", None).await.1["files"][0]["state"] != "indexed" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), indexed).await.unwrap();
    let (_, contents) = served.by(&ada, Method::GET, "/api/documents/notes.md?from=5", None).await;
    assert_eq!((contents["from"].as_u64(), contents["text"].as_str().unwrap().starts_with("## Colour")), (Some(5), true), "{contents}");
    let (status, beyond) = served.by(&ada, Method::GET, "/api/documents/notes.md?from=99", None).await;
    let message = beyond["error"]["message"].as_str().unwrap();
    assert!(status == 422 && message.starts_with("notes.md ends at"), "{status} {message}");
    assert_eq!(served.by(&bob, Method::GET, "/api/documents/notes.md", None).await.0, 404);
    let body = json!({ "question": "What colour is the secret baton of Ada?", "flow": "direct" });
    let (_, run) = served.by(&ada, Method::POST, "/api/runs?wait=1", Some(&body)).await;
    let run = run["run"].as_str().unwrap();
    for inspected in ["steps", "steps/0", "journal"] {
        let path = format!("/api/runs/{run}/{inspected}");
        assert_eq!((served.by(&ada, Method::GET, &path, None).await.0, served.by(&bob, Method::GET, &path, None).await.0), (200, 404), "{path}");
    }
    let (_, answer) = served.by(&ada, Method::GET, &format!("/api/runs/{run}/answer"), None).await;
    assert_eq!((answer["is_extracted"].as_bool(), answer["sentences"][0]["status"].as_str()), (Some(true), Some("supported")), "{answer}");
    let (_, place) = served.by(&ada, Method::GET, &format!("/api/runs/{run}/spans/{}", answer["spans"][0]["n"]), None).await;
    let document = &place["document"];
    let units: Vec<u16> = document["text"].as_str().unwrap().encode_utf16().collect();
    let at = |name: &str| document[name].as_u64().unwrap() as usize;
    assert_eq!(String::from_utf16(&units[at("start")..at("end")]).unwrap(), "The secret baton of Ada is painted turquoise since 1999.");
    let (_, other) = served.by(&bob, Method::POST, "/api/runs?wait=1", Some(&body)).await;
    assert!(!other.to_string().contains("turquoise"), "{other}");
    let events = served.request(Method::GET, &format!("/api/runs/{}/events", other["run"].as_str().unwrap())).bearer_auth(&bob).send().await.unwrap();
    assert!(!events.text().await.unwrap().contains("turquoise"));
    // Nor by calling the tool directly, which only the operator may.
    let call = json!({ "arguments": { "query": "turquoise" } });
    assert_eq!(served.by(&bob, Method::POST, "/api/registry/tools/docs.search/call", Some(&call)).await.0, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_has_a_cookie_that_other_pages_cannot_use() {
    let home = Home::new();
    let ada = token(&home, "ada");
    let served = home.serve(&home.script(LOOKS_UP), &[]);
    let response = served.request(Method::POST, "/api/session").json(&json!({ "token": ada })).send().await.unwrap();
    assert_eq!(response.status(), 204);
    let cookie = response.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains(&ada), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    let origin = served.url.clone();
    for (origin, wanted) in [(Some(origin.as_str()), 200), (None, 200), (Some("https://evil.example"), 403), (Some("null"), 403)] {
        let request = served.request(Method::PATCH, "/api/settings").header("cookie", pair).json(&json!({ "strict": true }));
        let request = origin.into_iter().fold(request, |request, origin| request.header("origin", origin));
        assert_eq!(request.send().await.unwrap().status(), wanted, "{origin:?}");
    }
    assert_eq!(served.request(Method::DELETE, "/api/session").header("cookie", pair).send().await.unwrap().status(), 204);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(served.request(Method::GET, "/api/settings").header("cookie", pair).send().await.unwrap().status(), 401);
    // Guessing is rate-limited without affecting other clients of the same address.
    let mut statuses = Vec::new();
    for guess in 0..14 {
        statuses.push(served.by(&format!("guess-{guess}"), Method::GET, "/api/status", None).await.0);
    }
    assert!(statuses[..8].iter().all(|status| *status == 401) && statuses[12..].iter().all(|status| *status == 429), "{statuses:?}");
    assert_eq!(served.by(&ada, Method::GET, "/api/status", None).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_malformed_too_large_or_from_elsewhere_is_refused() {
    let home = Home::new();
    std::fs::write(home.db().with_file_name("secret.txt"), "secret").unwrap();
    let served = home.serve(&home.script(LOOKS_UP), &[]);
    // Path traversal.
    for path in [
        "/assets/../Cargo.toml",
        "/assets/%2e%2e/%2e%2e/Cargo.toml",
        "/assets/..%2f..%2fCargo.toml",
        "/assets//etc/passwd",
        "/assets/%00",
        "/../../etc/passwd",
    ] {
        let line = served.raw(format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n").as_bytes()).await;
        assert!(line.contains(" 404 ") || line.contains(" 400 "), "{path}: {line}");
    }
    for name in ["..%2Fsecret.txt", "%2e%2e", ".hidden", "a%2Fb.md", "a%5Cb.md", "x%00.md", "%2Fetc%2Fpasswd", "nul%0A.md"] {
        let status = served.put(None, name, "words").await;
        assert!(matches!(status, 400 | 404 | 422), "{name}: {status}");
    }
    assert_eq!(std::fs::read_to_string(home.db().with_file_name("secret.txt")).unwrap(), "secret");
    assert_eq!(served.put(None, "notes.md", [0xff, 0xfe_u8, 0x00].repeat(2)).await, 201, "UTF-16 has a mark");
    assert_eq!(served.put(None, "program.bin", vec![0x7f, b'E', b'L', b'F', 0, 1]).await, 415);
    assert_eq!(served.put(None, "fake.pdf", "no pdf").await, 415);
    // Rejected before all of it was sent, which a client may see as a closed connection.
    let large =
        served.request(Method::PUT, "/api/documents/large.txt").header("content-type", "application/octet-stream").body(vec![b'x'; (20 << 20) + 1]);
    if let Ok(response) = large.send().await {
        assert_eq!(response.status(), 413);
    }
    let (_, documents) = served.get("/api/documents").await;
    assert!(documents["files"].as_array().unwrap().iter().all(|file| file["name"] == "notes.md"), "{documents}");
    // Bodies.
    let post = |body: Vec<u8>, kind: &str| served.request(Method::POST, "/api/runs").header("content-type", kind.to_owned()).body(body).send();
    for (body, kind, wanted) in [
        (b"{\"question\": \"\xff\xfe\"}".to_vec(), "application/json", 400),
        (b"{\"question\": ".to_vec(), "application/json", 400),
        (b"{}".to_vec(), "application/json", 422),
        (b"[]".to_vec(), "application/json", 422),
        (b"{\"question\": \"q\", \"quota\": 1}".to_vec(), "application/json", 422),
        (b"{\"question\": \"\\u0000\"}".to_vec(), "application/json", 422),
        (b"{\"question\": \"q\", \"flow\": \"nonsense\"}".to_vec(), "application/json", 422),
        (b"{\"question\": \"q\", \"budget\": {\"usd\": -1}}".to_vec(), "application/json", 422),
        (b"question=q".to_vec(), "application/x-www-form-urlencoded", 415),
        (b"{\"question\": \"q\"}".to_vec(), "text/plain", 415),
        (format!("{{\"question\": \"{}\"}}", "x".repeat(2 << 20)).into_bytes(), "application/json", 413),
        (format!("{{\"question\": \"{}\"}}", "x".repeat(100 << 10)).into_bytes(), "application/json", 422),
        (format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)).into_bytes(), "application/json", 422),
        (format!("{{\"question\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000)).into_bytes(), "application/json", 422),
        (b"[\"q\", null, null, null, false, null, null]".to_vec(), "application/json", 422),
    ] {
        let start = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let Ok(response) = post(body, kind).await else {
            assert_eq!(wanted, 413, "{start}: the line was cut");
            continue;
        };
        let status = response.status().as_u16();
        let error: Value = response.json().await.unwrap();
        assert_eq!(status, wanted, "{start}: {error}");
        assert!(error["error"]["message"].is_string(), "{start}: {error}");
    }
    // Too many headers, and one that is too long.
    let many: String = (0..500).map(|n| format!("x-{n}: y\r\n")).collect();
    let line = served.raw(format!("GET /api/status HTTP/1.1\r\nhost: 127.0.0.1\r\n{many}\r\n").as_bytes()).await;
    assert!(line.contains(" 431 ") || line.is_empty(), "{line}");
    let line = served.raw(format!("GET /api/status HTTP/1.1\r\nhost: 127.0.0.1\r\nx: {}\r\n\r\n", "y".repeat(200_000)).as_bytes()).await;
    assert!(line.contains(" 431 ") || line.is_empty(), "{line}");
    assert!(served.raw(b"\x16\x03\x01 not http\r\n\r\n").await.contains(" 400 "));
    // Other origins and hosts.
    for (name, value) in [("origin", "https://evil.example"), ("host", "evil.example")] {
        assert_eq!(served.request(Method::GET, "/api/threads").header(name, value).send().await.unwrap().status(), 403, "{name}");
    }
    assert_eq!(served.request(Method::OPTIONS, "/api/runs").header("origin", "https://evil.example").send().await.unwrap().status(), 403);
    assert_eq!(served.get("/api/nothing").await.0, 404);
    assert_eq!(served.get("/api/query").await.0, 405);
    assert_eq!(served.get("/api/status").await.0, 200, "it still serves");
}

#[tokio::test(flavor = "multi_thread")]
async fn script_in_words_stays_words() {
    let home = Home::new();
    let evil = "<img src=x onerror=alert(1)><script>alert(2)</script> [x](javascript:alert(3)) What happens after a crash?";
    let script = LOOKS_UP.replace("The disk was 8 TB large [1].", "<script>alert(4)</script> <a href=\\\"javascript:alert(5)\\\">x</a>");
    let served = home.serve(&home.script(&script), &[]);
    let (_, run) = served.post("/api/runs?wait=1", &json!({ "question": evil, "flow": "search" })).await;
    let path = format!("/api/runs/{}/answer", run["run"].as_str().unwrap());
    let response = served.request(Method::GET, &path).send().await.unwrap();
    let headers = response.headers().clone();
    assert_eq!((&headers["x-content-type-options"], &headers["content-type"]), (&"nosniff".parse().unwrap(), &"application/json".parse().unwrap()));
    assert!(headers["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
    let answer: Value = response.json().await.unwrap();
    let html = answer["html"].as_str().unwrap();
    for bad in ["<script", "javascript:", "onerror", "<img"] {
        assert!(!html.contains(bad), "{bad} in {html}");
    }
    let file = served.request(Method::GET, &format!("{path}.html")).send().await.unwrap();
    assert!(file.headers()["content-disposition"].to_str().unwrap().starts_with("attachment"));
    assert!(file.headers()["content-security-policy"].to_str().unwrap().contains("sandbox"));
    let text = file.text().await.unwrap();
    assert!(!text.contains("<script>alert") && !text.contains("<img src=x"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_without_end_are_counted() {
    let home = Home::new();
    let served = home.serve(&home.script(LOOKS_UP), &[]);
    let mut open = Vec::new();
    let mut refused = 0;
    for _ in 0..70 {
        let response = served.client.get(format!("{}/api/feed", served.url)).send().await.unwrap();
        match response.status().as_u16() {
            200 => open.push(response),
            429 => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!((open.len(), refused), (64, 6));
    assert_eq!(served.get("/api/status").await.0, 200);
    let metrics = served.get("/metrics").await.1;
    assert!(metrics.as_str().unwrap().contains("baton_streams 64"), "{metrics}");
    drop(open);
    let freed = async {
        while served.client.get(format!("{}/api/feed", served.url)).send().await.unwrap().status() != 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), freed).await.unwrap();
}

//! Hostile pages on real local servers: private addresses, endless responses, disguised content.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use reqwest::Url;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::get::Getter;
use super::guard::{AllowedHost, Lookup, check, is_public};
use super::page::{Section, sections};
use super::{KIND, Limits, around};
use crate::testing::{Session, session_of};

/// Test machines are busy; time limits are tested with the other value.
const PATIENT: Duration = Duration::from_secs(25);
const BRIEF: Duration = Duration::from_secs(2);

const SECRET: &str = "the secret of this machine";

#[test]
fn only_the_internet_at_large_is_public() {
    let public = [
        "1.1.1.1",
        "93.184.216.34",
        "8.8.8.8",
        "172.32.0.1",
        "100.128.0.1",
        "2606:4700::1111",
        "2a00:1450:4001::200e",
        "64:ff9b::8.8.8.8",
        "::ffff:8.8.8.8",
        "2002:808:808::1",
    ];
    let private = [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "169.254.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::10.1.2.3",
        "64:ff9b:1::1",
        "2002:7f00:1::1",
        "2002:a00:1::",
        "2002:a9fe:a9fe::",
        "2001::1",
        "2001:0:7f00:1::",
        "2001:db8::1",
        "2001:20::1",
        "3fff::1",
        "fe80::1",
        "fec0::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "100::1",
        "5f00::1",
    ];
    for (ips, expected) in [(&public[..], true), (&private[..], false)] {
        for ip in ips {
            assert_eq!(is_public(ip.parse::<IpAddr>().unwrap()), expected, "{ip}");
        }
    }
}

#[test]
fn addresses_that_are_not_asked_for() {
    let rows = [
        ("http://127.0.0.1/", "public"),
        ("http://2130706433/", "public"),
        ("http://0x7f000001/", "public"),
        ("http://0x7f.1/", "public"),
        ("http://0177.0.0.1/", "public"),
        ("http://017700000001/", "public"),
        ("http://127.1/", "public"),
        ("http://0/", "public"),
        ("http://①②⑦.⓪.⓪.①/", "public"),
        ("http://127。0。0。1/", "public"),
        ("http://%31%32%37.0.0.1/", "public"),
        ("http://169.254.169.254/latest/meta-data/", "public"),
        ("http://[::1]/", "public"),
        ("http://[0:0:0:0:0:ffff:7f00:1]/", "public"),
        ("http://[::ffff:169.254.169.254]/", "public"),
        ("http://[64:ff9b::7f00:1]/", "public"),
        ("http://[fd00:ec2::254]/", "public"),
        ("https://10.0.0.1/", "public"),
        ("http://user@example.org/", "user name"),
        ("http://:pass@example.org/", "user name"),
        ("http://example.org@127.0.0.1/", "user name"),
        ("http://example.org:22/", "port 22"),
        ("http://example.org:25/", "port 25"),
        ("http://example.org:6379/", "port 6379"),
        ("ftp://example.org/", "only http"),
        ("file:///etc/passwd", "only http"),
        ("gopher://example.org/", "only http"),
        ("data:text/html,hi", "only http"),
        ("javascript:alert(1)", "only http"),
    ];
    for (address, message) in rows {
        let error = check(&Url::parse(address).unwrap(), false).expect_err(address);
        assert!(error.contains(message), "{address}: {error}");
    }
    for address in ["https://example.org/", "http://example.org:8080/x", "https://1.1.1.1/", "http://[2606:4700::1111]/"] {
        check(&Url::parse(address).unwrap(), false).unwrap();
    }
}

#[test]
fn hosts_that_are_allowed() {
    let covers = |allowed: &str, address: &str| AllowedHost::read(allowed).unwrap().covers(&Url::parse(address).unwrap());
    assert!(covers("wiki.corp", "http://wiki.corp/x") && covers("wiki.corp", "https://WIKI.corp:8443/"));
    assert!(covers("10.0.0.7:8080", "http://10.0.0.7:8080/") && !covers("10.0.0.7:8080", "http://10.0.0.7/"));
    assert!(covers("10.0.0.7:80", "http://10.0.0.7/") && !covers("10.0.0.7:80", "http://10.0.0.7:81/"));
    assert!(covers("[::1]:3000", "http://[::1]:3000/") && !covers("wiki.corp", "http://evil.wiki.corp/"));
    for wrong in ["", "a/b", "user@host", "http://x", "a b"] {
        assert!(AllowedHost::read(wrong).is_err(), "{wrong}");
    }
}

/// A resolver for tests: the answers of each name in turn, the last one repeated.
#[derive(Default)]
struct Names {
    answers: BTreeMap<&'static str, Vec<Vec<&'static str>>>,
    asked: Mutex<BTreeMap<String, usize>>,
}

impl Lookup for Names {
    fn lookup(&self, name: String) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>> {
        let mut asked = self.asked.lock().unwrap();
        let turn = asked.entry(name.clone()).or_default();
        let answers = self.answers.get(name.as_str()).map(|all| all[(*turn).min(all.len() - 1)].clone());
        *turn += 1;
        Box::pin(async move {
            let answers = answers.ok_or_else(|| std::io::Error::other("no such name"))?;
            Ok(answers.into_iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect())
        })
    }
}

/// A server that writes arbitrary bytes for a path.
struct TestSite {
    port: u16,
    hits: Arc<AtomicUsize>,
}

async fn stage() -> TestSite {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let hits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&hits);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                // The client may disconnect in the middle.
                let _ = play(stream, port).await;
            });
        }
    });
    TestSite { port, hits }
}

fn ok(kind: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

fn to(place: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nlocation: {place}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").into_bytes()
}

const ARTICLE: &str = r#"<!doctype html><html lang="en"><head><title>Bridges &amp; cables</title>
<meta property="article:published_time" content="2026-03-04T05:06:07Z"><script>steal()</script></head><body><nav><a href="/a">Home</a> <a href="/b">More</a></nav>
<article><h1>Bridges</h1><p>A suspension bridge hangs its deck from cables that run over towers. The cables carry the load to anchorages at both ends, where it goes into the ground, which has to be firm.</p>
<h2>Cables</h2><p>Main cables are spun from thousands of steel wires, each as thick as a pencil. The Golden Gate Bridge has 27,572 wires in each of its two cables, enough to go three times around the earth.</p>
<h3>Rust</h3><p>Water in a cable is its end, so modern bridges blow dry air through the wires, day and night, and measure how wet it is when it comes out on the other side of the cable.</p>
<p>See the <a href="/more">list of bridges</a>.</p></article><footer>Imprint</footer></body></html>"#;

async fn play(mut stream: TcpStream, port: u16) -> std::io::Result<()> {
    let mut request = vec![0; 8_192];
    let count = stream.read(&mut request).await?;
    let line = String::from_utf8_lossy(&request[..count]).into_owned();
    let path = line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let bytes = match path.as_str() {
        "/article" => ok("text/html; charset=utf-8", ARTICLE.as_bytes()),
        "/secret" => ok("text/plain", SECRET.as_bytes()),
        "/plain" => {
            b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nlast-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nconnection: close\r\n\r\njust words\r\n"
                .to_vec()
        }
        "/markdown" => ok("text/markdown", b"# Title here\n\nIntro.\n\n## Part\n\nMore.\n"),
        "/json" => ok("application/json", b"{\"answer\": 42}"),
        "/feed" => ok("application/rss+xml", b"<rss><title>News</title></rss>"),
        "/latin" => ok("text/plain; charset=ISO-8859-1", b"caf\xe9 au lait"),
        "/liar" => ok("text/html; charset=iso-8859-1", "<p>naïve café, in fact UTF-8</p>".as_bytes()),
        "/meta" => ok("text/html", b"<html><head><meta charset=\"windows-1251\"></head><body><p>\xcf\xf0\xe8\xe2\xe5\xf2</p></body></html>"),
        "/utf16" => ok("text/plain", &[0xff, 0xfe, b'h', 0, b'i', 0]),
        "/unknown-charset" => ok("text/plain; charset=wibble", "schön".as_bytes()),
        "/untyped" => ok("", b"<html><body><p>untyped words</p></body></html>"),
        "/empty" => ok("text/html", b""),
        "/binary" => ok("text/plain", b"MZ\0\0\0\x01"),
        "/picture" => ok("image/png", b"\x89PNG"),
        "/pdf" => ok("application/pdf", b"%PDF-1.7"),
        "/gone" => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec(),
        "/busy" => b"HTTP/1.1 429 Too Many\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec(),
        "/closed" => b"HTTP/1.1 403 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec(),
        "/nowhere" => b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec(),
        "/garbage" => b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(),
        "/hangup" => Vec::new(),
        "/short" => b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 1000\r\n\r\nonly this".to_vec(),
        "/to-article" => to("/article"),
        "/to-loopback" => to(&format!("http://127.0.0.1:{port}/secret")),
        "/to-decimal" => to(&format!("http://2130706433:{port}/secret")),
        "/to-mapped" => to(&format!("http://[::ffff:127.0.0.1]:{port}/secret")),
        "/to-metadata" => to("http://169.254.169.254/latest/meta-data/"),
        "/to-name" => to(&format!("http://inside.test:{port}/secret")),
        "/to-scheme" => to(&format!("//inside.test:{port}/secret")),
        "/to-file" => to("file:///etc/passwd"),
        "/to-user" => to(&format!("http://me:pw@page.test:{port}/article")),
        "/to-itself" => to("/to-itself"),
        "/to-bad" => to("http://[bad/"),
        "/gzip" | "/bomb" => {
            let body = if path == "/gzip" { b"packed words".to_vec() } else { vec![b'a'; 32 << 20] };
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packer.write_all(&body)?;
            let packed = packer.finish()?;
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                packed.len()
            );
            [head.into_bytes(), packed].concat()
        }
        "/bad-gzip" => b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\nnot gzip at all".to_vec(),
        "/endless" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n").await?;
            loop {
                stream.write_all(&[b'x'; 64 << 10]).await?;
            }
        }
        "/drip" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 9999\r\n\r\n").await?;
            loop {
                stream.write_all(b"x").await?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        "/drip-head" => loop {
            stream.write_all(b"H").await?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        },
        "/silent" => std::future::pending().await,
        "/huge-head" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            loop {
                stream.write_all(format!("x-{}: {}\r\n", "a".repeat(50), "b".repeat(8_000)).as_bytes()).await?;
            }
        }
        "/many-heads" => [b"HTTP/1.1 200 OK\r\n".to_vec(), "x: y\r\n".repeat(5_000).into_bytes(), b"\r\nhi".to_vec()].concat(),
        "/deep" => ok("text/html", format!("<html><body>{}deep words{}</body></html>", "<div>".repeat(100_000), "</div>".repeat(100_000)).as_bytes()),
        "/unclosed" => ok("text/html", format!("<html><body>{}unclosed words", "<b><i><a href=x><table><td>".repeat(3_000)).as_bytes()),
        "/many" => ok("text/html", format!("<html><body>{}</body></html>", "<p>one of many</p>".repeat(70_000)).as_bytes()),
        "/script" => ok("text/html", b"<html><head><title>App</title></head><body><div id=root></div><script>render()</script></body></html>"),
        "/long" => {
            let part = |n: usize| {
                format!(
                    "<h2>Part {n}</h2><p>{}</p>",
                    format!("Sentence {n} of a long page about rivers and their water, which flows on. ").repeat(30)
                )
            };
            ok(
                "text/html",
                format!("<html><head><title>Long</title></head><body><article>{}</article></body></html>", (0..60).map(part).collect::<String>())
                    .as_bytes(),
            )
        }
        other => panic!("{other}"),
    };
    stream.write_all(&bytes).await?;
    stream.shutdown().await
}

/// `page.test` is allowed and local; `inside.test` is local and not allowed; `flip.test` is public at first and local afterwards.
async fn open(stage: &TestSite, time_max: Duration) -> (Session, Arc<Names>) {
    let here = vec![vec!["127.0.0.1"]];
    let answers = BTreeMap::from([
        ("page.test", here.clone()),
        ("inside.test", here),
        ("flip.test", vec![vec!["93.184.216.34"], vec!["127.0.0.1"]]),
        ("both.test", vec![vec!["127.0.0.1", "93.184.216.34"]]),
        ("six.test", vec![vec!["::1", "fd00::1", "::ffff:127.0.0.1"]]),
        ("nobody.test", vec![vec![]]),
    ]);
    let names = Arc::new(Names { answers, asked: Mutex::default() });
    let limits = Limits { time_max, body_bytes_max: 4 << 20, redirects_max: 3 };
    let allowed = vec![AllowedHost::read(&format!("page.test:{}", stage.port)).unwrap()];
    let lookup: Arc<dyn Lookup> = Arc::<Names>::clone(&names);
    let getter = Getter::new(allowed, &lookup, limits).unwrap();
    (session_of(Arc::new(around(&KIND, getter, None))).await, names)
}

#[tokio::test]
async fn pages_are_read() {
    let stage = stage().await;
    let (fetch, _) = open(&stage, PATIENT).await;
    let base = format!("http://page.test:{}", stage.port);
    let page = fetch.call("fetch", json!({"url": format!("{base}/to-article")})).await;
    assert_eq!((page.data["title"].as_str(), page.data["at"].as_str()), (Some("Bridges & cables"), Some("2026-03-04T05:06:07Z")));
    assert_eq!(page.data["address"], format!("{base}/article"));
    let places: Vec<&str> = page.data["passages"].as_array().unwrap().iter().filter_map(|passage| passage["place"].as_str()).collect();
    assert!(places.iter().any(|place| place.ends_with("Cables")) && places.iter().any(|place| place.ends_with("Cables > Rust")), "{places:?}");
    assert!(page.text.contains("27,572 wires") && !page.text.contains("steal()") && !page.text.contains("Imprint"), "{}", page.text);
    let rows = [
        ("/plain", "just words"),
        ("/json", "\"answer\": 42"),
        ("/feed", "News"),
        ("/gzip", "packed words"),
        ("/latin", "café au lait"),
        ("/liar", "naïve café"),
        ("/meta", "Привет"),
        ("/utf16", "hi"),
        ("/unknown-charset", "schön"),
        ("/untyped", "untyped words"),
        ("/script", "scripts, which are not run"),
        ("/empty", "no readable text"),
    ];
    for (path, message) in rows {
        let reply = fetch.call("fetch", json!({"url": format!("{base}{path}")})).await;
        assert!(reply.text.contains(message), "{path}: {}", reply.text);
    }
    assert_eq!(fetch.call("fetch", json!({"url": format!("{base}/plain")})).await.data["at"], "1994-11-06T08:49:37Z");
    let markdown = fetch.call("fetch", json!({"url": format!("{base}/markdown")})).await;
    assert_eq!((markdown.data["title"].as_str(), markdown.data["passages"][1]["place"].as_str()), (Some("Title here"), Some("Title here > Part")));
}

#[tokio::test]
async fn long_pages_come_in_parts() {
    let stage = stage().await;
    let (fetch, _) = open(&stage, PATIENT).await;
    let url = format!("http://page.test:{}/long", stage.port);
    let (mut from, mut seen, mut calls) = (Some(0), 0, 0);
    let mut total = 0;
    while let Some(at) = from {
        let part = fetch.call("fetch", json!({"url": url, "from": at})).await;
        assert!(part.text.len() < 48 << 10);
        seen += part.data["passages"].as_array().unwrap().len();
        total = part.data["total"].as_u64().unwrap();
        from = part.data["next"].as_u64();
        calls += 1;
    }
    assert!(calls > 2 && u64::try_from(seen).unwrap() == total, "{calls} calls, {seen} of {total}");
    fetch.refuses("fetch", json!({"url": url, "from": 100_000}), &["none at `from`"]).await;
}

#[tokio::test]
async fn hostile_servers_get_nowhere() {
    let stage = stage().await;
    let (fetch, _) = open(&stage, PATIENT).await;
    let base = format!("http://page.test:{}", stage.port);
    let rows = [
        ("/to-loopback", "not on the public internet"),
        ("/to-decimal", "not on the public internet"),
        ("/to-mapped", "not on the public internet"),
        ("/to-metadata", "not on the public internet"),
        ("/to-name", "not on the public internet"),
        ("/to-scheme", "not on the public internet"),
        ("/to-file", "only http"),
        ("/to-user", "user name"),
        ("/to-itself", "more than 3 redirects"),
        ("/to-bad", "no address"),
        ("/nowhere", "names no other place"),
        ("/gone", "no such page"),
        ("/busy", "too many requests"),
        ("/closed", "not open to everybody"),
        ("/picture", "`image/png`"),
        ("/pdf", "PDF"),
        ("/binary", "says it is text"),
        ("/garbage", "broke off"),
        ("/hangup", "broke off"),
        ("/short", "broke off"),
        ("/bomb", "more than 4194304 bytes"),
        ("/bad-gzip", "unpacked"),
        ("/endless", "more than 4194304 bytes"),
        ("/huge-head", ""),
        ("/many-heads", ""),
    ];
    let (hasty, _) = open(&stage, BRIEF).await;
    for path in ["/drip", "/drip-head", "/silent"] {
        hasty.refuses("fetch", json!({"url": format!("{base}{path}")}), &["did not come within 2 s"]).await;
    }
    let mut wrong = Vec::new();
    for (path, message) in rows {
        let reply = fetch.call_any("fetch", json!({"url": format!("{base}{path}")})).await;
        if !reply.is_error || !reply.text.contains(message) || reply.text.contains(SECRET) || reply.text.len() > 1_000 {
            wrong.push(format!("{path}: {}", reply.text.chars().take(300).collect::<String>()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Pages that are hard to parse are still read, or at least end.
    for (path, message) in [("/deep", "deep words"), ("/unclosed", "unclosed words"), ("/many", "one of many")] {
        let reply = fetch.call("fetch", json!({"url": format!("{base}{path}")})).await;
        assert!(reply.text.contains(message), "{path}");
    }
    for (url, message) in [
        ("", "not a web address"),
        ("example.org/x", "not a web address"),
        ("http://[fe80::1%25eth0]/", "not a web address"),
        ("http://127.0.0.1/", "public"),
    ] {
        fetch.refuses("fetch", json!({"url": url}), &[message]).await;
    }
    fetch.refuses("fetch", json!({"url": format!("http://page.test/{}", "x".repeat(5_000))}), &["4000 bytes"]).await;
}

#[tokio::test]
async fn names_that_lead_inside_do_not_connect() {
    let stage = stage().await;
    let (fetch, names) = open(&stage, BRIEF).await;
    let at = |name: &str| json!({"url": format!("http://{name}:{}/secret", stage.port)});
    for (name, message) in [
        ("inside.test", "inside.test` (127.0.0.1) is not on the public internet"),
        ("six.test", "not on the public internet"),
        ("nobody.test", ""),
        ("unknown.test", ""),
    ] {
        fetch.refuses("fetch", at(name), &[message]).await;
    }
    // Rebinding: public at the lookup, local afterwards. There is one lookup per connection, and its result is what is connected to, where
    // nothing listens; the second attempt sees the local address.
    let first = fetch.refuses("fetch", at("flip.test"), &[]).await;
    assert!(!first.contains(SECRET), "{first}");
    assert_eq!(names.asked.lock().unwrap()["flip.test"], 1);
    fetch.refuses("fetch", at("flip.test"), &["not on the public internet"]).await;
    // One public and one private address: only the public one is tried.
    fetch.refuses("fetch", at("both.test"), &[]).await;
    // The allowed host on another port is not allowed.
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://page.test:{}/secret", other.local_addr().unwrap().port());
    fetch.refuses("fetch", json!({"url": url}), &["not on the public internet"]).await;
    assert_eq!(stage.hits.load(Ordering::SeqCst), 0, "nobody connected");
}

#[test]
fn text_is_cut_at_headings_and_paragraphs() {
    let section = |heading: Option<&str>, text: &str| Section { heading: heading.map(str::to_owned), text: text.into() };
    let rows = [
        ("", vec![]),
        ("just\n\nwords", vec![section(None, "just\n\nwords")]),
        ("# A\n\none\n\n## B\n\ntwo\n\n# C\n\nthree", vec![section(Some("A"), "one"), section(Some("A > B"), "two"), section(Some("C"), "three")]),
        ("# A\n\n```\n# not a heading\n```", vec![section(Some("A"), "```\n# not a heading\n```")]),
        ("#hashtag\n\n####### seven", vec![section(None, "#hashtag\n\n####### seven")]),
    ];
    for (markdown, expected) in rows {
        assert_eq!(sections(markdown), expected, "{markdown}");
    }
    let long = "wörter ".repeat(2_000);
    let parts = sections(&long);
    assert!(parts.len() > 5 && parts.iter().all(|part| part.text.len() <= 1_600));
    assert_eq!(parts.iter().flat_map(|part| part.text.split_whitespace()).count(), 2_000);
}

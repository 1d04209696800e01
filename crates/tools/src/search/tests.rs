//! Real HTTP against a server with each provider's API, with valid and invalid responses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::{KIND, Providers, SearchArguments, Searcher, provider};
use crate::testing::{session_of, session_with};
use crate::{Builtin, Settings, Tool, Toolset};

const KEY: &str = "key-that-nobody-may-see";

/// Recorded requests: path with query, headers, body.
type RecordedRequests = Arc<Mutex<Vec<(String, BTreeMap<String, String>, String)>>>;

#[derive(Clone)]
struct TestProvider {
    seen: RecordedRequests,
    answers: Arc<dyn Fn(&str) -> Answer + Send + Sync>,
}

enum Answer {
    Json(Value),
    Raw(u16, &'static [(&'static str, &'static str)], String),
    Never,
    Endless,
}

async fn play(State(stage): State<TestProvider>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    let body = String::from_utf8(axum::body::to_bytes(body, 1 << 20).await.unwrap().to_vec()).unwrap();
    let path = parts.uri.to_string();
    stage.seen.lock().unwrap().push((path.clone(), headers, body));
    match (stage.answers)(&path) {
        Answer::Json(value) => axum::Json(value).into_response(),
        Answer::Raw(status, headers, body) => {
            let response = headers.iter().fold(Response::builder().status(status), |response, (name, value)| response.header(*name, *value));
            response.body(Body::from(body)).unwrap()
        }
        Answer::Never => std::future::pending().await,
        Answer::Endless => {
            let chunks = futures::stream::repeat_with(|| Ok::<_, std::io::Error>("x".repeat(64 << 10)));
            Response::new(Body::from_stream(chunks))
        }
    }
}

async fn stage(answers: impl Fn(&str) -> Answer + Send + Sync + 'static) -> (String, RecordedRequests) {
    let seen = RecordedRequests::default();
    let state = TestProvider { seen: Arc::clone(&seen), answers: Arc::new(answers) };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(play).with_state(state)).await });
    (base, seen)
}

/// All five at one address, distinguished by their paths.
fn everybody(base: &str) -> Settings {
    let base = base.to_owned();
    let env = move |name: &str| {
        Some(match name {
            "SERPER_API_KEY" | "TAVILY_API_KEY" | "BRAVE_API_KEY" => KEY.to_owned(),
            "SERPER_URL" => format!("{base}/serper"),
            "TAVILY_URL" => format!("{base}/tavily/"),
            "BRAVE_URL" => format!("{base}/brave"),
            "SEARXNG_URL" => format!("{base}/searxng"),
            "WIKIPEDIA_URL" => format!("{base}/wikipedia"),
            _ => return None,
        })
    };
    Settings { env: Arc::new(env), ..Settings::bare() }
}

fn well(path: &str) -> Answer {
    Answer::Json(match path.split('/').nth(1).unwrap_or_default() {
        "serper" => json!({"answerBox": {"title": "Height", "answer": "330 metres", "link": "https://example.org/height"}, "organic": [
            {"title": "Eiffel Tower - Official", "link": "https://www.toureiffel.paris/en?utm_source=g", "snippet": "The tower in Paris.", "date": "Mar 3, 2026", "position": 1},
            {"title": "no address"}]}),
        "tavily" => json!({"results": [
            {"title": "Eiffel Tower", "url": "https://en.wikipedia.org/wiki/Eiffel_Tower", "content": "The Eiffel Tower is 330 m tall.", "score": 0.9, "published_date": "2026-01-02"}]}),
        "brave" => json!({"web": {"results": [
            {"title": "The <strong>Eiffel</strong> Tower", "url": "https://toureiffel.paris/en/", "description": "Built in 1889 &amp; still there, the <strong>tower</strong> is tall; 1 < 2.", "page_age": "2025-05-05T00:00:00"}]}}),
        "searxng" => json!({"results": [{"title": "Eiffel", "url": "http://en.wikipedia.org/wiki/Eiffel_Tower#History", "content": "short"}]}),
        "wikipedia" => json!({"batchcomplete": true, "query": {"pages": [
            {"pageid": 2, "index": 2, "title": "Gustave Eiffel", "extract": "An engineer.", "fullurl": "https://en.wikipedia.org/wiki/Gustave_Eiffel"},
            {"pageid": 1, "index": 1, "title": "Eiffel Tower", "extract": "A lattice tower.", "fullurl": "https://en.wikipedia.org/wiki/Eiffel_Tower", "revisions": [{"timestamp": "2026-10-01T10:00:00Z"}]}]}}),
        other => panic!("{other}"),
    })
}

#[tokio::test]
async fn every_provider_is_asked_and_its_results_used() {
    let (base, seen) = stage(well).await;
    let search = session_with("search", &everybody(&base)).await;
    let reply = search.call("search", json!({"query": "  how tall is the   Eiffel tower ", "size": 5})).await;
    let passages = reply.data["passages"].as_array().unwrap();
    let addresses: Vec<&str> = passages.iter().map(|passage| passage["address"].as_str().unwrap()).collect();
    // Listed by three, by two, then by one each.
    assert_eq!(addresses[..2], ["https://en.wikipedia.org/wiki/Eiffel_Tower", "https://www.toureiffel.paris/en?utm_source=g"]);
    assert_eq!(addresses.len(), 4);
    assert_eq!(passages[0]["text"], "The Eiffel Tower is 330 m tall.");
    assert_eq!(passages[0]["at"], "2026-01-02");
    assert_eq!(passages[1]["text"], "Built in 1889 & still there, the tower is tall; 1 < 2.");
    assert_eq!(reply.data["providers"], json!(["serper", "tavily", "brave", "searxng", "wikipedia"]));
    assert_eq!(reply.data["failed"], json!([]));
    assert!(reply.data["confidence"].as_f64().unwrap() > 0.8, "{}", reply.data);
    assert!(reply.text.contains("[1] Eiffel Tower") && reply.text.contains("330 m"));

    // Keys are sent as headers to their provider only, and never in an address.
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 5);
    for (path, headers, body) in seen.iter() {
        let holders: Vec<&str> = headers.iter().filter(|(_, value)| value.contains(KEY)).map(|(name, _)| name.as_str()).collect();
        let expected: &[&str] = match path.split('/').nth(1).unwrap() {
            "serper" => &["x-api-key"],
            "tavily" => &["authorization"],
            "brave" => &["x-subscription-token"],
            _ => &[],
        };
        assert_eq!(holders, expected, "{path}");
        assert!(!path.contains(KEY) && !body.contains(KEY), "{path}");
        assert!(path.contains("how+tall+is+the+Eiffel+tower") || body.contains("how tall is the Eiffel tower"), "{path} {body}");
    }
}

#[tokio::test]
async fn one_provider_alone() {
    let (base, seen) = stage(well).await;
    let search = session_with("search", &everybody(&base)).await;
    let reply = search.call("search", json!({"query": "eiffel", "provider": "Wikipedia"})).await;
    assert_eq!(reply.data["providers"], json!(["wikipedia"]));
    assert_eq!(reply.data["passages"][0]["title"], "Eiffel Tower");
    assert_eq!(seen.lock().unwrap().len(), 1);
    search.refuses("search", json!({"query": "x", "provider": "altavista"}), &["no provider `altavista`", "tavily"]).await;
    let bare = session_with("search", &Settings::bare()).await;
    bare.refuses("search", json!({"query": "x", "provider": "serper"}), &["SERPER_API_KEY"]).await;
}

/// An operator stores a key while the server runs.
#[tokio::test]
async fn a_key_that_is_stored_or_removed_counts_for_the_next_search() {
    let (base, seen) = stage(well).await;
    let stored = Arc::new(Mutex::new(None::<String>));
    let (all, key) = (everybody(&base), stored.clone());
    let env = move |name: &str| match name {
        "SERPER_API_KEY" => key.lock().unwrap().clone(),
        "TAVILY_API_KEY" | "BRAVE_API_KEY" | "SEARXNG_URL" => None,
        other => (all.env)(other),
    };
    let search = session_with("search", &Settings { env: Arc::new(env), ..Settings::bare() }).await;
    for (key, providers) in [(None, json!(["wikipedia"])), (Some(KEY), json!(["serper", "wikipedia"])), (None, json!(["wikipedia"]))] {
        *stored.lock().unwrap() = key.map(str::to_owned);
        let reply = search.call("search", json!({"query": "eiffel"})).await;
        assert_eq!(reply.data["providers"], providers);
    }
    let keyed = seen.lock().unwrap().iter().filter(|(path, headers, _)| path.starts_with("/serper") && headers["x-api-key"] == KEY).count();
    assert_eq!(keyed, 1);
}

/// A name, the provider's response, and the expected error.
type Row = (&'static str, fn() -> Answer, &'static str);

/// Each kind of failure, in one provider while another succeeds, and then in all.
#[tokio::test]
async fn failures_are_named() {
    let rows: &[Row] = &[
        ("bad key", || Answer::Raw(401, &[], format!("{{\"message\": \"key {KEY} is unknown\"}}")), "SERPER_API_KEY is not accepted"),
        ("no credit", || Answer::Raw(402, &[], String::new()), "no credit"),
        ("too many", || Answer::Raw(429, &[("retry-after", "17")], String::new()), "wait 17 s"),
        ("broken", || Answer::Raw(503, &[], "<html>oops</html>".into()), "trouble of its own"),
        ("redirected", || Answer::Raw(302, &[("location", "http://127.0.0.1:1/")], String::new()), "302"),
        ("garbage", || Answer::Raw(200, &[], "<html>not json</html>".into()), "not JSON"),
        ("half", || Answer::Raw(200, &[], "{\"organic\": [{\"title\": ".into()), "not JSON"),
        ("nothing", || Answer::Raw(200, &[], String::new()), "not JSON"),
        ("deep", || Answer::Raw(200, &[], "[".repeat(100_000)), "not JSON"),
        ("other shape", || Answer::Json(json!({"organic": "none"})), "no list at `organic`"),
        ("slow", || Answer::Never, "no answer within"),
        ("endless", || Answer::Endless, "more than"),
    ];
    for (name, answer, part) in rows {
        for all in [false, true] {
            let answer = *answer;
            let (base, _) = stage(move |path| if all || path.starts_with("/serper") { answer() } else { well(path) }).await;
            let settings = everybody(&base);
            let providers = move || {
                let mut providers = provider::configured(&settings)?;
                providers.retain(|provider| if all { provider.name() == "serper" } else { ["serper", "wikipedia"].contains(&provider.name()) });
                Ok(providers)
            };
            let search = session_of(with(Box::new(providers))).await;
            let reply = search.call_any("search", json!({"query": "eiffel"})).await;
            assert_eq!(reply.is_error, all, "{name}: {}", reply.text);
            assert!(reply.text.contains(part) && !reply.text.contains(KEY), "{name}: {}", reply.text);
            if all {
                assert!(reply.text.contains("SEARXNG_URL"), "{name}: {}", reply.text);
            } else {
                assert_eq!(reply.data["failed"][0]["provider"], "serper", "{name}");
                assert_eq!(reply.data["passages"].as_array().unwrap().len(), 2, "{name}");
            }
        }
    }
}

#[tokio::test]
async fn unusable_replies_of_each_provider_are_errors() {
    let rows: &[(&str, Value, &str)] = &[
        ("wikipedia", json!({"error": {"code": "ratelimited", "info": "slow down"}}), "ratelimited: slow down"),
        ("wikipedia", json!({"hello": 1}), "not one of Wikipedia's"),
        ("searxng", json!({"hello": 1}), "is SEARXNG_URL a SearXNG"),
        ("brave", json!({"web": {"results": 7}}), "no list at `web.results`"),
        ("tavily", json!({"results": {}}), "no list at `results`"),
    ];
    for (name, value, part) in rows {
        let value = value.clone();
        let (base, _) = stage(move |_| Answer::Json(value.clone())).await;
        let search = session_with("search", &everybody(&base)).await;
        search.refuses("search", json!({"query": "x", "provider": name}), &[part]).await;
    }
    // No results is a valid answer.
    for (name, value) in [
        ("wikipedia", json!({"batchcomplete": true})),
        ("brave", json!({"type": "search"})),
        ("tavily", json!({"results": []})),
        ("serper", json!({})),
    ] {
        let (base, _) = stage(move |_| Answer::Json(value.clone())).await;
        let search = session_with("search", &everybody(&base)).await;
        let reply = search.call("search", json!({"query": "x", "provider": name})).await;
        assert_eq!((reply.data["passages"].as_array().map(Vec::len), reply.data["confidence"].as_f64()), (Some(0), Some(0.0)), "{name}");
        assert!(reply.text.contains("Nothing was found"));
    }
    let (base, _) = stage(|_| Answer::Raw(403, &[], String::new())).await;
    session_with("search", &everybody(&base)).await.refuses("search", json!({"query": "x", "provider": "searxng"}), &["search.formats"]).await;
}

#[tokio::test]
async fn wrong_questions_and_settings() {
    let search = session_with("search", &Settings::bare()).await;
    search.refuses("search", json!({"query": " \n "}), &["empty"]).await;
    search.refuses("search", json!({"query": "x", "size": 21}), &["1 to 20"]).await;
    search.refuses("search", json!({"query": "x".repeat(500)}), &["400 characters"]).await;
    for (name, value, part) in [
        ("SEARXNG_URL", "not an address", "SEARXNG_URL"),
        ("SEARXNG_URL", "file:///etc", "https://"),
        ("WIKIPEDIA_LANGUAGE", "en.evil.example/", "WIKIPEDIA_LANGUAGE"),
    ] {
        let settings = Settings { env: Arc::new(move |asked| (asked == name).then(|| value.to_owned())), ..Settings::bare() };
        let lack = KIND.build(&settings).unwrap_err();
        assert!(lack.to_string().contains(part), "{lack}");
    }
}

/// With a short timeout.
fn with(providers: Providers) -> Arc<Builtin> {
    let searcher = Arc::new(Searcher::new(providers, Duration::from_secs(4)).unwrap());
    let tool = Tool::new("search", "", crate::Hints::READS_WORLD, move |takes: SearchArguments, _| {
        let searcher = Arc::clone(&searcher);
        async move { searcher.search(&takes).await }
    });
    Arc::new(KIND.around(Toolset::new("search", "", [tool])))
}

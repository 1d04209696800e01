//! An encyclopedia with one article for every query, with Wikipedia's API.

use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};

/// Starts it and returns its address. It ends with the runtime.
pub async fn serve(article: &'static str) -> String {
    let found = move || async move {
        let page = json!({
            "index": 1,
            "title": "Relay",
            "fullurl": "https://encyclopedia.example/Relay",
            "extract": article,
            "revisions": [{ "timestamp": "2026-01-01T00:00:00Z" }],
        });
        axum::Json::<Value>(json!({ "batchcomplete": true, "query": { "pages": [page] } }))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let app = Router::new().route("/w/api.php", get(found));
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

/// A true fact to find.
pub const ARTICLE: &str = "In a relay race the runner hands a baton to the next one within the exchange zone, which is 30 metres long.";

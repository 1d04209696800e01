//! A page with a few words, for a browser that is redirected here from another site.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};

/// `back` is a path of this server and the text of its link.
pub(crate) fn notice(status: StatusCode, title: &str, words: &str, back: Option<(&str, &str)>) -> Response {
    let link = back.map(|(path, text)| format!("<p><a href=\"{path}\">{text}</a></p>")).unwrap_or_default();
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <h1>{title}</h1><p>{}</p>{link}</html>\n",
        escaped(words)
    );
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CACHE_CONTROL, "no-store"), (header::REFERRER_POLICY, "no-referrer")];
    (status, headers, html).into_response()
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

//! The page behind a link: questions, answers and the names of sources, as plain HTML without scripts.

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use tokio::sync::Semaphore;

use super::export::{TurnText, turns};
use super::{details, shares};
use crate::api::Api;
use crate::backend::with_legend;
use crate::guarded_body::GuardedBody;
use crate::problem::Problem;
use crate::rendering::Renderer;

/// Anybody may ask for these pages, so that few are made at once, and one of each owner.
static RENDERER: LazyLock<Renderer> = LazyLock::new(|| Renderer::new(2));
/// Pages that are made, or made and not read to their end. Each may have some megabytes.
const PAGES_MAX: usize = 24;
static PAGES: Semaphore = Semaphore::const_new(PAGES_MAX);
/// When to try again where there are that many.
const RETRY_SECONDS: u64 = 5;
const TOKEN_CHARS_MAX: usize = 100;
/// No script, no picture, nothing from another server, and no referrer for the sites it links to.
const POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) async fn show(State(api): State<Api>, Path(token): Path<String>, request: Request) -> Result<Response, Problem> {
    let store = &**api.0.engine.store();
    let found = match token.len() <= TOKEN_CHARS_MAX {
        true => shares::open(store, &token).await?,
        false => None,
    };
    let Some((thread, runs)) = found else {
        // Guessing is slowed down as wrong tokens are.
        if let Some(wait) = api.0.guard.count_wrong(api.0.guard.peer(&request).as_ref()) {
            return Err(Problem::too_many("too many wrong links were opened from this address; wait", wait.as_secs().max(1)));
        }
        return Ok(page(StatusCode::NOT_FOUND, "Not found", "<p>There is no shared conversation here. The link may have been revoked.</p>"));
    };
    let place = PAGES.try_acquire().map_err(|_| Problem::too_many("too many shared conversations are being read; try again later", RETRY_SECONDS))?;
    let title = details::of(store, &thread).await?.title.unwrap_or_else(|| thread.title.clone());
    let owner = thread.user.clone().unwrap_or_default();
    let api = api.clone();
    // Outcomes of runs have megabytes each, so that they are read beside the runtime too.
    let page = RENDERER.place(&owner).await?.run_async(async move {
        let turns = turns(&**api.0.engine.store(), &thread, Some(runs)).await?;
        let body: String = turns.iter().map(|turn| article(turn, &|markdown| api.0.backend.html(markdown))).collect();
        Ok::<_, Problem>(page(StatusCode::OK, &title, &body))
    });
    Ok(page.await??.map(|body| Body::new(GuardedBody::new(body, place))))
}

fn article(turn: &TurnText, html: &dyn Fn(&str) -> String) -> String {
    let mut text = format!(
        "<article><h2 dir=\"auto\">{}</h2><div class=\"answer\" dir=\"auto\">{}</div>",
        escaped(&turn.question),
        html(&with_legend(&turn.answer))
    );
    if !turn.sources.is_empty() {
        text.push_str("<h3>Sources</h3><ol>");
        for source in &turn.sources {
            let title = escaped(&source.title);
            // Paths of documents on the server are not shown to readers of the link.
            let _ = match source.address.as_deref().filter(|address| is_web(address)) {
                Some(address) => {
                    write!(
                        text,
                        "<li dir=\"auto\"><a href=\"{}\" rel=\"noopener noreferrer nofollow\" target=\"_blank\">{title}</a></li>",
                        escaped(address)
                    )
                }
                None => write!(text, "<li dir=\"auto\">{title}</li>"),
            };
        }
        text.push_str("</ol>");
    }
    text.push_str("</article>");
    text
}

fn is_web(address: &str) -> bool {
    address.starts_with("https://") || address.starts_with("http://")
}

fn page(status: StatusCode, title: &str, body: &str) -> Response {
    let title = escaped(title);
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"robots\" content=\"noindex, nofollow\"><meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\
         <link rel=\"stylesheet\" href=\"/assets/style/share.css\"></head>\
         <body><header><p>Shared conversation, read-only</p><h1 dir=\"auto\">{title}</h1></header><main>{body}</main></body></html>"
    );
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex, nofollow")),
    ];
    (status, headers, html).into_response()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_turn_becomes_markup_and_no_path_of_the_server_is_shown() {
        let source = |title: &str, address: &str| evidence::Source { title: title.into(), address: Some(address.into()), ..Default::default() };
        let turn = TurnText {
            question: "<script>1</script>".into(),
            answer: "Yes [1].".into(),
            sources: vec![source("\"><b>", "/home/ada/secret.md"), source("Web", "https://a.example/?a=1&b='"), source("Bad", "javascript:alert(1)")],
        };
        let html = article(&turn, &|markdown| escaped(markdown));
        assert!(!html.contains("<script>") && !html.contains("<b>") && !html.contains("/home/ada") && !html.contains("javascript:"), "{html}");
        assert!(html.contains("href=\"https://a.example/?a=1&amp;b=&#39;\""), "{html}");
    }
}

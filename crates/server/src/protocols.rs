//! The protocols that other people's programs speak, over the same flows. Each is a line in [`routes`], and one in [`in_own_form`] if it refuses in a form of its own.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::problem::Problem;
use crate::{langgraph, langserve};

pub(crate) fn routes(flows: &langserve::Service) -> Router {
    Router::new()
        .merge(flows.clone().routes()) // LangServe
        .merge(langgraph::routes(flows))
}

/// What is refused before a protocol's own routes are reached (no token, too many requests, no such path) is said as the protocol says it.
pub(crate) async fn in_own_form(request: Request<Body>, next: Next) -> Response {
    let path = request.uri().path();
    let is_of =
        |prefixes: &[&str]| prefixes.iter().any(|prefix| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
    let form: Option<fn(Problem) -> Response> = match () {
        () if is_of(&langgraph::PREFIXES) => Some(|problem| langserve::Refused::from(problem).into_response()),
        () => None,
    };
    let response = next.run(request).await;
    match (form, response.extensions().get::<Problem>().cloned()) {
        (Some(form), Some(problem)) => form(problem),
        _ => response,
    }
}

//! The protocols by which clients use flows, one row each, beside Baton's API and LangServe.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;

use crate::api::Api;
use crate::problem::Problem;
use crate::{a2a, agui, langgraph, mcp_flows, openai};

pub(crate) struct Protocol {
    /// Where all its paths begin.
    prefix: &'static str,
    routes: fn(&Api) -> Router,
    /// What went wrong, in its own form.
    error: fn(&Problem) -> Response,
}

const ALL: &[Protocol] = &[
    Protocol { prefix: "/v1", routes: openai::routes, error: openai::error },
    // The longer prefix first.
    Protocol { prefix: "/a2a/v1", routes: a2a::no_more_routes, error: a2a::rest_error },
    Protocol { prefix: "/a2a", routes: a2a::routes, error: a2a::rpc_error },
    Protocol { prefix: wire::a2a::grpc::SERVICE, routes: a2a::no_more_routes, error: a2a::grpc_error },
    Protocol { prefix: "/ag-ui", routes: agui::routes, error: agui::error },
    Protocol { prefix: "/mcp", routes: mcp_flows::routes, error: mcp_flows::error },
];

/// All of them. The caller that mounts them adds the guard and the quota.
pub(crate) fn routes(api: &Api) -> Router {
    ALL.iter().fold(Router::new(), |all, protocol| all.merge((protocol.routes)(api)))
}

/// Whatever refused a request, a client reads it in the form of its protocol. Headers that say when to ask again are kept.
pub(crate) async fn own_form(request: Request<Body>, next: Next) -> Response {
    let path = request.uri().path();
    let is_below = |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let protocol = ALL.iter().find(|protocol| is_below(protocol.prefix)).map(|protocol| protocol.error);
    // LangGraph's routes are made with those of LangServe, over the same flows.
    let error =
        protocol.or_else(|| langgraph::PREFIXES.iter().any(|prefix| is_below(prefix)).then_some(langgraph::error as fn(&Problem) -> Response));
    let mut response = next.run(request).await;
    let (Some(error), Some(problem)) = (error, response.extensions_mut().remove::<Problem>()) else { return response };
    let mut own = error(&problem);
    let headers: HeaderMap = std::mem::take(response.headers_mut());
    for (name, value) in headers.into_iter().filter_map(|(name, value)| Some((name?, value))) {
        if !own.headers().contains_key(&name) && name != axum::http::header::CONTENT_LENGTH {
            own.headers_mut().insert(name, value);
        }
    }
    own
}

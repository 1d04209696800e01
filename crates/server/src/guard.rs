//! Who may come in: this machine, or whoever has the token.
//!
//! A server on loopback can be reached by any page in a browser on the same machine, by way of a name that points there. So
//! the `Host` a request names, and its `Origin` if it has one, must be ones this server goes by.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;

use crate::registry::problem;

#[derive(Clone)]
pub struct Guard(Arc<Inner>);

struct Inner {
    /// A digest, so that comparing takes as long whatever was guessed.
    token: Option<[u8; 32]>,
}

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("{address} can be reached from other machines; give a token (--token or BATON_TOKEN), or listen on 127.0.0.1")]
    Open { address: SocketAddr },
    #[error("{address} cannot be listened on: {error}")]
    Listen { address: SocketAddr, error: std::io::Error },
}

impl Guard {
    /// An empty token is none.
    pub fn new(token: Option<&str>) -> Self {
        let token = token.map(str::trim).filter(|token| !token.is_empty()).map(digest);
        Guard(Arc::new(Inner { token }))
    }

    /// Listens, unless that would let in anybody.
    pub async fn bind(&self, address: SocketAddr) -> Result<TcpListener, BindError> {
        if self.0.token.is_none() && !address.ip().is_loopback() {
            return Err(BindError::Open { address });
        }
        TcpListener::bind(address).await.map_err(|error| BindError::Listen { address, error })
    }

    fn refusal(&self, headers: &HeaderMap) -> Option<Response> {
        match &self.0.token {
            Some(token) => {
                let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
                let given = given.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
                if given.is_some_and(|(_, given)| digest(given.trim()) == *token) {
                    return None;
                }
                let mut response = problem(StatusCode::UNAUTHORIZED, "refused", "a token is needed: Authorization: Bearer …");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
                Some(response)
            }
            None => {
                let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
                if !text(header::HOST).is_some_and(is_here) {
                    return Some(problem(StatusCode::FORBIDDEN, "refused", "this server answers to localhost and 127.0.0.1 only"));
                }
                let origin = headers.get(header::ORIGIN).map(|value| value.to_str().unwrap_or_default());
                let is_ours =
                    |origin: &str| origin.split_once("://").is_some_and(|(scheme, host)| matches!(scheme, "http" | "https") && is_here(host));
                if !origin.is_none_or(is_ours) {
                    return Some(problem(StatusCode::FORBIDDEN, "refused", "pages of other origins may not call this server"));
                }
                None
            }
        }
    }
}

/// The layer itself: `from_fn_with_state(guard, guard::check)`.
pub async fn check(State(guard): State<Guard>, request: Request<Body>, next: Next) -> Response {
    match guard.refusal(request.headers()) {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    }
}

/// Whether a `host[:port]` is this machine by a name that nobody else can give to it.
fn is_here(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_comes_in_without_a_token() {
        let headers = |host: &str, origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            headers
        };
        let open = Guard::new(Some(" "));
        for (host, origin, comes_in) in [
            ("localhost:8021", None, true),
            ("127.0.0.1", Some("http://localhost:3000"), true),
            ("[::1]:8021", Some("http://[::1]"), true),
            ("127.0.0.1:8021", Some("https://evil.example"), false),
            ("127.0.0.1:8021", Some("null"), false),
            ("evil.example", None, false),
            ("localhost.evil.example:8021", None, false),
            ("10.0.0.1", None, false),
        ] {
            assert_eq!(open.refusal(&headers(host, origin)).is_none(), comes_in, "{host} {origin:?}");
        }
        let closed = Guard::new(Some("secret"));
        for (given, comes_in) in
            [(None, false), (Some("Bearer secret"), true), (Some("bearer secret"), true), (Some("Bearer other"), false), (Some("secret"), false)]
        {
            let mut headers = headers("anything.example", None);
            if let Some(given) = given {
                headers.insert(header::AUTHORIZATION, given.parse().unwrap());
            }
            assert_eq!(closed.refusal(&headers).is_none(), comes_in, "{given:?}");
        }
    }

    #[tokio::test]
    async fn no_door_is_opened_to_everybody() {
        let all: SocketAddr = "0.0.0.0:0".parse().unwrap();
        assert!(matches!(Guard::new(None).bind(all).await, Err(BindError::Open { .. })));
        assert!(Guard::new(Some("t")).bind(all).await.is_ok());
        assert!(Guard::new(None).bind("127.0.0.1:0".parse().unwrap()).await.is_ok());
    }
}

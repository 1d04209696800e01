//! Ends a grant at its authorization server (RFC 7009) when the tokens are removed here.
//!
//! Tokens are sent only to the origin that they came from: a revocation endpoint at another origin than the token endpoint is not used.

use std::time::Duration;

use reqwest::Url;
use rmcp::transport::auth::{AuthorizationMetadata, CredentialStore as _};
use serde_json::Value;

use super::auth::Authorized;

/// What became of a grant when its tokens were removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// The authorization server ended it.
    Done,
    /// The authorization server has no way to end it, or none at its own origin.
    NotOffered,
    /// It could not be reached, or refused. The tokens are removed here all the same.
    Failed(String),
}

/// What removing the tokens of a server did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logout {
    /// Whether there were tokens.
    pub had_tokens: bool,
    /// What was sent to the authorization server.
    pub revocation: Revocation,
}

/// For finding the endpoint and for each request.
const TIME_MAX: Duration = Duration::from_secs(10);

impl Authorized {
    /// Tries to end the grant whose tokens are kept. Nothing is removed here.
    pub(super) async fn revoke(&self) -> Revocation {
        let tokens = match self.credentials.load().await {
            Ok(Some(stored)) => {
                stored.token_response.and_then(|response| serde_json::to_value(response).ok()).map(|tokens| (stored.client_id, tokens))
            }
            Ok(None) => None,
            Err(error) => return Revocation::Failed(error.to_string()),
        };
        let Some((client_id, tokens)) = tokens else { return Revocation::NotOffered };
        let metadata = match tokio::time::timeout(TIME_MAX, self.metadata()).await {
            Ok(Ok(metadata)) => metadata,
            Ok(Err(why)) => return Revocation::Failed(why),
            Err(_) => return Revocation::Failed(format!("its authorization server was not found within {} s", TIME_MAX.as_secs())),
        };
        let Some(endpoint) = endpoint(&metadata) else { return Revocation::NotOffered };
        // The refresh token first: it stands for the whole grant.
        for (hint, name) in [("refresh_token", "refresh_token"), ("access_token", "access_token")] {
            let Some(token) = tokens.get(name).and_then(Value::as_str) else { continue };
            if let Err(why) = self.post(&endpoint, &metadata, &client_id, hint, token).await {
                return Revocation::Failed(why);
            }
        }
        Revocation::Done
    }

    async fn post(&self, endpoint: &Url, metadata: &AuthorizationMetadata, client_id: &str, hint: &str, token: &str) -> Result<(), String> {
        // Fails when a provider is installed already, which is as good.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let client = reqwest::Client::builder().timeout(TIME_MAX).redirect(reqwest::redirect::Policy::none()).build();
        let client = client.map_err(|error| error.without_url().to_string())?;
        let secret = self.client_secret();
        let in_body = secret.is_none() || wants_secret_in_body(metadata);
        let mut form = Url::parse("http://form.invalid/").map_err(|error| error.to_string())?;
        form.query_pairs_mut().append_pair("token", token).append_pair("token_type_hint", hint);
        if in_body {
            form.query_pairs_mut().append_pair("client_id", client_id);
        }
        let mut request = client.post(endpoint.clone()).header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        match secret {
            Some(secret) if in_body => {
                form.query_pairs_mut().append_pair("client_secret", secret);
            }
            Some(secret) => request = request.basic_auth(client_id, Some(secret)),
            None => {}
        }
        let body = form.query().unwrap_or_default().to_owned();
        let status = request.body(body).send().await.map_err(|error| error.without_url().to_string())?.status();
        if status.is_success() { Ok(()) } else { Err(format!("its authorization server answered with {status}")) }
    }
}

/// Where tokens are revoked: only at the origin they were exchanged at.
fn endpoint(metadata: &AuthorizationMetadata) -> Option<Url> {
    let endpoint = Url::parse(metadata.additional_fields.get("revocation_endpoint")?.as_str()?).ok()?;
    let token_endpoint = Url::parse(&metadata.token_endpoint).ok()?;
    (endpoint.origin() == token_endpoint.origin()).then_some(endpoint)
}

fn wants_secret_in_body(metadata: &AuthorizationMetadata) -> bool {
    let methods = metadata.additional_fields.get("revocation_endpoint_auth_methods_supported").and_then(Value::as_array);
    let has = |wanted: &str| methods.is_some_and(|methods| methods.iter().any(|method| method == wanted));
    has("client_secret_post") && !has("client_secret_basic")
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};

    use rmcp::transport::auth::StoredCredentials;
    use serde_json::json;

    use super::*;
    use crate::{ServerConfig, Tools};

    /// An authorization server that is also the resource: `offered` is its revocation endpoint, a path or an address. What is posted is kept.
    fn authorization_server(offered: Option<&'static str>, status: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let posted: Arc<Mutex<Vec<String>>> = Arc::default();
        let (stored, own) = (posted.clone(), base.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                let mut head = String::new();
                while lines.read_line(&mut head).unwrap() > 2 {}
                let length = head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok()).unwrap_or(0);
                let mut body = vec![0; length];
                lines.read_exact(&mut body).unwrap();
                let path = head.split_whitespace().nth(1).unwrap_or_default();
                let (status, body) = match path {
                    "/revoke" => {
                        stored.lock().unwrap().push(String::from_utf8(body).unwrap());
                        (status, json!({}))
                    }
                    path if path.starts_with("/.well-known/oauth-protected-resource") => {
                        ("200 OK", json!({ "resource": format!("{own}/mcp"), "authorization_servers": [own] }))
                    }
                    path if path.starts_with("/.well-known/oauth-authorization-server") => {
                        let mut metadata = json!({
                            "issuer": own, "authorization_endpoint": format!("{own}/authorize"), "token_endpoint": format!("{own}/token"),
                            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
                        });
                        if let Some(offered) = offered {
                            let address = if offered.starts_with('/') { format!("{own}{offered}") } else { offered.to_owned() };
                            metadata["revocation_endpoint"] = json!(address);
                        }
                        ("200 OK", metadata)
                    }
                    _ => ("401 Unauthorized", json!({})),
                };
                let body = body.to_string();
                let head =
                    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
            }
        });
        (base, posted)
    }

    async fn logout(base: &str) -> (Logout, Logout) {
        let folder = tempfile::tempdir().unwrap();
        let tools = Tools::builder().with_server("notes", ServerConfig::http(format!("{base}/mcp"))).with_credentials(folder.path()).build();
        let response = json!({"access_token": "access", "token_type": "bearer", "refresh_token": "refresh &="});
        let stored = StoredCredentials::new("client".into(), Some(serde_json::from_value(response).unwrap()), vec![], None);
        tools.0.own_server("notes").unwrap().authorized.as_ref().unwrap().credentials.save(stored).await.unwrap();
        (tools.logout("notes").await.unwrap(), tools.logout("notes").await.unwrap())
    }

    #[tokio::test]
    async fn the_grant_is_ended_where_the_authorization_server_offers_it() {
        let (base, posted) = authorization_server(Some("/revoke"), "200 OK");
        let (first, second) = logout(&base).await;
        assert_eq!(first, Logout { had_tokens: true, revocation: Revocation::Done });
        assert_eq!(second, Logout { had_tokens: false, revocation: Revocation::NotOffered });
        let posted = posted.lock().unwrap().clone();
        assert_eq!(
            posted,
            ["token=refresh+%26%3D&token_type_hint=refresh_token&client_id=client", "token=access&token_type_hint=access_token&client_id=client"]
        );
    }

    #[tokio::test]
    async fn tokens_are_removed_whatever_becomes_of_the_grant_and_sent_nowhere_else() {
        let (elsewhere, posted) = authorization_server(None, "200 OK");
        let elsewhere: &'static str = Box::leak(format!("{elsewhere}/revoke").into_boxed_str());
        for (offered, status, expected) in [
            (None, "200 OK", Revocation::NotOffered),
            (Some(elsewhere), "200 OK", Revocation::NotOffered),
            (Some("/revoke"), "503 Service Unavailable", Revocation::Failed("its authorization server answered with 503 Service Unavailable".into())),
        ] {
            let (base, _) = authorization_server(offered, status);
            let (first, second) = logout(&base).await;
            assert_eq!(first, Logout { had_tokens: true, revocation: expected });
            assert!(!second.had_tokens);
        }
        assert!(posted.lock().unwrap().is_empty(), "another origin gets no token");
    }
}

//! A registry as a source of tools: one `baton registry`, many Batons.
//!
//! Its tools are already called `server.tool`, and are called so here too. A server that this hub has itself, built in or configured, is not listed a
//! second time: its own tools are used. What comes from a registry is not exported again (`Tools::exported`), so that registries that name one another
//! do not list each other's tools in a circle, and its definitions of its tools count only if the user trusts it.

use std::time::Duration;

use rmcp::model::Tool;
use serde_json::Value;
use tokio::net::TcpStream;

use super::config::{RedactedText, ServerConfig, ServerTransport, server_name};
use super::server::Server;

/// The name of the registry among the servers of a hub; no configured server can be called so.
pub const REGISTRY: &str = "@registry";
/// First parts of names that are answered without a server: `registry.tools`, `registry.agents`, `evidence.judge`. No server can be called so.
pub(super) const RESERVED: [&str; 2] = ["registry", "evidence"];
/// How long a registry at its default address may take to prove that it is one.
const PROBE_MAX: Duration = Duration::from_millis(300);
const PROBE_BYTES_MAX: usize = 16 << 10;

/// Where a registry is, and whether it is trusted.
#[derive(Clone, Debug, PartialEq)]
pub struct RegistrySource {
    /// `http://host:8021`
    pub url: String,
    /// The user trusts its definitions of its tools.
    pub is_trusted: bool,
    /// The bearer token it wants.
    pub token: Option<RedactedText>,
}

impl RegistrySource {
    pub(super) fn config(&self) -> ServerConfig {
        let headers =
            self.token.iter().map(|token| ("Authorization".to_owned(), RedactedText::new(format!("Bearer {}", token.reveal().trim())))).collect();
        let reach = ServerTransport::Http { url: format!("{}/mcp", self.url.trim_end_matches('/')), headers };
        ServerConfig { trusted: self.is_trusted, ..ServerConfig::new(reach) }
    }
}

impl Server {
    pub(super) fn is_registry(&self) -> bool {
        self.name == REGISTRY
    }
}

/// The server that a tool of a registry belongs to; `None` for a name that is not `server.tool`.
pub(super) fn server_of(name: &str) -> Option<&str> {
    let (server, tool) = name.split_once('.')?;
    (server_name(server) == server && !RESERVED.contains(&server) && !tool.is_empty()).then_some(server)
}

/// The tools of a registry that have a usable name.
pub(super) fn usable(tools: Vec<Tool>) -> Vec<Tool> {
    let (usable, others): (Vec<Tool>, Vec<Tool>) = tools.into_iter().partition(|tool| server_of(&tool.name).is_some());
    if let Some(first) = others.first() {
        tracing::warn!("{} tools of the registry are not used, because their names are not server.tool: {:?}, …", others.len(), first.name);
    }
    usable
}

/// Whether a registry answers at this address: its `GET /health` returns how many servers it has.
pub async fn is_registry_at(url: &str) -> bool {
    tokio::time::timeout(PROBE_MAX, probe(url)).await.ok().flatten().is_some()
}

async fn probe(url: &str) -> Option<()> {
    // Where nobody listens, which is the usual case, this is known without an HTTP client.
    let address = reqwest::Url::parse(url).ok()?;
    TcpStream::connect((address.host_str()?, address.port_or_known_default()?)).await.ok()?;
    // Fails when a provider is installed already, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build().ok()?;
    let mut response = client.get(format!("{}/health", url.trim_end_matches('/'))).send().await.ok()?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        if body.len() + chunk.len() > PROBE_BYTES_MAX {
            return None;
        }
        body.extend_from_slice(&chunk);
    }
    let health: Value = serde_json::from_slice(&body).ok()?;
    (health["status"] == "ok" && health["servers"].is_u64() && health["version"].is_string()).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_names_from_a_registry_are_servers_and_tools_or_nothing() {
        assert_eq!(server_of("notes.find"), Some("notes"));
        assert_eq!(server_of("notes.find.all"), Some("notes"));
        for name in ["find", "notes.", ".find", "@registry.find", "registry.tools", "my notes.find", "-.x"] {
            assert_eq!(server_of(name), None, "{name}");
        }
    }

    #[tokio::test]
    async fn s2_what_does_not_answer_as_a_registry_is_none() {
        assert!(!is_registry_at("http://127.0.0.1:1").await);
    }
}

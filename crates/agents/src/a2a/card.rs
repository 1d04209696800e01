//! The card of an agent, and from it the address and form of its requests.
//!
//! A card is untrusted. It may name the path of its agent but not another machine, because the user's token is sent with the requests.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::Url;
use wire::a2a::card::{AgentCard, GRPC, HTTP_JSON, Interface, JSON_RPC, PATH};
use wire::langserve::{Capability, Description};

use crate::langserve::Service;

/// After this time the card is fetched again, because the agent may have been updated.
const AGE_MAX: Duration = Duration::from_secs(300);

/// The form of requests and replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    JsonRpc,
    HttpJson,
    Grpc,
}

/// Where requests go, and in which form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) url: String,
    pub(super) binding: Binding,
    pub(super) tenant: String,
    pub(super) has_streams: bool,
}

/// The card as it was last read.
#[derive(Default)]
pub(super) struct Cards(Mutex<Option<(Instant, AgentCard)>>);

impl Cards {
    pub(super) async fn describe(&self, http: &Service, grpc: Option<&Service>) -> Result<Description, String> {
        let card = self.read(http).await?;
        choose_endpoint(&card, http.base(), grpc.map(Service::base))?;
        let capabilities = card.skills.into_iter().map(|skill| Capability { name: skill.id, about: skill.description }).collect();
        Ok(Description { name: card.name, about: card.description, capabilities })
    }

    /// The outer error: the agent cannot be reached now. The inner error: its card cannot be used.
    pub(super) async fn endpoint(&self, http: &Service, grpc: Option<&Service>) -> Result<Result<Endpoint, String>, String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let card = match known {
            Some((at, card)) if at.elapsed() < AGE_MAX => card,
            _ => self.read(http).await?,
        };
        Ok(choose_endpoint(&card, http.base(), grpc.map(Service::base)))
    }

    async fn read(&self, http: &Service) -> Result<AgentCard, String> {
        let url = http.at(PATH.trim_start_matches('/'));
        let body = http.get(&url).await?.ok_or_else(|| format!("no agent card is at {url}"))?;
        let card: AgentCard = serde_json::from_slice(&body).map_err(|error| format!("its agent card cannot be read ({error})"))?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), card.clone()));
        Ok(card)
    }
}

/// JSON-RPC is preferred, then HTTP+JSON; gRPC is used where the configuration sets `grpc_url` or the card names nothing else.
fn choose_endpoint(card: &AgentCard, base: &str, grpc_url: Option<&str>) -> Result<Endpoint, String> {
    let is_supported = |version: &str| version == "1" || version.starts_with("1.");
    let usable = |binding: &str| card.supported_interfaces.iter().find(|one| one.protocol_binding == binding && is_supported(&one.protocol_version));
    let endpoint = |url: &str, binding: Binding, tenant: &str| Endpoint {
        url: url.trim_end_matches('/').to_owned(),
        binding,
        tenant: tenant.to_owned(),
        has_streams: card.capabilities.streaming,
    };
    if let Some(url) = grpc_url {
        return Ok(endpoint(url, Binding::Grpc, usable(GRPC).map_or("", |one| &one.tenant)));
    }
    let known = [(JSON_RPC, Binding::JsonRpc), (HTTP_JSON, Binding::HttpJson), (GRPC, Binding::Grpc)];
    let found: Option<(&Interface, Binding)> = known.into_iter().find_map(|(name, binding)| usable(name).map(|one| (one, binding)));
    let (one, binding) = found.ok_or_else(|| "its card lists no interface of A2A 1.0 over JSON-RPC, HTTP+JSON or gRPC".to_owned())?;
    let own = Url::parse(base).map_err(|_| "its address is not a URL")?;
    let theirs = match binding {
        Binding::Grpc => Url::parse(&with_scheme(&one.url, own.scheme())),
        Binding::JsonRpc | Binding::HttpJson => Url::parse(&one.url),
    };
    let theirs = theirs.map_err(|_| "its card names an address that is not a URL")?;
    if !is_same_server(&own, &theirs) {
        let (host, setting) = (theirs.host_str().unwrap_or_default(), if binding == Binding::Grpc { " as grpc_url" } else { "" });
        return Err(format!("its card names another machine or port ({host}); configure that address{setting} if it is the right one"));
    }
    let mut url = own;
    // The paths of gRPC are those of its methods.
    url.set_path(if binding == Binding::Grpc { "" } else { theirs.path() });
    url.set_query(None);
    Ok(endpoint(url.as_str(), binding, &one.tenant))
}

/// Addresses of gRPC are also written as `host:port`, or with a scheme of their own.
fn with_scheme(url: &str, scheme: &str) -> String {
    match url.split_once("://") {
        Some(("grpc", rest)) => format!("http://{rest}"),
        Some(("grpcs", rest)) => format!("https://{rest}"),
        Some(_) => url.to_owned(),
        None => format!("{scheme}://{url}"),
    }
}

/// The same host and port; all names of this machine are one.
fn is_same_server(one: &Url, other: &Url) -> bool {
    let host = |url: &Url| {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
        let is_here = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified());
        if is_here { "localhost".to_owned() } else { host }
    };
    host(one) == host(other) && one.port_or_known_default() == other.port_or_known_default()
}

#[cfg(test)]
mod tests {
    use wire::a2a::card::Interface;

    use super::*;

    #[test]
    fn a_card_sets_the_path_and_never_the_machine() {
        let card = |url: &str, binding: &str, version: &str| AgentCard {
            supported_interfaces: vec![Interface {
                url: url.into(),
                protocol_binding: binding.into(),
                tenant: String::new(),
                protocol_version: version.into(),
            }],
            ..AgentCard::default()
        };
        for (base, url, expected) in [
            ("http://127.0.0.1:9", "http://localhost:9/rpc", Some("http://127.0.0.1:9/rpc")),
            ("http://127.0.0.1:9/a/b", "http://0.0.0.0:9/", Some("http://127.0.0.1:9")),
            ("https://agent.example", "https://agent.example:443/x/", Some("https://agent.example/x")),
            ("https://agent.example", "https://evil.example/x", None),
            ("http://127.0.0.1:9", "http://127.0.0.1:10/rpc", None),
            ("http://127.0.0.1:9", "nonsense", None),
        ] {
            assert_eq!(
                choose_endpoint(&card(url, JSON_RPC, "1.0"), base, None).ok().map(|endpoint| endpoint.url).as_deref(),
                expected,
                "{base} {url}"
            );
        }
        assert!(choose_endpoint(&card("http://a/", "SMTP", "1.0"), "http://a", None).unwrap_err().contains("1.0"));
        assert!(choose_endpoint(&card("http://a/", JSON_RPC, "0.3"), "http://a", None).is_err());
        assert_eq!(choose_endpoint(&card("http://a/", HTTP_JSON, "1.0"), "http://a", None).unwrap().binding, Binding::HttpJson);
        for (url, expected) in [
            ("http://localhost:9/a2a/grpc", Some("http://127.0.0.1:9")),
            ("localhost:9", Some("http://127.0.0.1:9")),
            ("grpc://[::1]:9", Some("http://127.0.0.1:9")),
            ("localhost:50051", None),
            ("", None),
        ] {
            let found = choose_endpoint(&card(url, GRPC, "1.0"), "http://127.0.0.1:9", None);
            assert_eq!(found.as_ref().ok().map(|endpoint| endpoint.url.as_str()), expected, "{url} {found:?}");
        }
        let other_port = choose_endpoint(&card("localhost:50051", GRPC, "1.0"), "http://127.0.0.1:9", None).unwrap_err();
        assert!(other_port.contains("grpc_url"), "{other_port}");
        let configured = choose_endpoint(&card("localhost:50051", GRPC, "1.0"), "http://127.0.0.1:9", Some("http://127.0.0.1:50051")).unwrap();
        assert_eq!((configured.url.as_str(), configured.binding), ("http://127.0.0.1:50051", Binding::Grpc));
    }
}

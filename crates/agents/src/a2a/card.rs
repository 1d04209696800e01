//! The card of an agent, and from it the address and form of its requests.
//!
//! A card is untrusted. It may name the path of its agent but not another machine, because the user's token is sent with the requests.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::Url;
use wire::a2a::card::{AgentCard, HTTP_JSON, JSON_RPC, PATH};
use wire::langserve::{Capability, Description};

use crate::langserve::Service;

/// After this time the card is fetched again, because the agent may have been updated.
const AGE_MAX: Duration = Duration::from_secs(300);

/// Where requests go, and in which form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) url: String,
    pub(super) is_rpc: bool,
    pub(super) tenant: String,
    pub(super) has_streams: bool,
}

/// The card as it was last read.
#[derive(Default)]
pub(super) struct Cards(Mutex<Option<(Instant, AgentCard)>>);

impl Cards {
    pub(super) async fn describe(&self, http: &Service) -> Result<Description, String> {
        let card = self.read(http).await?;
        place(&card, http.base())?;
        let capabilities = card.skills.into_iter().map(|skill| Capability { name: skill.id, about: skill.description }).collect();
        Ok(Description { name: card.name, about: card.description, capabilities })
    }

    /// The outer error: the agent cannot be reached now. The inner error: its card cannot be used.
    pub(super) async fn place(&self, http: &Service) -> Result<Result<Endpoint, String>, String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let card = match known {
            Some((at, card)) if at.elapsed() < AGE_MAX => card,
            _ => self.read(http).await?,
        };
        Ok(place(&card, http.base()))
    }

    async fn read(&self, http: &Service) -> Result<AgentCard, String> {
        let url = http.at(PATH.trim_start_matches('/'));
        let body = http.get(&url).await?.ok_or_else(|| format!("no agent card is at {url}"))?;
        let card: AgentCard = serde_json::from_slice(&body).map_err(|error| format!("its agent card cannot be read ({error})"))?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), card.clone()));
        Ok(card)
    }
}

fn place(card: &AgentCard, base: &str) -> Result<Endpoint, String> {
    let is_spoken = |version: &str| version == "1" || version.starts_with("1.");
    let usable = |binding: &str| card.supported_interfaces.iter().find(|one| one.protocol_binding == binding && is_spoken(&one.protocol_version));
    let one = usable(JSON_RPC).or_else(|| usable(HTTP_JSON));
    let one = one.ok_or_else(|| "its card names no interface of A2A 1.0 over JSON-RPC or HTTP+JSON".to_owned())?;
    let (own, theirs) =
        (Url::parse(base).map_err(|_| "its address is none")?, Url::parse(&one.url).map_err(|_| "its card names an address that is none")?);
    if !is_same_place(&own, &theirs) {
        let host = theirs.host_str().unwrap_or_default();
        return Err(format!("its card names another machine or port ({host}); configure that address if it is the right one"));
    }
    let mut url = own;
    url.set_path(theirs.path());
    url.set_query(None);
    Ok(Endpoint {
        url: url.as_str().trim_end_matches('/').to_owned(),
        is_rpc: one.protocol_binding == JSON_RPC,
        tenant: one.tenant.clone(),
        has_streams: card.capabilities.streaming,
    })
}

/// The same host and port; all names of this machine are one.
fn is_same_place(one: &Url, other: &Url) -> bool {
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
    fn a_card_says_the_path_and_never_the_machine() {
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
            assert_eq!(place(&card(url, JSON_RPC, "1.0"), base).ok().map(|place| place.url).as_deref(), expected, "{base} {url}");
        }
        assert!(place(&card("http://a/", "GRPC", "1.0"), "http://a").unwrap_err().contains("1.0"));
        assert!(place(&card("http://a/", JSON_RPC, "0.3"), "http://a").is_err());
        assert!(!place(&card("http://a/", HTTP_JSON, "1.0"), "http://a").unwrap().is_rpc);
    }
}

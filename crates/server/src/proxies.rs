//! Addresses and networks that the configuration names: proxies that are trusted to state whose request they pass on, and where notifications may go.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use serde::Deserialize;

use crate::listen::Peer;

/// Addresses and networks, such as `127.0.0.1` and `10.0.0.0/8`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct Proxies(Vec<Network>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u32,
}

impl TryFrom<Vec<String>> for Proxies {
    type Error = String;

    fn try_from(all: Vec<String>) -> Result<Proxies, String> {
        let parse = |text: &String| Network::parse(text).ok_or_else(|| format!("{text:?} is neither an address nor a network such as 10.0.0.0/8"));
        all.iter().map(parse).collect::<Result<_, _>>().map(Proxies)
    }
}

impl Network {
    fn parse(text: &str) -> Option<Network> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().ok()?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(bits_max);
        (bits <= bits_max).then_some(Network { address, bits })
    }

    fn has(&self, address: IpAddr) -> bool {
        let is_same = |one: u128, other: u128, width: u32| self.bits == 0 || (one ^ other) >> (width - self.bits) == 0;
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(one), IpAddr::V4(other)) => is_same(u128::from(one.to_bits()), u128::from(other.to_bits()), 32),
            (IpAddr::V6(one), IpAddr::V6(other)) => is_same(one.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

impl Proxies {
    /// Whether an address belongs to a trusted proxy.
    pub fn has(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.has(address))
    }

    /// The peer that a request comes from: behind trusted proxies, the last address in `X-Forwarded-For` that is none of them.
    pub(crate) fn peer(&self, peer: Peer, headers: &HeaderMap) -> Peer {
        if !self.has(peer.remote.ip()) {
            return peer;
        }
        let all = headers.get_all("x-forwarded-for").into_iter().filter_map(|value| value.to_str().ok());
        let passed: Vec<&str> = all.flat_map(|value| value.split(',')).map(str::trim).collect();
        for text in passed.into_iter().rev() {
            // What is no address was not written by a trusted proxy, and neither was anything before it.
            let Some(address) = address_in(text) else { break };
            if !self.has(address) {
                return peer.from(SocketAddr::new(address, 0));
            }
        }
        peer
    }
}

/// Some proxies add a port.
fn address_in(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').split(']').next().unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_is_the_last_address_that_is_no_trusted_proxy() {
        let proxies = Proxies::try_from(vec!["127.0.0.1".to_owned(), "10.0.0.0/8".to_owned(), "fd00::/8".to_owned()]).unwrap();
        let from = |remote: &str, forwarded: &str| {
            let peer = Peer::new(SocketAddr::new(remote.parse().unwrap(), 5), SocketAddr::from(([127, 0, 0, 1], 80)));
            let headers = HeaderMap::from_iter([("x-forwarded-for".parse().unwrap(), forwarded.parse().unwrap())]);
            proxies.peer(peer, &headers).remote.ip().to_string()
        };
        for (remote, forwarded, client) in [
            ("127.0.0.1", "192.0.2.7", "192.0.2.7"),
            ("127.0.0.1", "192.0.2.7, 10.1.2.3", "192.0.2.7"),
            ("::ffff:127.0.0.1", "192.0.2.7:4711", "192.0.2.7"),
            ("fd00::1", "[2001:db8::1]:443", "2001:db8::1"),
            // What the client itself wrote before is not looked at.
            ("127.0.0.1", "1.1.1.1, 192.0.2.7, 10.1.2.3", "192.0.2.7"),
            ("127.0.0.1", "1.1.1.1, nonsense, 10.1.2.3", "127.0.0.1"),
            // Nobody else is trusted.
            ("192.0.2.9", "1.1.1.1", "192.0.2.9"),
        ] {
            assert_eq!(from(remote, forwarded), client, "{remote} {forwarded}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for wrong in ["", "localhost", "10.0.0.0/33", "10.0.0/8", "::/129"] {
            assert!(Proxies::try_from(vec![wrong.to_owned()]).is_err(), "{wrong}");
        }
        assert!(Network::parse("0.0.0.0/0").unwrap().has("192.0.2.1".parse().unwrap()));
    }
}

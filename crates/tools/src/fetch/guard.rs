//! Restricts the destination of a connection.
//!
//! ```text
//! address ──check──▶ literal IP? ──▶ public?          (the client connects to literals without a resolver)
//!               └──▶ name ──resolve, once──▶ public addresses only ──▶ connect to exactly these
//! ```
//!
//! The resolver is the client's own, so the checked address is the one that is connected to, and DNS rebinding has no effect. Every
//! redirect passes the same check.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use futures::future::BoxFuture;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// A host whose private addresses may be reached, with one port or any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AllowedHost {
    host: String,
    port: Option<u16>,
}

impl AllowedHost {
    pub(super) fn read(text: &str) -> Result<AllowedHost, String> {
        let wrong = || format!("`{text}` is not a host that fetch could be allowed: write `wiki.corp`, `10.0.0.7:8080` or `[::1]:3000`");
        let url = Url::parse(&format!("http://{text}/")).map_err(|_| wrong())?;
        let is_plain = url.path() == "/" && url.username().is_empty() && url.query().is_none() && url.fragment().is_none();
        let host = url.host_str().filter(|_| is_plain).ok_or_else(wrong)?.to_owned();
        // The parser drops the default port, which is still a port.
        let port = url.port().or_else(|| text.ends_with(":80").then_some(80));
        Ok(AllowedHost { host, port })
    }

    pub(super) fn covers(&self, url: &Url) -> bool {
        url.host_str() == Some(self.host.as_str()) && self.port.is_none_or(|port| url.port_or_known_default() == Some(port))
    }
}

/// Whether this URL may be requested, apart from the addresses of its name.
pub(super) fn check(url: &Url, is_allowed: bool) -> Result<(), String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("only http and https are read, not `{}:`", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the address carries a user name or password; leave it out".to_owned());
    }
    if is_allowed {
        return Ok(());
    }
    let port = url.port_or_known_default().unwrap_or_default();
    if !is_web_port(port) {
        return Err(format!("port {port} is not one that web pages are served on"));
    }
    match literal(url) {
        Some(ip) if !is_public(ip) => Err(RefusedHost { host: url.host_str().unwrap_or_default().to_owned(), ip: Some(ip) }.to_string()),
        Some(_) => Ok(()),
        None if url.host_str().is_none_or(str::is_empty) => Err("the address names no host".to_owned()),
        None => Ok(()),
    }
}

/// A literal IP address. The URL parser has already normalized octal, hexadecimal and decimal forms.
fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inside) => inside.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

/// Web pages use 80, 443 and high ports; other ports belong to services that could interpret a request as their own protocol.
fn is_web_port(port: u16) -> bool {
    const OTHERS: [u16; 20] =
        [1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6697, 10080, 11211];
    matches!(port, 80 | 443) || (port >= 1024 && !OTHERS.contains(&port))
}

/// Whether an address is public. Unknown ranges are not.
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let within = |net: [u8; 4], bits: u32| u32::from(ip) >> (32 - bits) == u32::from(Ipv4Addr::from(net)) >> (32 - bits);
    let special = [
        ([0, 0, 0, 0], 8),       // this network
        ([10, 0, 0, 0], 8),      // private
        ([100, 64, 0, 0], 10),   // behind a provider's NAT
        ([127, 0, 0, 0], 8),     // loopback
        ([169, 254, 0, 0], 16),  // link-local, and cloud metadata services
        ([172, 16, 0, 0], 12),   // private
        ([192, 0, 0, 0], 24),    // protocol assignments
        ([192, 0, 2, 0], 24),    // documentation
        ([192, 88, 99, 0], 24),  // 6to4 relays
        ([192, 168, 0, 0], 16),  // private
        ([198, 18, 0, 0], 15),   // benchmarks
        ([198, 51, 100, 0], 24), // documentation
        ([203, 0, 113, 0], 24),  // documentation
        ([224, 0, 0, 0], 4),     // multicast
        ([240, 0, 0, 0], 4),     // reserved, broadcast
    ];
    !special.into_iter().any(|(net, bits)| within(net, bits))
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let parts = ip.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match parts {
        // An embedded IPv4 address counts as that address: mapped, and NAT64.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(v4(high, low)),
        // 6to4: the second and third parts are the IPv4 address.
        [0x2002, high, low, ..] => is_public_v4(v4(high, low)),
        // Teredo, benchmarks, ORCHID and other ranges without hosts; documentation.
        [0x2001, second, ..] if second < 0x200 => false,
        [0x2001, 0xdb8, ..] => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        // Otherwise only global unicast, 2000::/3; the rest is local, multicast or reserved.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Name resolution: the system's, or a test's.
pub(super) trait Lookup: Send + Sync {
    fn lookup(&self, name: String) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>>;
}

pub(super) struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: String) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((name.as_str(), 0)).await?.collect()) })
    }
}

/// The client's resolver: returns only the permitted addresses of a name.
pub(super) struct Resolver {
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) only_public: bool,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let (found, only_public) = (self.lookup.lookup(host.clone()), self.only_public);
        Box::pin(async move {
            let mut addresses = found.await?;
            let first = addresses.first().map(SocketAddr::ip);
            if only_public {
                addresses.retain(|address| is_public(address.ip()));
            }
            if addresses.is_empty() && first.is_some() {
                return Err(RefusedHost { host, ip: first }.into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// A host that may not be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RefusedHost {
    host: String,
    ip: Option<IpAddr>,
}

impl fmt::Display for RefusedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ip = self.ip.map(|ip| ip.to_string()).filter(|ip| *ip != self.host).map(|ip| format!(" ({ip})")).unwrap_or_default();
        write!(f, "`{}`{ip} is not on the public internet, so it is not read; a person can allow the host by name", self.host)
    }
}

impl std::error::Error for RefusedHost {}

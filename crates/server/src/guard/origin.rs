//! Whether a request comes from a page of this server, by the headers that browsers send: `Origin`, `Host` and `Sec-Fetch-Site`.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, header};

/// Headers with which a proxy marks a forwarded request.
const FORWARDED: [&str; 7] = ["forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip", "cf-connecting-ip"];
const FORWARDED_PREFIXES: [&str; 2] = ["x-forwarded-", "x-envoy-"];

/// Whether the page that sends this was served by this server: its origin has the same host and port as the address that was asked. Programs send no
/// `Origin`; a browser that sends none states with `Sec-Fetch-Site` where the request comes from. `same-site` is another port of the same host.
pub(super) fn is_same_origin(headers: &HeaderMap) -> bool {
    match headers.get(header::ORIGIN) {
        Some(origin) => origin.to_str().is_ok_and(|origin| host(headers).is_some_and(|host| is_of_host(origin, host))),
        None => headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin" || site == "none"),
    }
}

/// Whether the headers of a browser state that a page of another site sends this.
pub(super) fn is_cross_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site")
}

/// Whether the requested host is a name of this machine that an attacker cannot point at it with DNS.
pub(super) fn is_for_loopback(headers: &HeaderMap) -> bool {
    host(headers).is_some_and(is_here)
}

/// Whether a proxy passed this on.
pub(super) fn is_forwarded(headers: &HeaderMap) -> bool {
    let is_one = |name: &str| FORWARDED.contains(&name) || FORWARDED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    headers.keys().any(|name| is_one(name.as_str()))
}

/// Whether the browser reaches this server over TLS, which then ends at a proxy.
pub(super) fn is_over_tls(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_ascii_lowercase();
    // Of several proxies the first one is the browser's.
    let first = |list: &str| list.split(',').next().unwrap_or_default().trim().to_owned();
    let is_https = |part: &str| part.trim().strip_prefix("proto=").is_some_and(|proto| proto.trim_matches('"') == "https");
    first(&text("x-forwarded-proto")) == "https" || first(&text("forwarded")).split(';').any(is_https) || text("origin").starts_with("https://")
}

fn host(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST)?.to_str().ok()
}

fn is_of_host(origin: &str, host: &str) -> bool {
    let Some((scheme, from)) = origin.split_once("://") else { return false };
    let default_port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return false,
    };
    let plain = |host: &str| host.strip_suffix(default_port).unwrap_or(host).to_ascii_lowercase();
    plain(from) == plain(host)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(of: &[(&str, &str)]) -> HeaderMap {
        of.iter().map(|(name, value)| (name.parse::<header::HeaderName>().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn origin_and_host_are_compared_with_their_ports() {
        for (host, origin, wanted) in [
            ("localhost:8080", "http://localhost:8080", true),
            ("localhost:8080", "http://localhost:3000", false),
            ("localhost:8080", "http://127.0.0.1:8080", false),
            ("localhost", "http://localhost:3000", false),
            ("baton.example", "https://baton.example", true),
            ("baton.example:443", "https://baton.example", true),
            ("baton.example", "https://baton.example:8443", false),
            ("baton.example:443", "http://baton.example", false),
            ("baton.example", "ftp://baton.example", false),
            ("baton.example", "null", false),
        ] {
            assert_eq!(is_same_origin(&headers(&[("host", host), ("origin", origin)])), wanted, "{host} {origin}");
        }
        for (site, wanted) in [("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false)] {
            assert_eq!(is_same_origin(&headers(&[("host", "localhost:8080"), ("sec-fetch-site", site)])), wanted, "{site}");
        }
    }

    #[test]
    fn proxies_and_tls_are_recognised() {
        for name in ["x-forwarded-for", "x-forwarded-proto", "forwarded", "via", "x-real-ip"] {
            assert!(is_forwarded(&headers(&[(name, "anything")])), "{name}");
        }
        assert!(!is_forwarded(&headers(&[("host", "localhost"), ("traceparent", "00-1-2-01"), ("x-client-id", "a")])));
        for (name, value, wanted) in [
            ("x-forwarded-proto", "https", true),
            ("x-forwarded-proto", "http, https", false),
            ("forwarded", "for=192.0.2.1;proto=https;host=x", true),
            ("forwarded", "for=192.0.2.1;proto=http", false),
            ("origin", "https://baton.example", true),
            ("origin", "http://localhost:8080", false),
        ] {
            assert_eq!(is_over_tls(&headers(&[(name, value)])), wanted, "{name}: {value}");
        }
    }
}

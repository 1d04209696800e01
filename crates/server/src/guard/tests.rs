use super::*;
use axum::http::Method;
use store::MemoryStore;
use store::NewToken;

/// From another machine.
fn request(host: &str, method: Method, headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    *request.method_mut() = method;
    request.headers_mut().insert(header::HOST, host.parse().unwrap());
    for (name, value) in headers {
        request.headers_mut().append(name.parse::<header::HeaderName>().unwrap(), value.parse().unwrap());
    }
    request.extensions_mut().insert(elsewhere("192.0.2.7:5000"));
    request
}

fn elsewhere(address: &str) -> Peer {
    Peer::new(address.parse().unwrap(), "192.0.2.1:80".parse().unwrap())
}

/// A connection of this process to itself, and what a server sees of it.
fn own_connection() -> (std::net::TcpStream, std::net::TcpStream, Peer) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, remote) = listener.accept().unwrap();
    let peer = Peer::new(remote, server.local_addr().unwrap());
    (client, server, peer)
}

async fn status(guard: &Guard, request: &Request<Body>) -> u16 {
    guard.who(request.headers(), guard.peer(request).as_ref(), None).await.map_or_else(|problem| problem.status.as_u16(), |_| 200)
}

/// Where the system does not say whose a connection is, the account itself needs the token of the start.
#[cfg(not(all(target_os = "linux", not(feature = "portable"))))]
#[tokio::test]
async fn where_no_account_is_known_a_token_is_always_needed() {
    let guard = Guard::new(None).with_start_token("of the start");
    let (_client, _server, here) = own_connection();
    for (headers, wanted) in [(&[][..], 401), (&[("authorization", "Bearer of the start")][..], 200)] {
        let mut request = request("localhost", Method::GET, headers);
        request.extensions_mut().insert(here.clone());
        assert_eq!(status(&guard, &request).await, wanted, "{headers:?}");
    }
}

#[cfg(all(target_os = "linux", not(feature = "portable")))]
#[tokio::test]
async fn without_a_token_the_account_of_the_server_is_the_operator() {
    let open = Guard::new(Some(" "));
    let (_client, _server, here) = own_connection();
    let own = |host: &str, headers: &[(&str, &str)]| {
        let mut request = request(host, Method::GET, headers);
        request.extensions_mut().insert(here.clone());
        request
    };
    for (host, origin, wanted) in [
        ("localhost:8021", None, 200),
        ("127.0.0.1:8021", Some("http://127.0.0.1:8021"), 200),
        ("[::1]:8021", Some("http://[::1]:8021"), 200),
        ("127.0.0.1", Some("http://localhost:3000"), 403),
        ("localhost:8021", Some("http://localhost:3000"), 403),
        ("127.0.0.1:8021", Some("https://evil.example"), 403),
        ("127.0.0.1:8021", Some("null"), 403),
        ("evil.example", None, 403),
        ("localhost.evil.example:8021", None, 403),
        ("10.0.0.1", None, 403),
    ] {
        let headers: Vec<(&str, &str)> = origin.map(|origin| ("origin", origin)).into_iter().collect();
        assert_eq!(status(&open, &own(host, &headers)).await, wanted, "{host} {origin:?}");
    }
    for (site, wanted) in [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)] {
        assert_eq!(status(&open, &own("localhost", &[("sec-fetch-site", site)])).await, wanted, "{site}");
    }
    // A cookie or token of an earlier start does not keep the account out.
    for stale in [("authorization", "Bearer of an earlier start"), ("cookie", "baton_session=of an earlier start")] {
        assert_eq!(status(&open, &own("localhost", &[stale])).await, 200, "{stale:?}");
    }
    // A proxy passes on the requests of others.
    for forwarded in [("x-forwarded-for", "192.0.2.9"), ("forwarded", "for=192.0.2.9"), ("via", "1.1 proxy"), ("x-real-ip", "192.0.2.9")] {
        assert_eq!(status(&open, &own("localhost", &[forwarded])).await, 401, "{forwarded:?}");
    }
}

/// Every account of a machine reaches its loopback.
#[tokio::test]
async fn other_accounts_and_unknown_ones_need_the_token_of_the_start() {
    let (client, _server, here) = own_connection();
    let own = rustix::process::geteuid().as_raw();
    let from_here = |headers: &[(&str, &str)]| {
        let mut request = request("localhost", Method::GET, headers);
        request.extensions_mut().insert(here.clone());
        request
    };
    let token = [("authorization", "Bearer of the start")];
    for account in [Some(own + 1), None] {
        let guard = Guard::new(None).with_account(account).with_start_token("of the start");
        assert_eq!(status(&guard, &from_here(&[])).await, 401, "{account:?}");
        assert_eq!(status(&guard, &from_here(&token)).await, 200, "{account:?}");
    }
    let guard = Guard::new(None).with_start_token("of the start");
    let mut nothing_known = from_here(&[]);
    nothing_known.extensions_mut().remove::<Peer>();
    assert_eq!(status(&guard, &nothing_known).await, 401);
    assert_eq!(status(&guard, &request("localhost", Method::GET, &[])).await, 401, "from another machine");
    // The kernel shows a socket that was closed as root's.
    drop(client);
    let closed = Peer::new(here.remote, here.local);
    let mut request = from_here(&[]);
    request.extensions_mut().insert(closed);
    assert_eq!(status(&guard, &request).await, 401);
}

#[tokio::test]
async fn a_configured_token_is_needed_by_everybody() {
    let closed = Guard::new(Some("secret"));
    for (given, wanted) in
        [(None, 401), (Some("Bearer secret"), 200), (Some("bearer secret"), 200), (Some("Bearer other"), 401), (Some("secret"), 401)]
    {
        let headers: Vec<(&str, &str)> = given.map(|given| ("authorization", given)).into_iter().collect();
        assert_eq!(status(&closed, &request("anything.example", Method::GET, &headers)).await, wanted, "{given:?}");
    }
}

#[tokio::test]
async fn a_public_address_requires_a_token() {
    let all: SocketAddr = "0.0.0.0:0".parse().unwrap();
    assert!(matches!(Guard::new(None).bind(all).await, Err(BindError::Open { .. })));
    assert!(Guard::new(Some("t")).bind(all).await.is_ok());
    assert!(Guard::new(None).bind("127.0.0.1:0".parse().unwrap()).await.is_ok());
}

#[tokio::test]
async fn a_public_address_stays_closed_when_the_last_token_is_removed() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let token = NewToken { digest: digest("ada's"), user: "ada".into(), made_with: None, created_ms: 0, until_ms: None, scope: None };
    store.keep_token(token).await.unwrap();
    Guard::with_users(None, store.clone()).bind("0.0.0.0:0".parse().unwrap()).await.unwrap();
    let guard = Guard::with_users(None, store.clone());
    guard.0.is_reachable.store(true, Ordering::Relaxed);
    store.drop_token(store.tokens().await.unwrap()[0].token).await.unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, "localhost".parse().unwrap());
    let refused = guard.who(&headers, None, None).await.unwrap_err();
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_session_is_its_users_and_goes_with_its_token() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let new =
        |token: &str, user: &str| NewToken { digest: digest(token), user: user.into(), made_with: None, created_ms: 0, until_ms: None, scope: None };
    let ada = store.keep_token(new("of ada", "ada")).await.unwrap();
    let guard = Guard::with_users(Some("of the operator"), store.clone());
    assert_eq!(guard.of_token("of ada", None).await.unwrap(), Identity { user: "ada".into(), is_operator: false });
    assert!(guard.of_token("of the operator", None).await.unwrap().is_operator);

    let session = guard.open_session("of ada", &HeaderMap::new(), None).await.unwrap();
    assert!(!session.contains("Secure"), "{session}");
    let over_tls = request("baton.example", Method::POST, &[("x-forwarded-proto", "https"), ("origin", "https://baton.example")]);
    let secure = guard.open_session("of ada", over_tls.headers(), None).await.unwrap();
    assert!(secure.ends_with("; Secure"), "{secure}");
    let elsewhere = request("baton.example", Method::POST, &[("origin", "https://evil.example")]);
    assert_eq!(guard.open_session("of ada", elsewhere.headers(), None).await.unwrap_err().status, 403);
    let pair = session.split(';').next().unwrap();
    let cookies = format!("theme=dark; {pair}");
    let host = "baton.example";
    for (method, headers, wanted) in [
        (Method::GET, vec![("cookie", cookies.as_str())], 200),
        (Method::POST, vec![("cookie", pair), ("origin", "https://baton.example")], 200),
        (Method::POST, vec![("cookie", pair), ("origin", "https://evil.example")], 403),
        (Method::POST, vec![("cookie", pair), ("origin", "https://baton.example:8443")], 403),
        (Method::POST, vec![("cookie", pair), ("sec-fetch-site", "cross-site")], 403),
        (Method::GET, vec![("cookie", pair), ("sec-fetch-site", "same-site")], 403),
        (Method::GET, vec![("cookie", "baton_session=guessed")], 401),
        (Method::GET, vec![], 401),
    ] {
        assert_eq!(status(&guard, &request(host, method.clone(), &headers)).await, wanted, "{method} {headers:?}");
    }
    // A token that is taken back takes its sessions along; who is remembered, is so for a moment only.
    store.drop_token(ada).await.unwrap();
    lock(&guard.0.known).clear();
    assert_eq!(status(&guard, &request(host, Method::GET, &[("cookie", pair)])).await, 401);
}

/// Many people share the address of one proxy.
#[tokio::test]
async fn wrong_tokens_slow_down_wrong_tokens_only() {
    let guard = Guard::new(Some("secret"));
    let guess = |number: u32| {
        let bearer = format!("Bearer guess {number}");
        request("h", Method::GET, &[("authorization", &bearer)])
    };
    for number in 0..failures::FAILURES_MAX {
        assert_eq!(status(&guard, &guess(number)).await, 401);
    }
    assert_eq!(status(&guard, &guess(99)).await, 429);
    assert_eq!(status(&guard, &request("h", Method::GET, &[("authorization", "Bearer secret")])).await, 200);
    let mut other = guess(100);
    other.extensions_mut().insert(elsewhere("198.51.100.1:5000"));
    assert_eq!(status(&guard, &other).await, 401, "another address has failures of its own");
}

use super::*;
use store::MemoryStore;

fn request(host: &str, method: Method, headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    *request.method_mut() = method;
    request.headers_mut().insert(header::HOST, host.parse().unwrap());
    for (name, value) in headers {
        request.headers_mut().append(name.parse::<header::HeaderName>().unwrap(), value.parse().unwrap());
    }
    request.extensions_mut().insert(Peer("192.0.2.7:5000".parse().unwrap()));
    request
}

async fn status(guard: &Guard, request: &Request<Body>) -> u16 {
    guard.who(request.headers(), request.method(), peer(request)).await.map_or_else(|problem| problem.status.as_u16(), |_| 200)
}

#[tokio::test]
async fn only_this_machine_comes_in_without_a_token() {
    let open = Guard::new(Some(" "));
    for (host, origin, wanted) in [
        ("localhost:8021", None, 200),
        ("127.0.0.1", Some("http://localhost:3000"), 200),
        ("[::1]:8021", Some("http://[::1]"), 200),
        ("127.0.0.1:8021", Some("https://evil.example"), 403),
        ("127.0.0.1:8021", Some("null"), 403),
        ("evil.example", None, 403),
        ("localhost.evil.example:8021", None, 403),
        ("10.0.0.1", None, 403),
    ] {
        let headers: Vec<(&str, &str)> = origin.map(|origin| ("origin", origin)).into_iter().collect();
        assert_eq!(status(&open, &request(host, Method::GET, &headers)).await, wanted, "{host} {origin:?}");
    }
    for (site, wanted) in [("cross-site", 403), ("same-origin", 200), ("none", 200)] {
        assert_eq!(status(&open, &request("localhost", Method::GET, &[("sec-fetch-site", site)])).await, wanted, "{site}");
    }
    let closed = Guard::new(Some("secret"));
    for (given, wanted) in
        [(None, 401), (Some("Bearer secret"), 200), (Some("bearer secret"), 200), (Some("Bearer other"), 401), (Some("secret"), 401)]
    {
        let headers: Vec<(&str, &str)> = given.map(|given| ("authorization", given)).into_iter().collect();
        assert_eq!(status(&closed, &request("anything.example", Method::GET, &headers)).await, wanted, "{given:?}");
    }
}

#[tokio::test]
async fn no_door_is_opened_to_everybody() {
    let all: SocketAddr = "0.0.0.0:0".parse().unwrap();
    assert!(matches!(Guard::new(None).bind(all).await, Err(BindError::Open { .. })));
    assert!(Guard::new(Some("t")).bind(all).await.is_ok());
    assert!(Guard::new(None).bind("127.0.0.1:0".parse().unwrap()).await.is_ok());
}

#[tokio::test]
async fn a_door_to_everybody_stays_shut_when_the_last_token_goes() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let token = NewToken { digest: digest("ada's"), user: "ada".into(), made_with: None, created_ms: 0, until_ms: None };
    store.keep_token(token).await.unwrap();
    Guard::with_users(None, store.clone()).bind("0.0.0.0:0".parse().unwrap()).await.unwrap();
    let guard = Guard::with_users(None, store.clone());
    guard.0.is_reachable.store(true, Ordering::Relaxed);
    store.drop_token(store.tokens().await.unwrap()[0].token).await.unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, "localhost".parse().unwrap());
    let refused = guard.who(&headers, &Method::GET, None).await.unwrap_err();
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_session_is_its_users_and_goes_with_its_token() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let new = |token: &str, user: &str| NewToken { digest: digest(token), user: user.into(), made_with: None, created_ms: 0, until_ms: None };
    let ada = store.keep_token(new("of ada", "ada")).await.unwrap();
    let guard = Guard::with_users(Some("of the operator"), store.clone());
    assert_eq!(guard.of_token("of ada", None).await.unwrap(), Who { user: "ada".into(), is_operator: false });
    assert!(guard.of_token("of the operator", None).await.unwrap().is_operator);

    let session = guard.open_session("of ada", None).await.unwrap();
    let pair = session.split(';').next().unwrap();
    let cookies = format!("theme=dark; {pair}");
    let host = "baton.example";
    for (method, headers, wanted) in [
        (Method::GET, vec![("cookie", cookies.as_str())], 200),
        (Method::POST, vec![("cookie", pair), ("origin", "https://baton.example")], 200),
        (Method::POST, vec![("cookie", pair), ("origin", "https://evil.example")], 403),
        (Method::POST, vec![("cookie", pair), ("sec-fetch-site", "cross-site")], 403),
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

#[tokio::test]
async fn whoever_guesses_has_to_wait() {
    let guard = Guard::new(Some("secret"));
    for guess in 0..GUESSES_MAX {
        let bearer = format!("Bearer guess {guess}");
        assert_eq!(status(&guard, &request("h", Method::GET, &[("authorization", &bearer)])).await, 401);
    }
    // Even the right one, so that nobody learns which it was.
    assert_eq!(status(&guard, &request("h", Method::GET, &[("authorization", "Bearer secret")])).await, 429);
    let mut elsewhere = request("h", Method::GET, &[("authorization", "Bearer secret")]);
    elsewhere.extensions_mut().insert(Peer("198.51.100.1:5000".parse().unwrap()));
    assert_eq!(status(&guard, &elsewhere).await, 200);
}

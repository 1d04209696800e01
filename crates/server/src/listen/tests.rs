use super::*;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::guard::{self, Guard};

fn peer(address: &str) -> Peer {
    Peer::new(address.parse().unwrap(), "127.0.0.1:80".parse().unwrap())
}

async fn serve(limits: Limits) -> SocketAddr {
    let guard = Guard::new(None);
    let listener = guard.bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/", get(|| async { "here" })).layer(from_fn_with_state(guard, guard::check));
    let (keep, stop) = watch::channel(false);
    tokio::spawn(async move {
        let _keep = keep;
        listen(listener, router, limits, stop).await
    });
    address
}

async fn get_once(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

/// Slow clients take every place, more than once, and none of the requests after them is refused.
#[tokio::test]
async fn clients_that_send_nothing_do_not_block_others() {
    let address = serve(Limits { connections_max: 8, ..Limits::default() }).await;
    let mut slow = Vec::new();
    for _ in 0..30 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: local").await.unwrap();
        slow.push(stream);
    }
    for number in 0..20 {
        let text = get_once(address).await;
        assert!(text.starts_with("HTTP/1.1 200"), "request {number}: {text:?}");
    }
    // The oldest were closed for them.
    assert_eq!(slow[0].read(&mut [0; 1]).await.unwrap_or(0), 0);
}

#[test]
fn a_place_is_taken_from_the_oldest_connection_without_a_request() {
    let connections = Connections::new(3, 2);
    let peers: Vec<Peer> = ["192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1", "192.0.2.4:1", "192.0.2.5:1"].map(peer).into();
    let places: Vec<Option<ConnectionSlot>> = peers[..3].iter().map(|peer| connections.add(peer)).collect();
    assert!(places.iter().all(Option::is_some));
    peers[0].admit();
    let fourth = connections.add(&peers[3]);
    let open: Vec<u64> = connections.0.lock().by_number.keys().copied().collect();
    assert_eq!((fourth.is_some(), open), (true, vec![1, 3, 4]), "the second was the oldest without a request");
    peers[2].admit();
    peers[3].admit();
    assert!(connections.add(&peers[4]).is_none(), "requests in progress are kept");
    drop(Response(peers[2].clone()));
    assert!(connections.add(&peers[4]).is_some(), "a response that is complete makes room");
}

/// A client of HTTP/2 without TLS is recognised by its first bytes, also when they come one by one, and its host counts as `Host` does.
#[tokio::test]
async fn http2_is_used_with_clients_that_begin_with_it() {
    let address = serve(Limits::default()).await;
    let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let response = client.get(format!("http://{address}/")).send().await.unwrap();
    assert_eq!((response.version(), response.status().as_u16(), response.text().await.unwrap().as_str()), (Version::HTTP_2, 200, "here"));
    // Without a token this server answers to names of loopback only, whatever a header has beside the address of the request.
    let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().resolve("evil.example", address).build().unwrap();
    let response = client.get(format!("http://evil.example:{}/", address.port())).header("host", "localhost").send().await.unwrap();
    assert_eq!(response.status().as_u16(), 403);

    let mut stream = TcpStream::connect(address).await.unwrap();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for byte in preface {
        stream.write_all(&[*byte]).await.unwrap();
        stream.flush().await.unwrap();
    }
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).await.unwrap();
    assert_eq!(frame[3], 4, "the settings of the server come first: {frame:?}");
    assert!(get_once(address).await.starts_with("HTTP/1.1 200"));
    // Part of the preface, and then a request that is none of HTTP/2.
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"P").await.unwrap();
    tokio::time::sleep(PREFACE_PAUSE * 3).await;
    stream.write_all(b"OST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 405"), "{text}");
}

#[test]
fn a_connection_is_kept_until_the_last_of_its_responses_is_complete() {
    let connections = Connections::new(1, 1);
    let (first, other) = (peer("192.0.2.1:1"), peer("192.0.2.2:1"));
    let _place = connections.add(&first).unwrap();
    let requests = [first.for_request(), first.for_request(), first.for_request()];
    requests[0].admit();
    requests[1].admit();
    let [one, two, refused] = requests.map(Response);
    drop(refused);
    drop(one);
    assert!(connections.add(&other).is_none());
    drop(two);
    assert!(connections.add(&other).is_some());
}

#[test]
fn one_network_has_a_limit_of_its_own_and_this_machine_none() {
    let connections = Connections::new(100, 2);
    let admitted = |address: &str| {
        let peer = peer(address);
        peer.admit();
        connections.add(&peer)
    };
    let first = [admitted("192.0.2.1:1"), admitted("192.0.2.1:2")];
    assert!(first.iter().all(Option::is_some) && admitted("192.0.2.1:3").is_none() && admitted("192.0.2.2:1").is_some());
    let same = [admitted("[2001:db8::1]:1"), admitted("[2001:db8::2]:1")];
    assert!(same.iter().all(Option::is_some) && admitted("[2001:db8::3]:1").is_none() && admitted("[2001:db8:0:1::1]:1").is_some());
    let here: Vec<_> = (1..=10).map(|port| admitted(&format!("127.0.0.1:{port}"))).collect();
    assert!(here.iter().all(Option::is_some));
    drop(first);
    assert!(admitted("192.0.2.1:4").is_some());
}

#[test]
fn connections_leave_files_for_everything_else() {
    assert_eq!(within_files(4_096, 1_024), 768);
    assert_eq!(within_files(4_096, 1 << 20), 4_096);
    assert_eq!(within_files(4_096, 0), 1);
}

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
async fn clients_that_send_nothing_keep_nobody_out() {
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
    drop(Response(peers[2].state.clone()));
    assert!(connections.add(&peers[4]).is_some(), "a response that is complete makes room");
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

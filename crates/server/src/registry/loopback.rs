//! Where a browser on this machine is sent after a sign-in that the command line began.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

use crate::limits::Limits;
use crate::listen;
use crate::notice::notice;

const PATH: &str = "/callback";
/// The last page is sent by a task of its own, which ends with the process.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A listener on loopback that waits for one browser.
pub struct Loopback {
    listener: TcpListener,
    address: String,
}

impl Loopback {
    /// Port 0 is any free one.
    pub async fn bind(port: u16) -> std::io::Result<Loopback> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let address = format!("http://{}{PATH}", listener.local_addr()?);
        Ok(Loopback { listener, address })
    }

    /// Where the browser is to be sent.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The address, with its query, of the first visit that has this `state`. Other visits are refused and do not end the wait.
    pub async fn wait(self, state: &str) -> std::io::Result<String> {
        let (found, mut visit) = oneshot::channel();
        let (found, state, address) = (Arc::new(Mutex::new(Some(found))), state.to_owned(), self.address);
        let callback = move |uri: Uri| {
            let visited = format!("{address}?{}", uri.query().unwrap_or_default());
            let is_ours = mcp_hub::state_of(&visited).as_deref() == Some(state.as_str());
            let first = if is_ours { found.lock().unwrap_or_else(PoisonError::into_inner).take() } else { None };
            // Nobody waits any more if it was given up.
            let is_first = first.is_some_and(|found| found.send(visited).is_ok());
            async move {
                match is_first {
                    true => notice(
                        StatusCode::OK,
                        "Back to the terminal",
                        "Baton has the answer; the terminal shows how it went. You may close this tab.",
                        None,
                    ),
                    false => {
                        notice(StatusCode::BAD_REQUEST, "Not this sign-in", "This address belongs to another sign-in, or was visited before.", None)
                    }
                }
            }
        };
        let (stop, stopped) = watch::channel(false);
        let mut serving = Box::pin(listen::listen(self.listener, Router::new().route(PATH, get(callback)), Limits::default(), stopped));
        let visited = tokio::select! {
            served = &mut serving => return Err(served.err().unwrap_or_else(|| std::io::Error::other("the listener ended"))),
            visited = &mut visit => visited.map_err(std::io::Error::other)?,
        };
        stop.send_replace(true);
        tokio::time::sleep(LAST_WORDS).await;
        Ok(visited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_browser_that_was_sent_ends_the_wait() {
        let loopback = Loopback::bind(0).await.unwrap();
        let address = loopback.address().to_owned();
        let waiting = tokio::spawn(async move { loopback.wait("right").await });
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        for query in ["", "?state=wrong&code=1", "?code=1"] {
            assert_eq!(client.get(format!("{address}{query}")).send().await.unwrap().status(), 400, "{query}");
        }
        assert_eq!(client.get(format!("{address}?code=a%20b&state=right")).send().await.unwrap().status(), 200);
        assert_eq!(waiting.await.unwrap().unwrap(), format!("{address}?code=a%20b&state=right"));
    }
}

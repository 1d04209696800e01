//! One server and the connection to it.
//!
//! ```text
//!            somebody needs it            connected, tools listed
//!   idle ──────────────────────▶ connecting ───────────────────▶ up ──┐ list changed: list again
//!                                  ▲    │                        │ ◀──┘
//!                     time is over │    │ failed                 │ broke off, or does not answer
//!                                  │    ▼                        │
//!                                  └── down ◀────────────────────┘
//! ```
//!
//! A task of its own, the keeper, goes around in there. Callers only look at the state: they wait while it connects, and are told
//! at once when it is down and until when.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use evidence::Trust;
use futures::future::BoxFuture;
use graph::{Failure, FailureKind};
use rmcp::model::{
    ClientRequest, DiscoverRequest, ListToolsRequest, PaginatedRequestParams, PingRequest, ProtocolVersion, ServerResult, SubscriptionFilter, Tool,
};
use rmcp::service::{
    ClientInitializeError, Peer, RoleClient, RunningService, RunningServiceCancellationToken, RxJsonRpcMessage, ServiceError, Subscription,
    TxJsonRpcMessage,
};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::{ClientLifecycleMode, ClientServiceExt as _};
use tokio::io::DuplexStream;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::auth::{Authorized, Refusal, refusal};
use super::bounded::{Bounded, LINE_BYTES_MAX};
use super::config::{Reach, ServerConfig, secrets};
use super::entry::Entry;
use super::host::{Asked, Host, Listeners};
use super::http::BoundedHttp;
use super::stdio::ChildTransport;
use crate::model::clip;

/// Serves one in-process connection to its end. What a built-in server gives to the hub.
pub type Serve = Arc<dyn Fn(DuplexStream) -> BoxFuture<'static, ()> + Send + Sync>;

/// Timings, for tests to shorten.
#[derive(Clone, Debug)]
pub struct Pace {
    pub connect_max: Duration,
    pub backoff_first: Duration,
    pub backoff_max: Duration,
    /// How often a server that says nothing is asked whether it is there.
    pub beat: Duration,
    /// How often a server that does not tell of changes is asked for its tools again.
    pub relist: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            connect_max: Duration::from_secs(30),
            backoff_first: Duration::from_millis(250),
            backoff_max: Duration::from_secs(60),
            beat: Duration::from_secs(15),
            relist: Duration::from_secs(300),
        }
    }
}

const BEAT_ANSWER_MAX: Duration = Duration::from_secs(5);
/// A child gets some time to end by itself.
const CLOSE_MAX: Duration = Duration::from_secs(6);
const PAGES_MAX: usize = 100;
const TOOLS_MAX: usize = 2_000;
const DUPLEX_BYTES: usize = 256 << 10;

pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) origin: Origin,
    pub(crate) pace: Pace,
    asked: Option<Arc<dyn Asked>>,
    authorized: Option<Authorized>,
    state: watch::Sender<State>,
    tools: RwLock<Arc<Vec<Arc<Entry>>>>,
    last_words: Arc<LastWords>,
    /// Somebody doubts that it is there.
    doubted: Notify,
    /// Whoever waits for the next attempt does not want to.
    hurry: Notify,
    keeper: Mutex<Option<JoinHandle<()>>>,
    /// When somebody first needed it.
    needed: OnceLock<Instant>,
    /// Told after every change of tools or state.
    changed: watch::Sender<u64>,
}

#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "there is one a server, and it stays where it is")]
pub(crate) enum Origin {
    Configured(ServerConfig),
    Local { serve: Serve, trust: Trust },
}

#[derive(Clone)]
pub(crate) enum State {
    Idle,
    Connecting,
    Up(Arc<Link>),
    Down { why: String, until: Instant, failures: u32 },
}

pub(crate) struct Link {
    pub(crate) service: RunningService<RoleClient, Host>,
    pub(crate) listeners: Listeners,
    changed: Arc<Notify>,
    /// Calls that are being answered.
    busy: AtomicUsize,
}

/// One of them.
pub(crate) struct Busy<'l>(&'l AtomicUsize);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Link {
    pub(crate) fn busy(&self) -> Busy<'_> {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(&self.busy)
    }

    pub(crate) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        self.peer().peer_info().map(|info| info.protocol_version.clone())
    }

    fn is_modern(&self) -> bool {
        self.version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
    }

    fn token(&self) -> RunningServiceCancellationToken {
        self.service.cancellation_token()
    }
}

impl Server {
    pub(crate) fn new(
        name: &str,
        origin: Origin,
        pace: Pace,
        asked: Option<Arc<dyn Asked>>,
        consent: Option<Arc<dyn super::auth::Consent>>,
        changed: watch::Sender<u64>,
    ) -> Self {
        let (secrets, authorized) = match &origin {
            Origin::Configured(config) => (secrets(config), consent.map(|consent| Authorized::new(config, consent))),
            Origin::Local { .. } => (Vec::new(), None),
        };
        Server {
            name: name.to_owned(),
            origin,
            pace,
            asked,
            authorized,
            state: watch::Sender::new(State::Idle),
            tools: RwLock::default(),
            last_words: Arc::new(LastWords { secrets, ..LastWords::default() }),
            doubted: Notify::new(),
            hurry: Notify::new(),
            keeper: Mutex::default(),
            needed: OnceLock::new(),
            changed,
        }
    }

    /// Whether what it says about its own tools is believed.
    pub(crate) fn is_believed(&self) -> bool {
        match &self.origin {
            Origin::Configured(config) => config.trusted,
            Origin::Local { .. } => true,
        }
    }

    /// Whose words its results are.
    pub(crate) fn trust(&self) -> Trust {
        match &self.origin {
            Origin::Configured(_) => Trust::Untrusted,
            Origin::Local { trust, .. } => *trust,
        }
    }

    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    pub(crate) fn tools(&self) -> Arc<Vec<Arc<Entry>>> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tools as they were when somebody last looked, from before this process.
    pub(crate) fn remember(&self, tools: Vec<Tool>) {
        self.shelve(tools);
    }

    /// Connects if nobody has yet, and waits until it is known how that went.
    pub(crate) async fn link(self: &Arc<Self>) -> Result<Arc<Link>, Failure> {
        self.wake();
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, State::Connecting)).await;
        match settled.as_deref() {
            Ok(State::Up(link)) => Ok(link.clone()),
            Ok(State::Down { why, until, .. }) => {
                let wait = until.saturating_duration_since(Instant::now());
                let words = format!("the server {} cannot be reached: {why}; the next attempt is in {} ms", self.name, wait.as_millis());
                Err(Failure::new(FailureKind::Network, words).retry_after_ms(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1)))
            }
            Ok(State::Idle | State::Connecting) | Err(_) => Err(Failure::new(FailureKind::Internal, format!("the server {} was closed", self.name))),
        }
    }

    /// Lets the keeper begin, unless it has.
    pub(crate) fn wake(self: &Arc<Self>) {
        self.needed.get_or_init(Instant::now);
        let mut keeper = lock(&self.keeper);
        if keeper.as_ref().is_none_or(JoinHandle::is_finished) {
            self.state.send_replace(State::Connecting);
            let server = self.clone();
            *keeper = Some(tokio::spawn(async move { server.keep().await }));
        }
    }

    /// How long it is still worth waiting for its first list, if it has none yet. Afterwards nobody waits for it just to look.
    pub(crate) fn first_look(&self, longest: Duration) -> Option<Duration> {
        let is_new = matches!(self.state(), State::Connecting) && self.tools().is_empty();
        let since = self.needed.get().map(Instant::elapsed).unwrap_or_default();
        is_new.then(|| longest.saturating_sub(since)).filter(|left| !left.is_zero())
    }

    /// The next attempt is now.
    pub(crate) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// A call broke off: perhaps it was the server.
    pub(crate) fn doubt(&self) {
        self.doubted.notify_one();
    }

    /// Ends the connection and whatever was started for it; another need begins anew.
    pub(crate) fn stop(&self) {
        if let Some(keeper) = lock(&self.keeper).take() {
            keeper.abort();
        }
        if let State::Up(link) = self.state.send_replace(State::Idle) {
            link.token().cancel();
        }
        self.tell();
    }

    /// Stops, and waits until what was started is gone.
    pub(crate) async fn close(&self) {
        let link = match self.state() {
            State::Up(link) => Some(link),
            State::Idle | State::Connecting | State::Down { .. } => None,
        };
        self.stop();
        let Some(link) = link else { return };
        // Others may hold it for the rest of a call; the transport is closed whoever does.
        let closed = async {
            while !link.peer().is_transport_closed() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(CLOSE_MAX, closed).await;
    }

    /// The list of tools, asked for again now.
    pub(crate) async fn relist(&self, link: &Link) -> Result<(), Failure> {
        self.list(link).await.map_err(|why| Failure::new(FailureKind::Network, format!("{}: {why}", self.name)).retry())
    }

    pub(crate) fn last_words(&self) -> &LastWords {
        &self.last_words
    }

    async fn keep(self: Arc<Self>) {
        let mut failures = 0;
        loop {
            let (why, was_up_for) = self.once().await;
            // A server that stayed up for a while has not failed in a row.
            failures = if was_up_for > self.pace.backoff_max { 1 } else { failures + 1 };
            let wait = self.backoff(failures);
            tracing::info!(server = %self.name, %why, wait_ms = wait.as_millis(), "a tool server is down");
            self.set(State::Down { why, until: Instant::now() + wait, failures });
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.hurry.notified() => {}
            }
            self.set(State::Connecting);
        }
    }

    /// One life of the connection: why it ended, and how long it was up.
    async fn once(&self) -> (String, Duration) {
        let connecting = async {
            let (link, gone) = self.connect().await?;
            self.list(&link).await?;
            Ok::<_, String>((Arc::new(link), gone))
        };
        let (link, gone) = match tokio::time::timeout(self.pace.connect_max, connecting).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(why)) => return (why, Duration::ZERO),
            Err(_) => return (self.last_words.after(&format!("no answer within {} s", self.pace.connect_max.as_secs_f32())), Duration::ZERO),
        };
        let since = Instant::now();
        self.set(State::Up(link.clone()));
        let why = self.watch(&link, gone).await;
        link.token().cancel();
        (why, since.elapsed())
    }

    /// Returns when the connection is of no use any more, with the reason.
    async fn watch(&self, link: &Link, mut gone: oneshot::Receiver<()>) -> String {
        let mut subscription = self.subscribe(link).await;
        let tells_changes = tells_changes(link);
        let mut listed = Instant::now();
        // Something may have changed while nobody listened.
        if subscription.is_some()
            && let Err(why) = self.list(link).await
        {
            return why;
        }
        loop {
            let is_changed = tokio::select! {
                _ = &mut gone => return self.last_words.after("it closed the connection"),
                () = link.changed.notified() => true,
                notice = next(&mut subscription) => match notice {
                    true => true,
                    false => {
                        if let Err(why) = self.beat(link).await {
                            return why;
                        }
                        subscription = self.subscribe(link).await;
                        // Something may have changed while nobody listened.
                        true
                    }
                },
                () = self.doubted.notified() => {
                    if let Err(why) = self.beat(link).await {
                        return why;
                    }
                    false
                }
                () = tokio::time::sleep(self.pace.beat) => {
                    if self.is_worth_asking(link)
                        && let Err(why) = self.beat(link).await
                    {
                        return why;
                    }
                    !tells_changes && listed.elapsed() >= self.pace.relist
                }
            };
            if is_changed {
                listed = Instant::now();
                if let Err(why) = self.list(link).await {
                    return why;
                }
            }
        }
    }

    /// A pipe that breaks is noticed at once. And many servers do one thing after the other: who works on a call, or sends a long
    /// reply, is not dead for not answering.
    fn is_worth_asking(&self, link: &Link) -> bool {
        matches!(&self.origin, Origin::Configured(ServerConfig { reach: Reach::Http { .. }, .. })) && link.busy.load(Ordering::Relaxed) == 0
    }

    /// A revision without sessions tells of changes only to those who listen.
    async fn subscribe(&self, link: &Link) -> Option<Subscription> {
        if !link.is_modern() || !tells_changes(link) {
            return None;
        }
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        match tokio::time::timeout(BEAT_ANSWER_MAX, link.peer().listen(filter)).await {
            Ok(Ok(subscription)) => Some(subscription),
            Ok(Err(error)) => {
                tracing::debug!(server = %self.name, %error, "no notices of changes");
                None
            }
            Err(_) => None,
        }
    }

    async fn beat(&self, link: &Link) -> Result<(), String> {
        let request = match link.is_modern() {
            true => ClientRequest::DiscoverRequest(DiscoverRequest::default()),
            false => ClientRequest::PingRequest(PingRequest::default()),
        };
        match tokio::time::timeout(BEAT_ANSWER_MAX, link.peer().send_request(request)).await {
            // An error is an answer too.
            Ok(Ok(_) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse)) => Ok(()),
            Ok(Err(error)) => Err(self.last_words.after(&words(&error))),
            Err(_) => Err(self.last_words.after(&format!("it does not answer for {} s", BEAT_ANSWER_MAX.as_secs()))),
        }
    }

    /// Asks past the SDK's cache: we ask only when we have a reason to.
    async fn list(&self, link: &Link) -> Result<(), String> {
        if link.peer().peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
            self.shelve(Vec::new());
            return Ok(());
        }
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let page = self.page(link, cursor.take()).await;
            let page = match page {
                Ok(ServerResult::ListToolsResult(page)) => page,
                Ok(_) => return Err("its list of tools is something else".into()),
                Err(error) => return Err(self.last_words.after(&format!("it did not list its tools: {}", words(&error)))),
            };
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if tools.len() >= TOOLS_MAX {
                tracing::warn!(server = %self.name, "only the first {TOOLS_MAX} tools are used");
                tools.truncate(TOOLS_MAX);
                break;
            }
            if cursor.is_none() {
                break;
            }
        }
        self.shelve(tools);
        Ok(())
    }

    /// One page of the list. A server that wants authorization only now gets it, once.
    async fn page(&self, link: &Link, cursor: Option<String>) -> Result<ServerResult, ServiceError> {
        let request = || {
            let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
            ClientRequest::ListToolsRequest(ListToolsRequest { params: Some(params), ..ListToolsRequest::default() })
        };
        let first = link.peer().send_request(request()).await;
        let refused = match &first {
            Err(ServiceError::TransportSend(sent)) => refusal(&*sent.error),
            _ => None,
        };
        let authorized = match refused {
            Some(Refusal::Nobody(challenge)) => self.authorize_again(&challenge).await,
            Some(Refusal::TooLittle { challenge }) => self.step_up(&challenge).await,
            None => return first,
        };
        match authorized {
            Ok(()) => link.peer().send_request(request()).await,
            Err(_) => first,
        }
    }

    fn shelve(&self, tools: Vec<Tool>) {
        let is_believed = self.is_believed();
        let mut shelf = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        if shelf.len() == tools.len() && shelf.iter().zip(&tools).all(|(old, new)| old.tool == *new) {
            return;
        }
        *shelf = Arc::new(tools.into_iter().map(|tool| Arc::new(Entry::new(&self.name, tool, is_believed))).collect());
        drop(shelf);
        self.tell();
    }

    async fn connect(&self) -> Result<(Link, oneshot::Receiver<()>), String> {
        self.last_words.clear();
        let mode = match self.revision() {
            None => ClientLifecycleMode::Auto {
                // The newest first; a server that knows how to be asked may still speak an earlier one.
                preferred_versions: ProtocolVersion::KNOWN_VERSIONS.iter().rev().cloned().collect(),
                legacy_version: Some(ProtocolVersion::V_2025_11_25),
            },
            Some(revision) if revision.has_initialize() => ClientLifecycleMode::Initialize,
            Some(revision) => ClientLifecycleMode::Discover { preferred_versions: vec![revision] },
        };
        match self.open(mode).await {
            // Some older servers hang up on a question they do not know.
            Err(ClientInitializeError::ConnectionClosed(_)) => self.open(ClientLifecycleMode::Initialize).await,
            opened => opened,
        }
        .map_err(|error| self.last_words.after(&opening(&error)))
    }

    /// The revision that the configuration insists on.
    fn revision(&self) -> Option<ProtocolVersion> {
        let Origin::Configured(config) = &self.origin else { return None };
        let revision = config.revision.as_deref()?;
        ProtocolVersion::KNOWN_VERSIONS.iter().find(|known| known.as_str() == revision).cloned()
    }

    async fn open(&self, mode: ClientLifecycleMode) -> Result<(Link, oneshot::Receiver<()>), ClientInitializeError> {
        let cannot = |why: String| ClientInitializeError::ConnectionClosed(why);
        let (open, gone) = oneshot::channel();
        let changed = Arc::new(Notify::new());
        let listeners = Listeners::default();
        let revision = self.revision().filter(ProtocolVersion::has_initialize).unwrap_or(ProtocolVersion::V_2025_11_25);
        let host = Host { asked: self.asked.clone(), changed: changed.clone(), listeners: listeners.clone(), revision: revision.clone() };
        let service = match &self.origin {
            Origin::Local { serve, .. } => {
                let (ours, theirs) = tokio::io::duplex(DUPLEX_BYTES);
                tokio::spawn(serve(theirs));
                let (read, write) = tokio::io::split(ours);
                let lines = AsyncRwTransport::new_client(Bounded::new(read, self.last_words.clone()), write).with_max_line_length(LINE_BYTES_MAX);
                host.serve_with_lifecycle(Watched { inner: lines, _open: open }, mode).await?
            }
            Origin::Configured(ServerConfig { reach: Reach::Stdio { command, args, env, cwd }, .. }) => {
                let child = ChildTransport::spawn(command, args, env, cwd.as_ref(), &self.last_words).map_err(NotStarted::into_error)?;
                host.serve_with_lifecycle(Watched { inner: child, _open: open }, mode).await?
            }
            Origin::Configured(ServerConfig { reach: Reach::Http { url, headers }, .. }) => {
                let http = BoundedHttp::new().map_err(cannot)?;
                let headers = headers.iter().filter_map(|(name, value)| Some((name.parse().ok()?, value.reveal().parse().ok()?))).collect();
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str()).custom_headers(headers).max_sse_event_size(LINE_BYTES_MAX);
                match &self.authorized {
                    Some(authorized) => {
                        let client = authorized.client(http, url).await.map_err(cannot)?;
                        let transport = StreamableHttpClientTransport::with_client(client, config.clone());
                        let first = Host { asked: self.asked.clone(), changed: changed.clone(), listeners: listeners.clone(), revision };
                        match first.serve_with_lifecycle(Watched { inner: transport, _open: open }, mode.clone()).await {
                            Err(error) if error.auth_challenge().is_some() => {
                                authorized.authorize(url, error.auth_challenge()).await.map_err(cannot)?;
                                let (open, gone) = oneshot::channel();
                                let client = authorized.client(BoundedHttp::new().map_err(cannot)?, url).await.map_err(cannot)?;
                                let transport = StreamableHttpClientTransport::with_client(client, config);
                                let service = host.serve_with_lifecycle(Watched { inner: transport, _open: open }, mode).await?;
                                return Ok((Link { service, listeners, changed, busy: AtomicUsize::new(0) }, gone));
                            }
                            other => other?,
                        }
                    }
                    None => {
                        let transport = StreamableHttpClientTransport::with_client(http, config);
                        host.serve_with_lifecycle(Watched { inner: transport, _open: open }, mode).await?
                    }
                }
            }
        };
        Ok((Link { service, listeners, changed, busy: AtomicUsize::new(0) }, gone))
    }

    /// After a 403: rights for more, so that the same call may be tried once more over a new connection.
    pub(crate) async fn step_up(&self, challenge: &str) -> Result<(), String> {
        match (&self.authorized, &self.origin) {
            (Some(authorized), Origin::Configured(ServerConfig { reach: Reach::Http { url, .. }, .. })) => authorized.step_up(url, challenge).await,
            _ => Err("nobody can be asked for more rights".into()),
        }
    }

    /// After a 401 in the middle: the token that was good is not any more.
    pub(crate) async fn authorize_again(&self, challenge: &str) -> Result<(), String> {
        match (&self.authorized, &self.origin) {
            (Some(authorized), Origin::Configured(ServerConfig { reach: Reach::Http { url, .. }, .. })) => {
                authorized.authorize(url, Some(challenge)).await
            }
            _ => Err("it wants authorization; give its key under \"headers\" in mcp.json".into()),
        }
    }

    /// Doubles, up to the longest; spread a little, so that many do not come back in step.
    fn backoff(&self, failures: u32) -> Duration {
        let doubled = self.pace.backoff_first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(self.pace.backoff_max);
        let spread = u32::from(self.name.bytes().fold(failures as u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte)));
        doubled.mul_f64(0.75 + f64::from(spread) / 1_024.0)
    }

    fn set(&self, state: State) {
        self.state.send_replace(state);
        self.tell();
    }

    fn tell(&self) {
        self.changed.send_modify(|version| *version += 1);
    }
}

fn tells_changes(link: &Link) -> bool {
    link.peer().peer_info().and_then(|info| info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed)) == Some(true)
}

/// Whether there was a notice, or the end. Without a subscription nothing comes.
async fn next(subscription: &mut Option<Subscription>) -> bool {
    match subscription {
        Some(subscription) => matches!(subscription.next().await, Ok(Some(_))),
        None => std::future::pending().await,
    }
}

/// A transport whose end can be noticed: the SDK drops it when the connection is over.
struct Watched<T> {
    inner: T,
    _open: oneshot::Sender<()>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn send(&mut self, message: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.inner.send(message)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.inner.receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.inner.close()
    }
}

/// A command that does not start need not be tried with another handshake.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotStarted(String);

impl NotStarted {
    fn into_error(why: String) -> ClientInitializeError {
        ClientInitializeError::TransportError {
            error: rmcp::transport::DynamicTransportError::from_parts("stdio", std::any::TypeId::of::<Self>(), Box::new(NotStarted(why))),
            context: "start the command".into(),
        }
    }
}

/// The end of a chain of errors says most, and says it shortest.
fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    loop {
        // The SDK's error shows the client's without naming it as its source.
        if let Some(StreamableHttpError::Client(client)) = error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            error = client;
        }
        match error.source() {
            Some(source) => error = source,
            None => return error.to_string(),
        }
    }
}

/// What went wrong in a call, in words for a person.
pub(crate) fn words(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportSend(sent) => deepest(&*sent.error),
        ServiceError::TransportClosed => "the connection was closed".into(),
        ServiceError::McpError(error) => error.message.to_string(),
        other => other.to_string(),
    }
}

fn opening(error: &ClientInitializeError) -> String {
    match error {
        _ if error.is_authorization_required() => "it wants authorization; give its key under \"headers\" in mcp.json".into(),
        ClientInitializeError::TransportError { error, .. } => deepest(&*error.error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => opening(fallback),
        ClientInitializeError::ConnectionClosed(why) => format!("it closed the connection ({why})"),
        ClientInitializeError::JsonRpcError(error) => format!("it refused: {}", error.message),
        other => clip(&other.to_string(), 300),
    }
}

/// The last a server said besides its messages, and why we gave up on it: what a person needs to mend it.
#[derive(Default)]
pub(crate) struct LastWords {
    lines: Mutex<VecDeque<String>>,
    secrets: Vec<String>,
}

const LAST_LINES_MAX: usize = 20;
const SHOWN_LINES_MAX: usize = 4;
const SHOWN_BYTES_MAX: usize = 600;

impl LastWords {
    pub(crate) fn note(&self, line: String) {
        if line.trim().is_empty() {
            return;
        }
        let mut lines = lock(&self.lines);
        if lines.len() == LAST_LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn clear(&self) {
        lock(&self.lines).clear();
    }

    /// These words, followed by what the server last said, without any secret of its configuration.
    pub(crate) fn after(&self, words: &str) -> String {
        let lines = lock(&self.lines);
        let said: Vec<&str> = lines.iter().skip(lines.len().saturating_sub(SHOWN_LINES_MAX)).map(String::as_str).collect();
        let all = if said.is_empty() { words.to_owned() } else { format!("{words}; it said: {}", clip(&said.join(" | "), SHOWN_BYTES_MAX)) };
        self.strike(&all)
    }

    pub(crate) fn strike(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "[secret]"))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
//! A task of its own, the keeper, runs this loop. Callers only read the state: they wait while it connects, and get an error
//! at once when it is down and until when. How it is reached is in [`open`], its list of tools in [`list`].

mod list;
mod open;
mod stderr_tail;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use evidence::Trust;
use futures::future::BoxFuture;
use graph::{Failure, FailureKind};
use rmcp::model::{ClientRequest, DiscoverRequest, PingRequest, ProtocolVersion, SubscriptionFilter};
use rmcp::service::{Peer, RoleClient, RunningService, RunningServiceCancellationToken, ServiceError, Subscription};
use tokio::io::DuplexStream;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::auth::Authorized;
use super::config::{ServerConfig, ServerTransport, secrets};
use super::entry::Entry;
use super::host::{Host, Listeners, ServerRequestHandler};
use super::memory::fingerprint;
pub(crate) use open::error_text;
pub(crate) use stderr_tail::StderrTail;

/// Serves one in-process connection to its end. What a built-in server gives to the hub.
pub type Serve = Arc<dyn Fn(DuplexStream) -> BoxFuture<'static, ()> + Send + Sync>;

/// Timings, for tests to shorten.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Time to open a connection.
    pub connect_max: Duration,
    /// The pause after the first failure.
    pub backoff_first: Duration,
    /// The longest pause between attempts.
    pub backoff_max: Duration,
    /// The interval of pings to a server that sends nothing.
    pub beat: Duration,
    /// How often the tools of a server that does not announce changes are listed again.
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

pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) origin: Origin,
    pub(crate) pace: Pace,
    request_handler: Option<Arc<dyn ServerRequestHandler>>,
    pub(crate) authorized: Option<Arc<Authorized>>,
    /// It refused the last connection or call for want of a token.
    pub(crate) needs_login: AtomicBool,
    state: watch::Sender<State>,
    tools: RwLock<Arc<Vec<Arc<Entry>>>>,
    stderr_tail: Arc<StderrTail>,
    /// Somebody doubts that it is there.
    doubted: Notify,
    /// Ends the wait for the next attempt.
    hurry: Notify,
    keeper: Mutex<Option<JoinHandle<()>>>,
    /// When somebody first needed it.
    needed: OnceLock<Instant>,
    /// Sent after every change of tools or state.
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
        request_handler: Option<Arc<dyn ServerRequestHandler>>,
        consent: Option<Arc<dyn super::auth::Consent>>,
        credentials: Option<&Path>,
        changed: watch::Sender<u64>,
    ) -> Self {
        let (secrets, authorized) = match &origin {
            Origin::Configured(config) => (secrets(config), Authorized::new(name, config, consent, credentials).map(Arc::new)),
            Origin::Local { .. } => (Vec::new(), None),
        };
        Server {
            name: name.to_owned(),
            origin,
            pace,
            request_handler,
            authorized,
            needs_login: AtomicBool::new(false),
            state: watch::Sender::new(State::Idle),
            tools: RwLock::default(),
            stderr_tail: Arc::new(StderrTail::without(secrets)),
            doubted: Notify::new(),
            hurry: Notify::new(),
            keeper: Mutex::default(),
            needed: OnceLock::new(),
            changed,
        }
    }

    /// Whether it comes with Baton and runs in this process.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.origin, Origin::Local { .. })
    }

    /// What it was defined as, so that another under the same name is recognized. None for one that is built in.
    pub(crate) fn definition(&self) -> Option<String> {
        match &self.origin {
            Origin::Configured(config) => Some(config.definition.clone().unwrap_or_else(|| fingerprint(config))),
            Origin::Local { .. } => None,
        }
    }

    /// The command or address it is reached by, as a person is shown it.
    pub(crate) fn reached_by(&self) -> Option<String> {
        match &self.origin {
            Origin::Configured(ServerConfig { reach: ServerTransport::Stdio { command, args, env, .. }, .. }) => {
                let names: Vec<&str> = env.keys().map(String::as_str).collect();
                let names = if names.is_empty() { String::new() } else { format!(", with {}", names.join(", ")) };
                Some(format!("starts {command} {}{names}", args.join(" ")))
            }
            Origin::Configured(ServerConfig { reach: ServerTransport::Http { url, .. }, .. }) => Some(format!("connects to {url}")),
            Origin::Local { .. } => None,
        }
    }

    /// Whether its definitions of its own tools count.
    pub(crate) fn is_trusted(&self) -> bool {
        match &self.origin {
            Origin::Configured(config) => config.trusted,
            Origin::Local { .. } => true,
        }
    }

    /// Where it is, if it is reached over HTTP.
    pub(crate) fn url(&self) -> Option<&str> {
        match &self.origin {
            Origin::Configured(ServerConfig { reach: ServerTransport::Http { url, .. }, .. }) => Some(url),
            Origin::Configured(ServerConfig { reach: ServerTransport::Stdio { .. }, .. }) | Origin::Local { .. } => None,
        }
    }

    /// Who wrote the text of its results.
    pub(crate) fn trust(&self) -> Trust {
        match &self.origin {
            Origin::Configured(_) => Trust::Untrusted,
            Origin::Local { trust, .. } => *trust,
        }
    }

    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
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
                let message = format!("the server {} cannot be reached: {why}; the next attempt is in {} ms", self.name, wait.as_millis());
                Err(Failure::new(FailureKind::Network, message).retry_after_ms(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1)))
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
    pub(crate) fn retry_now(&self) {
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
        self.notify_changed();
    }

    /// Ends the connection there may be and makes another, with the tokens that are kept now.
    pub(crate) fn reconnect(self: &Arc<Self>) {
        self.stop();
        self.wake();
    }

    /// Stops, and waits until what was started is gone.
    pub(crate) async fn close(&self) {
        let link = match self.state() {
            State::Up(link) => Some(link),
            State::Idle | State::Connecting | State::Down { .. } => None,
        };
        self.stop();
        let Some(link) = link else { return };
        // Calls in flight may still hold it; the transport is closed anyway.
        let closed = async {
            while !link.peer().is_transport_closed() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(CLOSE_MAX, closed).await;
    }

    pub(crate) fn stderr_tail(&self) -> &StderrTail {
        &self.stderr_tail
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

    /// One connection: why it ended, and how long it was up.
    async fn once(&self) -> (String, Duration) {
        let connecting = async {
            let (link, gone) = self.connect().await?;
            self.list(&link).await?;
            Ok::<_, String>((Arc::new(link), gone))
        };
        let (link, gone) = match tokio::time::timeout(self.pace.connect_max, connecting).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(why)) => return (why, Duration::ZERO),
            Err(_) => return (self.stderr_tail.after(&format!("no answer within {} s", self.pace.connect_max.as_secs_f32())), Duration::ZERO),
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
        let notifies_changes = notifies_changes(link);
        let mut listed = Instant::now();
        // Something may have changed while nobody listened.
        if subscription.is_some()
            && let Err(why) = self.list(link).await
        {
            return why;
        }
        loop {
            let is_changed = tokio::select! {
                _ = &mut gone => return self.stderr_tail.after("it closed the connection"),
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
                    !notifies_changes && listed.elapsed() >= self.pace.relist
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

    /// A broken pipe is detected at once. And many servers process one message at a time: one that works on a call, or sends a long
    /// reply, does not answer meanwhile.
    fn is_worth_asking(&self, link: &Link) -> bool {
        matches!(&self.origin, Origin::Configured(ServerConfig { reach: ServerTransport::Http { .. }, .. })) && link.busy.load(Ordering::Relaxed) == 0
    }

    /// A revision without sessions sends changes only to subscribers.
    async fn subscribe(&self, link: &Link) -> Option<Subscription> {
        if !link.is_modern() || !notifies_changes(link) {
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
            Ok(Err(error)) => Err(self.stderr_tail.after(&error_text(&error))),
            Err(_) => Err(self.stderr_tail.after(&format!("it does not answer for {} s", BEAT_ANSWER_MAX.as_secs()))),
        }
    }

    /// Doubles, up to the longest; spread a little, so that many do not reconnect at the same time.
    fn backoff(&self, failures: u32) -> Duration {
        let doubled = self.pace.backoff_first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(self.pace.backoff_max);
        let spread = u32::from(self.name.bytes().fold(failures as u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte)));
        doubled.mul_f64(0.75 + f64::from(spread) / 1_024.0)
    }

    fn set(&self, state: State) {
        self.state.send_replace(state);
        self.notify_changed();
    }

    fn notify_changed(&self) {
        self.changed.send_modify(|version| *version += 1);
    }
}

fn notifies_changes(link: &Link) -> bool {
    link.peer().peer_info().and_then(|info| info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed)) == Some(true)
}

/// Whether there was a notice, or the end. Without a subscription nothing comes.
async fn next(subscription: &mut Option<Subscription>) -> bool {
    match subscription {
        Some(subscription) => matches!(subscription.next().await, Ok(Some(_))),
        None => std::future::pending().await,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

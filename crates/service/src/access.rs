//! The token created at each start of a server: in a file that only the server's account can read, and in a link for browsers.
//!
//! Programs of the same account need no token (see `server::guard`). It is for browsers of another account, requests through a proxy, and
//! systems where the account of a connection cannot be determined.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use server::guard::{self, Guard};
use server::tls::Tls;
use store::Store;
use tokio::net::TcpListener;

use crate::config::Config;
use crate::error::{Result, ServiceError};
use crate::global_args::GlobalArgs;
use crate::hub;
use crate::private;

const FOLDER: &str = "access";
const ENDING: &str = "token";
/// Suffix of the file name for a server with TLS.
const OVER_TLS: &str = ".tls";

/// The address to listen on, and the token of callers.
#[derive(Clone, Debug)]
pub struct Bind {
    /// The address; any other than loopback needs a token.
    pub host: IpAddr,
    /// The port; 0 for any free one.
    pub port: u16,
    /// The bearer token that callers must send.
    pub token: Option<String>,
    /// Serves over TLS with this certificate.
    pub tls: Option<TlsFiles>,
}

/// PEM files, reloaded when they change.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificates, the server's own first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Default for Bind {
    fn default() -> Self {
        Bind { host: IpAddr::V4(Ipv4Addr::LOCALHOST), port: 0, token: None, tls: None }
    }
}

/// An open port with its guard.
pub struct BoundServer {
    /// The open port.
    pub listener: TcpListener,
    /// Its address.
    pub address: SocketAddr,
    /// Decides which callers are admitted.
    pub guard: Guard,
    /// The store with the users' tokens.
    pub store: Arc<dyn Store>,
    /// The token of this start, whose file is removed when this is dropped. `None` with a configured token, and where other machines can
    /// connect.
    pub start_token: Option<StartToken>,
    /// The certificate, if there is one.
    pub tls: Option<Arc<Tls>>,
}

impl Bind {
    /// Opens the database and the port. Users with tokens are in the database.
    pub async fn bind(&self, globals: &GlobalArgs) -> Result<BoundServer> {
        let store = globals.open_or_make().await?;
        let Listener { listener, address, guard, start_token, tls } = self.listen(Some(store.clone()), globals).await?;
        Ok(BoundServer { listener, address, guard, store, start_token, tls })
    }

    /// Opens the port. Call it first, so that an occupied port is reported immediately.
    pub async fn listen(&self, users: Option<Arc<dyn Store>>, globals: &GlobalArgs) -> Result<Listener> {
        let tls = match &self.tls {
            Some(files) => Some(Arc::new(Tls::open(&files.certificate, &files.key).map_err(|error| ServiceError::Usage(error.to_string()))?)),
            None => None,
        };
        let config = Config::for_run(globals)?;
        // Agents and registries have no page.
        let provider = if users.is_some() { config.server.provider(&|name| config.key(name))? } else { None };
        let guard = match users {
            Some(store) => Guard::with_users(self.token.as_deref(), store),
            None => Guard::new(self.token.as_deref()),
        };
        let mut start_token = match self.token.is_none() && self.host.is_loopback() {
            true => Some(StartToken::new()?),
            false => None,
        };
        let guard = match &start_token {
            Some(start) => guard.with_start_token(&start.token),
            None => guard,
        };
        if let Some(provider) = provider {
            guard.sign_in_with(provider);
        }
        let listener = guard.bind(SocketAddr::new(self.host, self.port)).await.map_err(|error| ServiceError::Usage(error.to_string()))?;
        let address = listener.local_addr()?;
        if let Some(start) = &mut start_token {
            start.keep(globals, address, tls.is_some())?;
        }
        guard.trust_proxies(config.proxy.trusted);
        Ok(Listener { listener, address, guard, start_token, tls })
    }
}

/// An open port, without a store.
pub struct Listener {
    /// The open port.
    pub listener: TcpListener,
    /// Its address.
    pub address: SocketAddr,
    /// Decides which callers are admitted.
    pub guard: Guard,
    /// As in [`BoundServer`].
    pub start_token: Option<StartToken>,
    /// The certificate, if there is one.
    pub tls: Option<Arc<Tls>>,
}

impl Listener {
    /// The address for browsers.
    pub fn url(&self) -> String {
        format!("{}://{}", scheme(self.tls.is_some()), self.address)
    }
}

/// The token of this start; its file is removed with it.
pub struct StartToken {
    /// The token itself.
    pub token: String,
    file: Option<PathBuf>,
    is_tls: bool,
}

impl StartToken {
    /// A random token that is in no file yet.
    pub fn new() -> Result<StartToken> {
        let token = guard::secret().map_err(|problem| ServiceError::Failed(problem.message))?;
        Ok(StartToken { token, file: None, is_tls: false })
    }

    /// Writes the file, once the address is known.
    pub fn keep(&mut self, globals: &GlobalArgs, address: SocketAddr, is_tls: bool) -> Result<()> {
        let folder = folder(globals)?;
        let wrong = |error: std::io::Error| ServiceError::Folder(format!("the token cannot be kept in {}: {error}", folder.display()));
        private::make_folder(&folder).map_err(wrong)?;
        let port = address.port();
        let file = folder.join(if is_tls { format!("{port}{OVER_TLS}.{ENDING}") } else { format!("{port}.{ENDING}") });
        private::write(&file, &format!("{}\n", self.token)).map_err(wrong)?;
        (self.file, self.is_tls) = (Some(file), is_tls);
        Ok(())
    }

    /// The file that has the token, once it was written.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// An address that signs a browser in.
    pub fn link(&self, address: SocketAddr) -> String {
        link(scheme(self.is_tls), &address.to_string(), &self.token)
    }
}

impl Drop for StartToken {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // Without a server the token is useless.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// A running server of this account with this database.
pub struct Running {
    /// An address that signs a browser in.
    pub link: String,
    /// The file that has its token.
    pub file: PathBuf,
}

/// Servers that were started with this database and still listen.
pub fn running(globals: &GlobalArgs) -> Result<Vec<Running>> {
    let Ok(files) = std::fs::read_dir(folder(globals)?) else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for file in files.flatten().map(|file| file.path()) {
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let is_tls = stem.ends_with(OVER_TLS);
        let port = stem.trim_end_matches(OVER_TLS).parse::<u16>().ok();
        let (Some(port), Ok(token)) = (port, std::fs::read_to_string(&file)) else { continue };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        // A killed server leaves its file behind.
        if TcpStream::connect(address).is_ok() {
            all.push(Running { link: link(scheme(is_tls), &address.to_string(), token.trim()), file });
        }
    }
    all.sort_by(|one, other| one.file.cmp(&other.file));
    Ok(all)
}

fn link(scheme: &str, address: &str, token: &str) -> String {
    format!("{scheme}://{address}/open?token={token}")
}

fn scheme(is_tls: bool) -> &'static str {
    if is_tls { "https" } else { "http" }
}

fn folder(globals: &GlobalArgs) -> Result<PathBuf> {
    Ok(hub::folder(globals)?.join(FOLDER))
}

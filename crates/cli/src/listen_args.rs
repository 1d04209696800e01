//! Options of every command that serves something: address, token, TLS.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use service::access::{Bind, Listener, TlsFiles};
use service::global_args::GlobalArgs;
use store::Store;
use terminal::remark;

use crate::exit::{Result, ServiceError};

#[derive(clap::Args)]
pub(crate) struct ListenArgs {
    /// The address to listen on; any other than loopback needs a token
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// Callers must send this as a bearer token; other accounts can see it in the process list, so prefer --token-file
    #[arg(long, env = "BATON_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// The same, from the first line of a file; `-` prompts for it, or reads a line from standard input
    #[arg(long, value_name = "FILE", env = "BATON_TOKEN_FILE", hide_env = true)]
    token_file: Option<PathBuf>,
    /// Serve over TLS with the certificates of this PEM file, the server's own first; the file is reloaded when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shorter tokens can be guessed.
const TOKEN_CHARS_MIN: usize = 16;

impl ListenArgs {
    /// Binds first, so that an occupied port is reported immediately. Users with tokens are in the store.
    pub(crate) async fn bind(&self, users: Option<Arc<dyn Store>>, globals: &GlobalArgs, port: u16) -> Result<Listener> {
        let files = self.tls_cert.clone().zip(self.tls_key.clone());
        let tls = files.map(|(certificate, key)| TlsFiles { certificate, key });
        Bind { host: self.host, port, token: self.token()?, tls }.listen(users, globals).await
    }

    fn token(&self) -> Result<Option<String>> {
        let token = match &self.token_file {
            Some(path) if path == Path::new("-") => Some(prompted()?),
            Some(path) => Some(read(path)?),
            None => self.token.as_deref().map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()),
        };
        if token.as_ref().is_some_and(|token| token.len() < TOKEN_CHARS_MIN) {
            remark(&format!("the token has fewer than {TOKEN_CHARS_MIN} characters and can be guessed; `baton tokens add USER` makes a long one"));
        }
        Ok(token)
    }
}

fn read(path: &Path) -> Result<String> {
    let wrong = |why: String| ServiceError::Usage(format!("the token cannot be read from {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    if path.metadata().is_ok_and(|found| found.mode() & 0o077 != 0) {
        remark(&format!("other accounts may read the token in {}; `chmod 600` keeps it to yours", path.display()));
    }
    first_line(&text).ok_or_else(|| wrong("its first line is empty".to_owned()))
}

/// A line of standard input; at a terminal it is prompted for without echo.
fn prompted() -> Result<String> {
    let stdin = std::io::stdin();
    let shown = stdin.is_terminal().then(|| tcgetattr(&stdin)).transpose().map_err(std::io::Error::from)?;
    if let Some(shown) = &shown {
        write!(anstream::stderr(), "Token: ")?;
        let mut hidden = shown.clone();
        hidden.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(&stdin, SetArg::TCSANOW, &hidden).map_err(std::io::Error::from)?;
    }
    let mut line = String::new();
    let read = stdin.lock().read_line(&mut line);
    if let Some(shown) = &shown {
        tcsetattr(&stdin, SetArg::TCSANOW, shown).map_err(std::io::Error::from)?;
        writeln!(anstream::stderr())?;
    }
    read?;
    first_line(&line).ok_or_else(|| ServiceError::Usage("no token was given on standard input".to_owned()))
}

fn first_line(text: &str) -> Option<String> {
    text.lines().next().map(str::trim).filter(|token| !token.is_empty()).map(str::to_owned)
}

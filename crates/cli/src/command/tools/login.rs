use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use mcp_hub::{ServerStatus, Tools as Hub};
use server::registry::Loopback;
use service::hub::Servers;
use terminal::remark;

use super::service_error;
use crate::exit::{Result, ServiceError};

/// How long the new connection may take before the command ends without having seen it.
const CONNECT_MAX: Duration = Duration::from_secs(15);

#[derive(clap::Args)]
#[command(
    after_help = "The address of the authorization server is printed and opened in a browser. There you agree, and the browser comes back to a port of this machine.
On a machine without a browser, open the address elsewhere and use --paste: the browser ends at an address that it cannot load; paste that one.

Examples:
  baton tools login orders
  baton tools login orders --no-browser --port 8765
  baton tools login orders --paste"
)]
pub(crate) struct Login {
    /// The server, as `mcp.json` calls it
    pub(super) server: String,
    /// Only print the address
    #[arg(long)]
    no_browser: bool,
    /// Read the address that the browser was sent to from standard input, instead of waiting for the browser
    #[arg(long)]
    paste: bool,
    /// The port of this machine to which the browser is sent; 0 is any free one
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    port: u16,
    /// How long to wait for the browser, in seconds
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    timeout: u64,
    #[command(flatten)]
    pub(super) servers: Servers,
}

impl Login {
    pub(super) async fn work(&self, hub: &Hub) -> Result<()> {
        let listen = |error: std::io::Error| {
            ServiceError::Usage(format!("cannot listen on port {} of this machine: {error}; choose another with --port", self.port))
        };
        let loopback = Loopback::bind(self.port).await.map_err(listen)?;
        let login = hub.begin_login(&self.server, loopback.address()).await.map_err(service_error)?;
        let name = login.server().to_owned();
        remark(&format!("open this address in a browser, and agree that Baton may use {name}:"));
        writeln!(anstream::stdout(), "{}", login.address())?;
        let callback = if self.paste {
            // The browser cannot load the address, so nothing needs to listen there.
            drop(loopback);
            pasted()?
        } else {
            if !self.no_browser {
                open_browser(login.address());
            }
            let state = login.state().ok_or_else(|| ServiceError::Failed(format!("{name}: the address has no state")))?;
            match tokio::time::timeout(Duration::from_secs(self.timeout), loopback.wait(&state)).await {
                Ok(callback) => callback.map_err(|error| ServiceError::Failed(format!("waiting for the browser failed: {error}")))?,
                Err(_) => {
                    let words = format!(
                        "the sign-in did not finish within {} s; try again, with --timeout for more time or --paste for a browser on another machine",
                        self.timeout
                    );
                    return Err(ServiceError::Failed(words));
                }
            }
        };
        login.finish(&callback).await.map_err(service_error)?;
        remark(&format!("signed in at {name}; its tokens are kept for this account and refreshed by themselves"));
        self.report(hub, &name).await;
        Ok(())
    }

    /// Whether the tools can be used now. The sign-in itself is done, whatever this returns.
    async fn report(&self, hub: &Hub, name: &str) {
        let mut changes = hub.changes();
        let settled = async {
            loop {
                let health = hub.health().into_iter().find(|health| health.server == name);
                match health.map(|health| (health.status, health.tools, health.enabled)) {
                    Some((ServerStatus::Up { .. }, tools, true)) => return format!("{name} offers {tools} tools"),
                    Some((ServerStatus::Up { .. }, tools, false)) => {
                        return format!("{name} offers {tools} tools, and is off; `baton tools enable {name}` switches it on");
                    }
                    Some((ServerStatus::Down { why, .. }, ..)) => return format!("{name} is down: {why}"),
                    _ => {}
                }
                if changes.changed().await.is_err() {
                    return format!("{name} was closed");
                }
            }
        };
        match tokio::time::timeout(CONNECT_MAX, settled).await {
            Ok(words) => remark(&words),
            Err(_) => remark(&format!("{name} has not answered yet; `baton tools list` shows its tools when it does")),
        }
    }
}

/// One line of standard input.
fn pasted() -> Result<String> {
    remark("then paste the address that the browser was sent to:");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(|error| ServiceError::Failed(format!("standard input cannot be read: {error}")))?;
    match line.trim() {
        line if line.starts_with("http://") || line.starts_with("https://") => Ok(line.to_owned()),
        _ => Err(ServiceError::Usage("that is no address; paste all of it, beginning with http://".to_owned())),
    }
}

/// The address is printed too, so a browser that does not open is no error.
fn open_browser(address: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started = Command::new(program).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Err(error) = started {
        tracing::debug!("{program} cannot be started: {error}");
    }
}

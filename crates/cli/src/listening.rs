//! How every command that serves something is told where to listen, who may call, and how to speak.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use server::guard::Guard;
use tokio::net::TcpListener;

use crate::exit::{Result, Trouble};

#[derive(clap::Args)]
pub(crate) struct Listening {
    /// The address to listen on; any but loopback needs a token
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// Who calls must show this as a bearer token
    #[arg(long, env = "BATON_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Print what happens as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Listening {
    /// Before anything is made ready, so that a port that is taken is known at once.
    pub(crate) async fn bind(&self, guard: &Guard, port: u16) -> Result<(TcpListener, SocketAddr)> {
        let listener = guard.bind(SocketAddr::new(self.host, port)).await.map_err(|error| Trouble::Usage(error.to_string()))?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    }
}

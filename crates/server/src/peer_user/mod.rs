//! Which account of this machine is at the other end of a loopback connection. Only Linux answers that here; elsewhere a token is always needed.

#[cfg(all(target_os = "linux", not(feature = "portable")))]
#[path = "linux.rs"]
mod system;
#[cfg(not(all(target_os = "linux", not(feature = "portable"))))]
#[path = "other.rs"]
mod system;

use std::net::SocketAddr;

/// The user id of the process that opened the connection, if both ends are on this machine and the kernel can tell.
pub(crate) async fn owner(remote: SocketAddr, local: SocketAddr) -> Option<u32> {
    let (remote, local) = (canonical(remote), canonical(local));
    if !remote.ip().is_loopback() || !local.ip().is_loopback() {
        return None;
    }
    system::owner(remote, local).await
}

/// The user id of this process, unless other accounts could appear under the same one.
pub(crate) fn own() -> Option<u32> {
    system::own()
}

/// IPv4 addresses of a socket that takes both kinds are compared as IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

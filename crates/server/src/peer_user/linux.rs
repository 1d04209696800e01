//! The kernel knows the owner of every socket. It is asked for the socket whose two addresses are those of the connection, reversed: over netlink (`sock_diag`),
//! which finds it at once, or from the tables in `/proc/net` where netlink is not permitted. A socket that its process has closed is shown as root's, with
//! inode 0; it has no known owner.

use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};

pub(super) async fn owner(remote: SocketAddr, local: SocketAddr) -> Option<u32> {
    match by_netlink(remote, local) {
        Ok(found) => found,
        Err(error) => {
            tracing::debug!("netlink: {error}; reading /proc/net");
            let found = tokio::task::spawn_blocking(move || by_tables(remote, local)).await;
            found.ok().flatten()
        }
    }
}

pub(super) fn own() -> Option<u32> {
    let own = rustix::process::geteuid().as_raw();
    // Accounts that a user namespace does not map are all shown as this one.
    let unmapped = std::fs::read_to_string("/proc/sys/kernel/overflowuid").ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65_534);
    (own != unmapped).then_some(own)
}

const HEADER_BYTES: usize = 16;
const FAMILY_AND_STATE_BYTES: usize = 4;
/// Ports, addresses, interface and cookie of `struct inet_diag_sockid`; the ports and addresses are the first 36 bytes.
const SOCKET_BYTES: usize = 48;
const ADDRESSES_BYTES: usize = 36;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const AF_NETLINK: i32 = 16;
const NETLINK_SOCK_DIAG: i32 = 4;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;

/// `None` if there is no such socket. An error if netlink cannot be used.
fn by_netlink(remote: SocketAddr, local: SocketAddr) -> io::Result<Option<u32>> {
    let family = if remote.is_ipv4() { AF_INET } else { AF_INET6 };
    // From the point of view of the socket that is looked for.
    let mut addresses = Vec::with_capacity(SOCKET_BYTES);
    addresses.extend(remote.port().to_be_bytes());
    addresses.extend(local.port().to_be_bytes());
    addresses.extend(padded(remote.ip()));
    addresses.extend(padded(local.ip()));
    let mut request = Vec::with_capacity(72);
    request.extend(72_u32.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    request.extend([0; 8]);
    request.extend([family, IPPROTO_TCP, 0, 0]);
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(&addresses);
    // Any interface, any cookie.
    request.extend([0; 4]);
    request.extend([0xff; 8]);

    let mut netlink = Socket::new(Domain::from(AF_NETLINK), Type::RAW, Some(Protocol::from(NETLINK_SOCK_DIAG)))?;
    // The kernel has answered before `send` returns.
    netlink.set_nonblocking(true)?;
    netlink.send(&request)?;
    let mut reply = [0; 1_024];
    let length = netlink.read(&mut reply)?;
    Ok(read_reply(&reply[..length], remote, local))
}

fn read_reply(reply: &[u8], remote: SocketAddr, local: SocketAddr) -> Option<u32> {
    let kind = u16::from_ne_bytes(reply.get(4..6)?.try_into().ok()?);
    // An error means that there is no such socket.
    if kind != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let at = HEADER_BYTES + FAMILY_AND_STATE_BYTES;
    // Without a connection of these addresses the kernel may answer with a socket that listens there. A socket of IPv6 that is connected to an address of
    // IPv4, as gRPC's and Java's are, is found by that and shown with its mapped addresses.
    let family = *reply.get(HEADER_BYTES)?;
    let socket = reply.get(at..at + ADDRESSES_BYTES)?;
    let (source, destination) = (end(family, &socket[..2], &socket[4..20])?, end(family, &socket[2..4], &socket[20..])?);
    let is_same = |one: SocketAddr, other: SocketAddr| (one.ip(), one.port()) == (other.ip().to_canonical(), other.port());
    if !is_same(source, remote) || !is_same(destination, local) {
        return None;
    }
    let number = |at: usize| Some(u32::from_ne_bytes(reply.get(at..at + 4)?.try_into().ok()?));
    // After the socket come a timer and two queues.
    let (uid, inode) = (number(at + SOCKET_BYTES + 12)?, number(at + SOCKET_BYTES + 16)?);
    (inode != 0).then_some(uid)
}

fn end(family: u8, port: &[u8], address: &[u8]) -> Option<SocketAddr> {
    let address: IpAddr = match family {
        AF_INET => <[u8; 4]>::try_from(address.get(..4)?).ok()?.into(),
        AF_INET6 => <[u8; 16]>::try_from(address).ok()?.into(),
        _ => return None,
    };
    Some(SocketAddr::new(address.to_canonical(), u16::from_be_bytes(port.try_into().ok()?)))
}

fn padded(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            bytes
        }
        IpAddr::V6(address) => address.octets(),
    }
}

/// Read twice: a socket that is closed while a table is written could be shown with its inode and root as its owner.
fn by_tables(remote: SocketAddr, local: SocketAddr) -> Option<u32> {
    let find = || {
        ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|path| {
            let table = std::fs::read_to_string(path).ok()?;
            table.lines().skip(1).find_map(|line| read_line(line, remote, local))
        })
    };
    find().filter(|first| find().as_ref() == Some(first)).map(|(uid, _)| uid)
}

/// User id and inode of a line, if it is the socket with these addresses and has not been closed.
fn read_line(line: &str, remote: SocketAddr, local: SocketAddr) -> Option<(u32, u64)> {
    let mut words = line.split_ascii_whitespace();
    let is_wanted = address(words.nth(1)?)? == remote && address(words.next()?)? == local;
    if !is_wanted {
        return None;
    }
    // State, two queues in one word, two of timers, retransmits; then the user, a timeout and the inode.
    let uid = words.nth(4)?.parse().ok()?;
    let inode = words.nth(1)?.parse().ok()?;
    (inode != 0).then_some((uid, inode))
}

/// `0100007F:1F90`: words of four bytes in the machine's order, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let words: Vec<u32> = (0..address.len()).step_by(8).map(|at| u32::from_str_radix(address.get(at..at + 8)?, 16).ok()).collect::<Option<_>>()?;
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    let address: IpAddr = match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok()?.into(),
        16 => <[u8; 16]>::try_from(bytes).ok()?.into(),
        _ => return None,
    };
    Some(SocketAddr::new(address.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    /// A connection of this process: the client's end, and the addresses as the server sees them.
    fn connected(listen: &str, is_mapped: bool) -> (TcpStream, TcpStream, SocketAddr, SocketAddr) {
        let listener = TcpListener::bind(listen).unwrap();
        let mut address = listener.local_addr().unwrap();
        if let (IpAddr::V4(ip), true) = (address.ip(), is_mapped) {
            address.set_ip(ip.to_ipv6_mapped().into());
        }
        let client = TcpStream::connect(address).unwrap();
        let (server, remote) = listener.accept().unwrap();
        let local = server.local_addr().unwrap();
        (client, server, remote, local)
    }

    #[test]
    fn both_ways_find_the_owner_of_an_open_connection_and_none_of_a_closed_one() {
        let own = rustix::process::geteuid().as_raw();
        for (listen, is_mapped) in [("127.0.0.1:0", false), ("[::1]:0", false), ("127.0.0.1:0", true)] {
            let (client, _server, remote, local) = connected(listen, is_mapped);
            assert_eq!(by_tables(remote, local), Some(own), "{listen}");
            if let Ok(found) = by_netlink(remote, local) {
                assert_eq!(found, Some(own), "{listen}");
            }
            drop(client);
            assert_eq!(by_tables(remote, local), None, "{listen}: closed");
            if let Ok(found) = by_netlink(remote, local) {
                assert_eq!(found, None, "{listen}: closed");
            }
        }
    }

    #[test]
    fn lines_of_closed_sockets_have_no_owner() {
        let (remote, local) = ("127.0.0.1:52694".parse().unwrap(), "127.0.0.1:39685".parse().unwrap());
        let line = |uid: u32, inode: u32| {
            format!("   5: 0100007F:CDD6 0100007F:9B05 01 00000000:00000000 00:00000000 00000000  {uid}  0 {inode} 2 000000006f56c04a 20 0 0 10 -1")
        };
        assert_eq!(read_line(&line(1_000, 464_694), remote, local), Some((1_000, 464_694)));
        assert_eq!(read_line(&line(0, 0), remote, local), None);
        assert_eq!(read_line(&line(1_000, 464_694), local, remote), None, "the server's own end");
        let mapped =
            "   5: 0000000000000000FFFF00000100007F:CDD6 0000000000000000FFFF00000100007F:9B05 01 00000000:00000000 00:00000000 00000000  7  0 9 1 0";
        assert_eq!(read_line(mapped, remote, local), Some((7, 9)));
    }
}

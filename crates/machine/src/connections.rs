//! The TCP connections of a process, as the kernel tells (sock_diag(7)) and its descriptor tables say (proc_pid_fd(5)). The process is not asked, and
//! need not run.

use corelane_os::netlink::{Attributes, Request, word};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;
use std::{fs, io};

/// `struct inet_diag_msg`, and its fields.
const HEAD_BYTES: usize = 72;
const STATE: usize = 1;
const PORTS: usize = 4;
const ADDRESSES: [usize; 2] = [8, 24];
const RECEIVE_QUEUE: usize = 56;
const SEND_QUEUE: usize = 60;
const INODE: usize = 68;

/// `struct tcp_info`: milliseconds since data was sent and was received last.
const LAST_DATA: [usize; 2] = [44, 52];

/// `struct inet_diag_req_v2`.
const REQUEST_BYTES: usize = 56;
/// linux/inet_diag.h: the attribute with `struct tcp_info`.
const DIAG_INFO: u16 = 2;
/// linux/sock_diag.h.
const BY_FAMILY: u16 = 20;

/// What a state is called (net/tcp_states.h), from 1 on.
const STATES: [&str; 12] = [
    "ESTABLISHED",
    "SYN_SENT",
    "SYN_RCVD",
    "FIN_WAIT_1",
    "FIN_WAIT_2",
    "TIME_WAIT",
    "CLOSED",
    "CLOSE_WAIT",
    "LAST_ACK",
    "LISTEN",
    "CLOSING",
    "NEW_SYN_RCVD",
];
/// Those of connections that a process has: neither listeners, nor what only the kernel has left.
const LISTEN: u8 = 10;
const TIME_WAIT: u8 = 6;

/// The most connections that are told of one process.
pub const CONNECTIONS_MAX: usize = 1 << 20;

/// A TCP connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its end in this machine.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Its state, by the kernel's name.
    pub state: &'static str,
    /// Bytes that have come and were not taken by the process.
    pub receive_queue: u32,
    /// Bytes that the process has sent and its peer has not confirmed.
    pub send_queue: u32,
    /// How long nothing was sent or received.
    pub idle: Option<Duration>,
    /// The name of the one thread in whose descriptor table it is; none if several threads have it.
    pub thread: Option<String>,
}

/// The TCP connections of a process. Those of another network namespace than the caller's are not seen: [`shares_network`].
///
/// # Errors
/// What the system says: the process has ended, or is somebody else's.
pub fn connections(pid: u32) -> io::Result<Vec<Connection>> {
    let mut owners = owners(pid)?;
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        request(family).ask_each(libc::NETLINK_SOCK_DIAG, |body| {
            let inode = word(body, INODE).ok_or_else(malformed)?;
            if let Some(thread) = owners.get_mut(&inode) {
                found.push(connection(body, family, thread.take())?);
            }
            if found.len() > CONNECTIONS_MAX { Err(io::Error::other("more connections than can be told")) } else { Ok(()) }
        })?;
    }
    Ok(found)
}

/// Whether the process has the caller's network namespace.
///
/// # Errors
/// What the system says of the process.
pub fn shares_network(pid: u32) -> io::Result<bool> {
    Ok(fs::metadata("/proc/thread-self/ns/net")?.ino() == fs::metadata(format!("/proc/{pid}/ns/net"))?.ino())
}

/// All sockets that are connections, with their times.
fn request(family: i32) -> Request {
    let mut head = [0; REQUEST_BYTES];
    let states = !(1_u32 << LISTEN | 1 << TIME_WAIT);
    head[..3].copy_from_slice(&[family as u8, libc::IPPROTO_TCP as u8, 1 << (DIAG_INFO - 1)]);
    head[4..8].copy_from_slice(&states.to_ne_bytes());
    Request::list(BY_FAMILY, &head)
}

fn connection(body: &[u8], family: i32, thread: Option<String>) -> io::Result<Connection> {
    let number = |at| word(body, at).ok_or_else(malformed);
    let port = |end: usize| body.get(PORTS + 2 * end..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
    let end = |end: usize| Some(SocketAddr::new(address(body.get(ADDRESSES[end]..)?, family)?, port(end)?));
    let info = Attributes::behind(body, HEAD_BYTES)?;
    let idle = info.get(DIAG_INFO).and_then(|info| Some(word(info, LAST_DATA[0])?.min(word(info, LAST_DATA[1])?)));
    let state = usize::from(body[STATE]).checked_sub(1).and_then(|at| STATES.get(at));
    Ok(Connection {
        local: end(0).ok_or_else(malformed)?,
        remote: end(1).ok_or_else(malformed)?,
        state: state.copied().unwrap_or("UNKNOWN"),
        receive_queue: number(RECEIVE_QUEUE)?,
        send_queue: number(SEND_QUEUE)?,
        idle: idle.map(|milliseconds| Duration::from_millis(milliseconds.into())),
        thread,
    })
}

/// IPv4 that is mapped into IPv6 is what it is on the wire.
fn address(bytes: &[u8], family: i32) -> Option<IpAddr> {
    match family {
        libc::AF_INET => bytes.first_chunk::<4>().map(|bytes| Ipv4Addr::from(*bytes).into()),
        _ => bytes.first_chunk::<16>().map(|bytes| IpAddr::from(Ipv6Addr::from(*bytes)).to_canonical()),
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "sock_diag: an answer of the kernel lacks fields")
}

/// The sockets of a process by their inodes, with the name of the one thread that has each.
fn owners(pid: u32) -> io::Result<HashMap<u32, Option<String>>> {
    let mut owners = HashMap::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?.path();
        // A thread may end meanwhile.
        let (Ok(name), Ok(table)) = (fs::read_to_string(task.join("comm")), fs::read_dir(task.join("fd"))) else { continue };
        for descriptor in table.flatten() {
            if let Some(inode) = fs::read_link(descriptor.path()).ok().as_deref().and_then(|to| socket(to.to_str()?)) {
                let mine = Some(name.trim_end().to_owned());
                owners.entry(inode).and_modify(|owner| *owner = None).or_insert(mine);
            }
        }
    }
    Ok(owners)
}

/// The inode of `socket:[4026531840]`.
fn socket(link: &str) -> Option<u32> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_is_told_with_its_queues() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(host) else {
                assert!(host.starts_with('['), "there is IPv4");
                continue;
            };
            let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (theirs, _) = listener.accept().unwrap();
            ours.write_all(b"seven..").unwrap();
            let (local, remote) = (theirs.local_addr().unwrap(), theirs.peer_addr().unwrap());
            let all = connections(std::process::id()).unwrap();
            let of = |local, remote| all.iter().find(|one| (one.local, one.remote) == (local, remote)).unwrap();
            assert_eq!((of(local, remote).receive_queue, of(local, remote).state), (7, "ESTABLISHED"));
            assert!(of(remote, local).idle.is_some_and(|idle| idle < Duration::from_secs(600)));
            assert!(all.iter().all(|one| one.local != listener.local_addr().unwrap() || one.remote.port() != 0), "no listener");
        }
    }

    #[test]
    fn mapped_addresses_are_what_they_are_and_links_are_read() {
        let mapped = "::ffff:192.0.2.1".parse::<Ipv6Addr>().unwrap().octets();
        assert_eq!(address(&mapped, libc::AF_INET6), Some("192.0.2.1".parse().unwrap()));
        assert_eq!(address(&[1, 2, 3], libc::AF_INET), None);
        assert_eq!([socket("socket:[77]"), socket("pipe:[77]"), socket("socket:[x]")], [Some(77), None, None]);
    }

    #[test]
    fn nobody_s_connections_are_an_error() {
        assert_eq!(connections(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(shares_network(std::process::id()).unwrap());
    }
}

//! Who listens at an address: the kernel's list of sockets (sock_diag(7)).

use corelane_os::errno;
use corelane_os::netlink::{Request, word};
use corelane_rss::Transport;
use corelane_seam::{Fault, Reason};
use std::net::SocketAddr;

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `struct inet_diag_req_v2` begins with 8 bytes of what is asked, then comes the address.
const REQUEST_BYTES: usize = 8 + ID_BYTES;
const ID_BYTES: usize = 48;
/// Where things stand in `struct inet_diag_msg`.
const ID: usize = 4;
const SOURCE: usize = ID + 4;
const COOKIE: usize = ID + 40;
const USER: usize = ID + ID_BYTES + 12;
const SOCKET_BYTES: usize = USER + 8;
/// Listens; has no peer (the numbers of the kernel's `TCP_LISTEN` and `TCP_CLOSE`).
const STATE_LISTEN: u32 = 10;
const STATE_CLOSE: u32 = 7;

/// A socket that takes connections or datagrams at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The number that no other socket has, as long as the machine runs (SO_COOKIE, socket(7)).
    pub cookie: u64,
    /// The user who made it.
    pub user: u32,
    /// By which number /proc names it, as in `socket:[7]` (proc_pid_fd(5)).
    pub inode: u32,
}

/// All sockets of this network namespace that listen at exactly this address and port, or, for datagrams, are bound there and
/// have no peer. Every user may ask.
///
/// # Errors
/// `Unsupported` or `NotFound` where the kernel has no such list; what else the system says.
pub fn holders(transport: Transport, address: SocketAddr) -> Result<Vec<Holder>, Fault> {
    let answer = Request::list(BY_FAMILY, &request(transport, address)).ask(libc::NETLINK_SOCK_DIAG);
    let bodies = answer.map_err(|error| errno::fault(errno::of(&error)))?;
    Ok(bodies.iter().filter_map(|body| holder(body, address)).collect())
}

fn request(transport: Transport, address: SocketAddr) -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    let mut put = |at: usize, bytes: &[u8]| request[at..at + bytes.len()].copy_from_slice(bytes);
    let (protocol, state) = match transport {
        Transport::Tcp => (libc::IPPROTO_TCP, STATE_LISTEN),
        Transport::Udp => (libc::IPPROTO_UDP, STATE_CLOSE),
    };
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    put(0, &[family as u8, protocol as u8]);
    put(4, &(1_u32 << state).to_ne_bytes());
    put(8, &address.port().to_be_bytes());
    assert!(address.port() != 0, "port 0 would ask for the sockets of all ports");
    request
}

/// The socket that a message tells of, if it is at that address.
fn holder(body: &[u8], address: SocketAddr) -> Option<Holder> {
    let body = body.get(..SOCKET_BYTES)?;
    let (port, source) = (&body[ID..ID + 2], &body[SOURCE..SOURCE + 16]);
    let here = match address {
        SocketAddr::V4(address) => source[..4] == address.ip().octets(),
        SocketAddr::V6(address) => source == address.ip().octets(),
    };
    let cookie = u64::from(word(body, COOKIE)?) | u64::from(word(body, COOKIE + 4)?) << 32;
    (here && port == address.port().to_be_bytes()).then_some(Holder {
        cookie,
        user: word(body, USER)?,
        inode: word(body, USER + 4)?,
    })
}

/// Finds a socket of its own.
///
/// # Errors
/// As [`holders`]; `NotFound` if it is not in the list.
pub fn probe() -> Result<(), Fault> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").map_err(|error| errno::fault(errno::of(&error)))?;
    let address = socket.local_addr().map_err(|error| errno::fault(errno::of(&error)))?;
    match holders(Transport::Udp, address)?.as_slice() {
        [_] => Ok(()),
        _ => Err(Fault::of(Reason::NotFound)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_os::{sockets, testing};
    use corelane_seam::StreamOptions;
    use std::net::UdpSocket;
    use std::os::fd::{AsFd, AsRawFd};

    #[test]
    fn those_that_listen_at_an_address_are_found_and_no_others() {
        let (first, address) = testing::listening("127.0.0.1:0", StreamOptions::default());
        let (second, _) = testing::listening(&address.to_string(), StreamOptions::default());
        let _elsewhere = testing::listening(&format!("127.0.0.2:{}", address.port()), StreamOptions::default());
        let _connection = testing::connected(&address);
        let _datagrams = UdpSocket::bind(&address).unwrap();
        let mut found: Vec<u64> =
            holders(Transport::Tcp, address.inet().unwrap()).unwrap().iter().map(|holder| holder.cookie).collect();
        let mut expected = [first, second].map(|socket| sockets::cookie(socket.as_fd()).unwrap());
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    #[test]
    fn datagram_sockets_are_found_in_both_families() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let socket = UdpSocket::bind(address).unwrap();
            let found = holders(Transport::Udp, socket.local_addr().unwrap()).unwrap();
            // SAFETY: the call takes no memory.
            let user = unsafe { libc::geteuid() };
            let link = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
            let digits = |letter: char| !letter.is_ascii_digit();
            let inode = link.to_str().unwrap().trim_matches(digits).parse().unwrap();
            assert_eq!(found, [Holder { cookie: sockets::cookie(socket.as_fd()).unwrap(), user, inode }]);
        }
        assert_eq!(probe(), Ok(()));
    }

    #[test]
    fn answers_that_are_cut_tell_of_nobody() {
        let address = "127.0.0.1:80".parse().unwrap();
        let mut body = [0_u8; SOCKET_BYTES];
        body[SOURCE..][..4].copy_from_slice(&[127, 0, 0, 1]);
        body[ID + 1] = 80;
        body[COOKIE] = 9;
        body[SOCKET_BYTES - 4] = 7;
        assert_eq!(holder(&body, address), Some(Holder { cookie: 9, user: 0, inode: 7 }));
        for end in 0..body.len() {
            assert_eq!(holder(&body[..end], address), None, "{end}");
        }
    }
}

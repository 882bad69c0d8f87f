//! Who listens at an address: the kernel's list of sockets (sock_diag(7)).

use crate::claim::Transport;
use crate::errno::{self, checked, uninterrupted};
use corelane_seam::{Fault, Reason};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Bytes of one answer; the kernel fills no larger place (netlink(7)).
const ANSWER_BYTES: usize = 32 << 10;
/// Messages to and from netlink begin with a header and at multiples of 4 bytes.
const HEADER_BYTES: usize = 16;
/// `struct inet_diag_req_v2` begins with 8 bytes of what is asked, then comes the address.
const REQUEST_BYTES: usize = HEADER_BYTES + 8 + ID_BYTES;
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
}

/// All sockets of this network namespace that listen at exactly this address and port, or, for datagrams, are bound there and
/// have no peer. Every user may ask.
///
/// # Errors
/// `Unsupported` or `NotFound` where the kernel has no such list; what else the system says.
pub fn holders(transport: Transport, address: SocketAddr) -> Result<Vec<Holder>, Fault> {
    let socket = ask(&request(transport, address))?;
    let mut holders = Vec::new();
    let mut answer = vec![0; ANSWER_BYTES];
    loop {
        // SAFETY: the answer has so many writable bytes.
        let received = uninterrupted(|| unsafe {
            libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), libc::MSG_TRUNC)
        });
        let bytes = received.map_err(errno::fault)?;
        let messages = answer.get(..bytes).ok_or(Fault::of(Reason::TooLarge))?;
        if read(messages, address, &mut holders)? {
            return Ok(holders);
        }
    }
}

fn request(transport: Transport, address: SocketAddr) -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    let mut put = |at: usize, bytes: &[u8]| request[at..at + bytes.len()].copy_from_slice(bytes);
    let (protocol, state) = match transport {
        Transport::Tcp => (libc::IPPROTO_TCP, STATE_LISTEN),
        Transport::Udp => (libc::IPPROTO_UDP, STATE_CLOSE),
    };
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    put(0, &(REQUEST_BYTES as u32).to_ne_bytes());
    put(4, &20_u16.to_ne_bytes()); // SOCK_DIAG_BY_FAMILY
    put(6, &((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    put(HEADER_BYTES, &[family as u8, protocol as u8]);
    put(HEADER_BYTES + 4, &(1_u32 << state).to_ne_bytes());
    put(HEADER_BYTES + 8, &address.port().to_be_bytes());
    request
}

fn ask(request: &[u8]) -> Result<OwnedFd, Fault> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes no memory.
    let number = checked(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG) } as isize);
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    let socket = unsafe { OwnedFd::from_raw_fd(number.map_err(errno::fault)? as i32) };
    // SAFETY: the request has so many readable bytes. Unbound, the socket sends to the kernel.
    checked(unsafe { libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) }).map_err(errno::fault)?;
    Ok(socket)
}

/// Reads the messages of one answer; true if the last one was among them.
fn read(mut messages: &[u8], address: SocketAddr, holders: &mut Vec<Holder>) -> Result<bool, Fault> {
    while let Some(length) = word(messages, 0) {
        let length = (length as usize).max(HEADER_BYTES);
        let body = messages.get(HEADER_BYTES..length).ok_or(Fault::of(Reason::Other))?;
        match i32::from(messages[4]) | i32::from(messages[5]) << 8 {
            kind if kind == libc::NLMSG_DONE => return Ok(true),
            kind if kind == libc::NLMSG_ERROR => return Err(errno::fault(word(body, 0).unwrap_or(0).wrapping_neg() as i32)),
            _ => holders.extend(holder(body, address)),
        }
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
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
    (here && port == address.port().to_be_bytes()).then_some(Holder { cookie, user: word(body, USER)? })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
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
    use crate::{sockets, testing};
    use corelane_seam::StreamOptions;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn those_that_listen_at_an_address_are_found_and_no_others() {
        let (first, address) = testing::listening("127.0.0.1:0", StreamOptions::default());
        let (second, _) = testing::listening(&address.to_string(), StreamOptions::default());
        let _elsewhere = testing::listening(&format!("127.0.0.2:{}", address.port()), StreamOptions::default());
        let _connection = testing::connected(address);
        let _datagrams = UdpSocket::bind(address).unwrap();
        let mut found: Vec<u64> = holders(Transport::Tcp, address).unwrap().iter().map(|holder| holder.cookie).collect();
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
            assert_eq!(found, [Holder { cookie: sockets::cookie(socket.as_fd()).unwrap(), user }]);
        }
        assert_eq!(probe(), Ok(()));
    }

    #[test]
    fn answers_that_are_cut_are_read_as_far_as_they_go() {
        let address = "127.0.0.1:80".parse().unwrap();
        let mut message = [0_u8; HEADER_BYTES + SOCKET_BYTES];
        message[0] = message.len() as u8;
        message[4] = 20;
        message[HEADER_BYTES + SOURCE..][..4].copy_from_slice(&[127, 0, 0, 1]);
        message[HEADER_BYTES + ID + 1] = 80;
        message[HEADER_BYTES + COOKIE] = 9;
        let mut holders = Vec::new();
        assert_eq!(read(&message, address, &mut holders), Ok(false));
        assert_eq!(holders, [Holder { cookie: 9, user: 0 }]);
        for end in 4..message.len() {
            assert!(read(&message[..end], address, &mut holders).is_err(), "{end}");
        }
        assert_eq!(holders.len(), 1);
    }
}

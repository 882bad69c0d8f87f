//! Sockets with shared ports, and clients from many addresses.

use corelane_rss::{FlowHasher, Protocol, Table, Transport, Tuple};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A socket of that kind, nothing done with it.
pub fn socket(transport: Transport, address: SocketAddr) -> OwnedFd {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = match transport {
        Transport::Tcp => libc::SOCK_STREAM,
        Transport::Udp => libc::SOCK_DGRAM,
    };
    // SAFETY: the call takes no memory, and makes a descriptor that nobody else knows.
    unsafe {
        let number = libc::socket(family, kind | libc::SOCK_CLOEXEC, 0);
        assert!(number >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(number)
    }
}

/// Sets an option of so many bytes.
pub fn set(socket: BorrowedFd, level: i32, option: i32, value: &[u8]) {
    // SAFETY: the value has so many readable bytes.
    let answer =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), value.len() as libc::socklen_t) };
    assert_eq!(answer, 0, "option {option}: {}", std::io::Error::last_os_error());
}

/// Binds or connects.
pub fn with_address(socket: BorrowedFd, address: SocketAddr, call: unsafe extern "C" fn(i32, *const libc::sockaddr, u32) -> i32) {
    let mut raw = [0_u8; size_of::<libc::sockaddr_in6>()];
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u16;
    raw[..2].copy_from_slice(&family.to_ne_bytes());
    raw[2..4].copy_from_slice(&address.port().to_be_bytes());
    let bytes = match address {
        SocketAddr::V4(address) => {
            raw[4..8].copy_from_slice(&address.ip().octets());
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(address) => {
            raw[8..24].copy_from_slice(&address.ip().octets());
            raw.len()
        }
    };
    // SAFETY: the address has so many readable bytes.
    let answer = unsafe { call(socket.as_raw_fd(), raw.as_ptr().cast(), bytes as u32) };
    assert_eq!(answer, 0, "{address}: {}", std::io::Error::last_os_error());
}

/// What a lane has: its share of a port.
#[derive(Debug)]
pub enum Shared {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

impl Shared {
    /// Listening, or bound, with its port shared.
    pub fn new(transport: Transport, address: SocketAddr) -> Self {
        let socket = socket(transport, address);
        set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, &1_i32.to_ne_bytes());
        with_address(socket.as_fd(), address, libc::bind);
        match transport {
            Transport::Tcp => {
                // SAFETY: the call takes no memory.
                assert_eq!(unsafe { libc::listen(socket.as_raw_fd(), 1024) }, 0);
                let listener = TcpListener::from(socket);
                listener.set_nonblocking(true).unwrap();
                Self::Tcp(listener)
            }
            Transport::Udp => {
                let socket = UdpSocket::from(socket);
                socket.set_nonblocking(true).unwrap();
                Self::Udp(socket)
            }
        }
    }

    pub fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }

    pub fn address(&self) -> SocketAddr {
        match self {
            Self::Tcp(listener) => listener.local_addr().unwrap(),
            Self::Udp(socket) => socket.local_addr().unwrap(),
        }
    }

    /// The next flow that has arrived, with what its server sees of it.
    pub fn next(&self) -> Option<Arrived> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().ok()?;
                Some(Arrived { peer, local: stream.local_addr().unwrap(), stream: Some(stream) })
            }
            Self::Udp(socket) => {
                let (_, peer) = socket.recv_from(&mut [0; 8_192]).ok()?;
                Some(Arrived { peer, local: socket.local_addr().unwrap(), stream: None })
            }
        }
    }
}

impl AsFd for Shared {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
        }
    }
}

pub struct Arrived {
    pub peer: SocketAddr,
    pub local: SocketAddr,
    pub stream: Option<TcpStream>,
}

impl Arrived {
    /// The lane where it belongs; none if it is not hashed. `served` is the address that was asked, if the socket has none.
    pub fn lane(&self, hasher: &FlowHasher, table: &Table, served: SocketAddr) -> Option<usize> {
        let protocol = if self.stream.is_some() { Protocol::TCP } else { Protocol::UDP };
        let local = if self.local.ip().is_unspecified() { served } else { self.local };
        let tuple = Tuple::new(self.peer, local, protocol).unwrap();
        hasher.tuple(&tuple).map(|hashed| table.lane_of(hashed.flow))
    }
}

/// A client that is bound, and not connected yet.
pub fn client(transport: Transport, from: SocketAddr) -> OwnedFd {
    let socket = socket(transport, from);
    let seconds = libc::timeval { tv_sec: PATIENCE.as_secs() as i64, tv_usec: 0 };
    let halves = [seconds.tv_sec, seconds.tv_usec].map(i64::to_ne_bytes);
    set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_SNDTIMEO, halves.as_flattened());
    with_address(socket.as_fd(), from, libc::bind);
    socket
}

/// Connects the client, and sends `bytes`. Of a datagram socket that is one datagram.
pub fn begin(client: &OwnedFd, to: SocketAddr, bytes: &[u8]) {
    with_address(client.as_fd(), to, libc::connect);
    send(client, bytes);
}

pub fn send(client: &OwnedFd, bytes: &[u8]) {
    // SAFETY: so many readable bytes are given.
    let sent = unsafe { libc::send(client.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
    assert_eq!(sent, bytes.len() as isize, "{}", std::io::Error::last_os_error());
}

/// Waits until one of these is readable. False after [`PATIENCE`].
pub fn wait<'a>(sockets: impl Iterator<Item = BorrowedFd<'a>>) -> bool {
    let polled = |socket: BorrowedFd| libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut polled: Vec<_> = sockets.map(polled).collect();
    // SAFETY: so many entries are given.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, PATIENCE.as_millis() as i32) > 0 }
}

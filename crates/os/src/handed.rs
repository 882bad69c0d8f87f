//! Sockets that a service manager made before it started this process, and hands over (sd_listen_fds(3)).
//!
//! The manager keeps them open: who connects while no process serves waits in them. So they are used as they are, never shut down, and left to the
//! next process.

use crate::errno::fault_of;
use crate::sockets;
use corelane_rss::Transport;
use corelane_seam::{Address, Reason};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{SocketType, sockopt};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Sockets that are taken at the most: more are no configuration that anybody wrote.
pub const SOCKETS_MAX: usize = 64;

/// The number of the first (SD_LISTEN_FDS_START).
const FIRST: i32 = 3;

/// A socket that was handed over. A clone is the same one.
#[derive(Clone, Debug)]
pub struct Handed {
    /// What the manager calls it (FileDescriptorName= of systemd.socket(5)); `unknown` if it gave no name.
    pub name: String,
    /// What it is for.
    pub transport: Transport,
    /// Where it is bound.
    pub address: Address,
    socket: Arc<OwnedFd>,
}

impl Handed {
    /// The number by which lanes know it, which copy the table of descriptors.
    pub fn number(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    fn new(name: String, socket: OwnedFd) -> Result<Self, String> {
        let blamed = |why: String| format!("the socket {name:?} that was handed over cannot be served: {why}");
        let (transport, address) = facts(socket.as_fd()).map_err(blamed)?;
        let flags = fcntl_getfl(&socket).and_then(|flags| fcntl_setfl(&socket, flags | OFlags::NONBLOCK));
        flags.map_err(|error| blamed(error.to_string()))?;
        Ok(Self { name, transport, address, socket: Arc::new(socket) })
    }
}

/// What a socket is for, and where it is bound.
///
/// # Errors
/// Why it cannot be served, in words.
pub fn facts(socket: BorrowedFd) -> Result<(Transport, Address), String> {
    let system = |error| match error {
        Errno::NOTSOCK => "it is no socket: name it ListenStream= or ListenDatagram=".to_owned(),
        error => fault_of(error).to_string(),
    };
    let kind = sockopt::socket_type(socket).map_err(system)?;
    let address = sockets::local_address(socket).map_err(|fault| match fault.reason {
        Reason::Unsupported => "it is of a family that is not served: hand over sockets of IPv4, IPv6 or Unix".to_owned(),
        _ => fault.to_string(),
    })?;
    let transport = match kind {
        SocketType::STREAM if sockopt::socket_acceptconn(socket).map_err(system)? => Transport::Tcp,
        SocketType::STREAM if sockets::peer_address(socket).is_ok() => {
            return Err("it is a connection: leave out Accept=yes".to_owned());
        }
        SocketType::STREAM => return Err("nobody listens at it: have it listen before it is handed over (listen(2))".to_owned()),
        SocketType::DGRAM => Transport::Udp,
        _ => return Err("it is neither for connections nor for datagrams: name it ListenStream= or ListenDatagram=".to_owned()),
    };
    Ok((transport, address))
}

/// Takes what was handed over; nothing the second time. To be called before descriptors are opened by others under numbers that were not handed over.
///
/// # Errors
/// What of it cannot be served, and the remedy.
pub fn take() -> Result<Vec<Handed>, String> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let system = |error: io::Error| format!("what was handed over cannot be taken (LISTEN_PID, LISTEN_FDS): {error}");
    let count = std::env::var("LISTEN_FDS").ok().and_then(|count| count.parse::<usize>().ok());
    if count.is_some_and(|count| count > SOCKETS_MAX) {
        return Err(format!("more than {SOCKETS_MAX} sockets were handed over (LISTEN_FDS): hand over fewer"));
    }
    let is_ours = std::env::var("LISTEN_PID").is_ok_and(|pid| pid == std::process::id().to_string());
    if let Some(closed) = (FIRST..FIRST + count.unwrap_or(0) as i32).find(|number| is_ours && !is_open(*number)) {
        return Err(format!(
            "descriptor {closed} was to be handed over and is not open (LISTEN_FDS): hand over as many as there are"
        ));
    }
    let numbers = sd_notify::listen_fds_with_names().map_err(system)?;
    // SAFETY: each number is open, as was just found out; the manager opened it for this process, where it is taken once.
    let own = |(number, name)| Handed::new(name, unsafe { OwnedFd::from_raw_fd(number) });
    numbers.map(own).collect()
}

fn is_open(number: i32) -> bool {
    // SAFETY: the call takes a number, which need not be open, and touches no memory.
    unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixListener;

    #[test]
    fn what_can_be_served_is_known_by_kind_and_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let connection = TcpStream::connect(at).unwrap();
        let handed = Handed::new("web".to_owned(), listener.into()).unwrap();
        assert_eq!((handed.transport, &handed.address), (Transport::Tcp, &at.into()));
        assert!(fcntl_getfl(&*handed.socket).unwrap().contains(OFlags::NONBLOCK));
        let why = Handed::new("one".to_owned(), connection.into()).unwrap_err();
        assert!(why.contains("\"one\"") && why.contains("Accept=yes"), "{why}");
        let datagrams = UdpSocket::bind("[::1]:0").unwrap();
        let at = datagrams.local_addr().unwrap();
        let handed = Handed::new("dns".to_owned(), datagrams.into()).unwrap();
        assert_eq!((handed.transport, handed.address), (Transport::Udp, at.into()));
    }

    #[test]
    fn what_cannot_be_served_is_refused_with_what_it_is() {
        use rustix::net::{AddressFamily as Family, SocketType as Kind, socket};
        let made = |family, kind| socket(family, kind, None).unwrap();
        let cases = [
            (std::fs::File::open("/dev/null").unwrap().into(), "it is no socket"),
            (std::io::pipe().unwrap().0.into(), "it is no socket"),
            (made(Family::INET, Kind::STREAM), "nobody listens at it"),
            (made(Family::UNIX, Kind::SEQPACKET), "neither for connections nor for datagrams"),
            (made(Family::NETLINK, Kind::DGRAM), "of a family that is not served"),
            (std::os::unix::net::UnixStream::pair().unwrap().0.into(), "it is a connection"),
        ];
        for (socket, words) in cases {
            let why = Handed::new("web".to_owned(), socket).unwrap_err();
            assert!(
                why.starts_with("the socket \"web\" that was handed over cannot be served: ") && why.contains(words),
                "{why}"
            );
        }
    }

    #[test]
    fn a_unix_name_is_an_address() {
        let path = std::env::temp_dir().join(format!("corelane-handed-{}", std::process::id()));
        let handed = Handed::new("local".to_owned(), UnixListener::bind(&path).unwrap().into()).unwrap();
        assert!(handed.address.unix().is_some());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn nothing_is_taken_where_nothing_was_handed_over() {
        assert!(take().unwrap().is_empty());
    }
}

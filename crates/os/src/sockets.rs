//! Making sockets, and the few calls on them that move no data (socket(7), tcp(7), ip(7), ipv6(7), udp(7)).

use crate::addresses::RawAddress;
use crate::errno::{self, checked, fault, uninterrupted};
use corelane_seam::{Bind, Fault, Listen, Reason, StreamOptions};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const FLAGS: libc::c_int = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
/// The longest silence that TCP_KEEPIDLE takes, in seconds (`MAX_TCP_KEEPIDLE` of Linux).
const KEEP_IDLE_MAX: u32 = 32_767;
/// How many connections that broke before they were accepted are skipped by one call.
const BROKEN_MAX: usize = 64;

/// Makes a listening socket. Accepted sockets inherit the settings of `listen.stream` from it, which saves the calls
/// that would set them on each.
pub fn listen(listen: &Listen) -> Result<OwnedFd, Fault> {
    let socket = new(listen.address, libc::SOCK_STREAM, listen.v6_only)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    share_port(&socket, listen.share_port)?;
    stream_options(&socket, &listen.stream)?;
    name(&socket, listen.address)?;
    let backlog = clamped(listen.backlog);
    // SAFETY: the call takes no memory.
    checked(unsafe { libc::listen(socket.as_raw_fd(), backlog) } as isize).map_err(fault)?;
    Ok(socket)
}

/// Makes a datagram socket. One that is bound to the wildcard address tells the address that each datagram was sent to,
/// so that answers can come from there; with one peer there is one address. `trains` asks for arrivals in trains (UDP_GRO).
pub fn bind(bind: &Bind, trains: bool) -> Result<OwnedFd, Fault> {
    let socket = new(bind.address, libc::SOCK_DGRAM, bind.v6_only)?;
    share_port(&socket, bind.share_port)?;
    buffers(&socket, bind.send_buffer_bytes, bind.receive_buffer_bytes)?;
    if bind.address.ip().is_unspecified() && bind.peer.is_none() {
        match bind.address {
            SocketAddr::V4(_) => set(&socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?,
            // Mapped IPv4 addresses come this way, too.
            SocketAddr::V6(_) => set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?,
        }
    }
    if trains {
        set(&socket, libc::SOL_UDP, libc::UDP_GRO, 1)?;
    }
    name(&socket, bind.address)?;
    if let Some(peer) = bind.peer {
        connect(socket.as_fd(), peer)?;
    }
    Ok(socket)
}

/// Makes a stream socket that can be connected to `to`.
pub fn connecting(to: SocketAddr, from: Option<SocketAddr>, options: &StreamOptions) -> Result<OwnedFd, Fault> {
    let socket = new(to, libc::SOCK_STREAM, false)?;
    stream_options(&socket, options)?;
    if let Some(from) = from {
        if from.port() == 0 {
            // The port is chosen at connect(2), where it must be free for that peer only.
            set(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        } else {
            set(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        }
        name(&socket, from)?;
    }
    Ok(socket)
}

/// Begins to connect; true if it is done, false if the socket becomes writable at the end (connect(2)).
pub fn connect(socket: BorrowedFd, to: SocketAddr) -> Result<bool, Fault> {
    let (raw, bytes) = RawAddress::of(to);
    // SAFETY: `raw` has `bytes` readable bytes.
    match checked(unsafe { libc::connect(socket.as_raw_fd(), raw.as_ptr(), bytes) } as isize) {
        Ok(_) => Ok(true),
        // Interrupted, it goes on by itself (connect(2)).
        Err(libc::EINPROGRESS | libc::EINTR) => Ok(false),
        Err(number) => Err(fault(number)),
    }
}

/// How a connect ended, or what else broke the socket (SO_ERROR); asking clears it.
pub fn pending_error(socket: BorrowedFd) -> Result<(), Fault> {
    match get(socket, libc::SOL_SOCKET, libc::SO_ERROR)? {
        0 => Ok(()),
        number => Err(fault(number)),
    }
}

/// Accepts one connection; none when no more wait. Connections that broke while they waited are skipped.
pub fn accept(listener: BorrowedFd) -> Result<Option<(OwnedFd, SocketAddr)>, Fault> {
    for _ in 0..BROKEN_MAX {
        let mut raw = RawAddress::empty();
        let mut bytes = RawAddress::BYTES;
        // SAFETY: `raw` has `bytes` writable bytes, and `bytes` is writable itself.
        let answer = unsafe { libc::accept4(listener.as_raw_fd(), raw.as_mut_ptr(), &mut bytes, FLAGS) };
        match checked(answer as isize) {
            Ok(number) => {
                // SAFETY: the call has just made this descriptor, and nobody else knows it.
                let socket = unsafe { OwnedFd::from_raw_fd(number as i32) };
                // A connection without an address is one that is gone again.
                if let Some(peer) = raw.decode(bytes) {
                    return Ok(Some((socket, peer)));
                }
            }
            Err(number) if errno::would_block(number) => return Ok(None),
            Err(number) if !is_of_one_connection(number) => return Err(fault(number)),
            Err(_) => {}
        }
    }
    Err(fault(libc::ECONNABORTED))
}

/// Whether an error of accept4 concerns the connection that was to be accepted, and not the listener (accept(2)).
pub fn is_of_one_connection(number: i32) -> bool {
    errno::is_from_network(number) || matches!(number, libc::ECONNABORTED | libc::EINTR | libc::EPERM | libc::ETIMEDOUT)
}

/// The socket's own address.
pub fn local_address(socket: BorrowedFd) -> Result<SocketAddr, Fault> {
    let mut raw = RawAddress::empty();
    let mut bytes = RawAddress::BYTES;
    // SAFETY: `raw` has `bytes` writable bytes, and `bytes` is writable itself.
    checked(unsafe { libc::getsockname(socket.as_raw_fd(), raw.as_mut_ptr(), &mut bytes) } as isize).map_err(fault)?;
    raw.decode(bytes).ok_or(fault(libc::EAFNOSUPPORT))
}

/// The address of the other end.
pub fn peer_address(socket: BorrowedFd) -> Result<SocketAddr, Fault> {
    let mut raw = RawAddress::empty();
    let mut bytes = RawAddress::BYTES;
    // SAFETY: `raw` has `bytes` writable bytes, and `bytes` is writable itself.
    checked(unsafe { libc::getpeername(socket.as_raw_fd(), raw.as_mut_ptr(), &mut bytes) } as isize).map_err(fault)?;
    raw.decode(bytes).ok_or(fault(libc::EAFNOSUPPORT))
}

/// Bytes that have arrived and were not received yet (SIOCINQ, tcp(7)); 0 if not known.
pub fn readable_bytes(socket: BorrowedFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SIOCINQ is another name of the same request.
    // SAFETY: the request writes one int, and `bytes` is one.
    match checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &mut bytes) } as isize) {
        Ok(_) => usize::try_from(bytes).unwrap_or(0),
        Err(_) => 0,
    }
}

/// Packets dropped at a socket since it was made: the word `drops` of what it says of its memory (SO_MEMINFO, Linux 4.12). None where the
/// system does not tell.
pub fn dropped(socket: BorrowedFd) -> Option<u32> {
    const SO_MEMINFO: i32 = 55;
    const DROPS: usize = 8;
    let mut words = [0_u32; DROPS + 1];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: `words` has `length` writable bytes, and `length` is writable itself; the call writes no more than that.
    let answer = unsafe {
        let value = words.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_MEMINFO, value, &mut length)
    };
    let is_whole = answer == 0 && length as usize == size_of_val(&words);
    is_whole.then_some(words[DROPS])
}

/// Ends this side (shutdown(2)). On a connection that is broken already there is nothing left to end.
pub fn finish(socket: BorrowedFd) {
    // SAFETY: the call takes no memory.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) };
}

/// Makes the coming close break the connection off (SO_LINGER with zero seconds, socket(7)).
pub fn reset_on_close(socket: BorrowedFd) -> Result<(), Fault> {
    let [on, seconds] = [1i32, 0i32].map(i32::to_ne_bytes);
    let mut linger = [0; 8];
    linger[..4].copy_from_slice(&on);
    linger[4..].copy_from_slice(&seconds);
    set_bytes(socket, libc::SOL_SOCKET, libc::SO_LINGER, &linger)
}

fn new(address: SocketAddr, kind: libc::c_int, v6_only: bool) -> Result<OwnedFd, Fault> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: the call takes no memory.
    let number = checked(unsafe { libc::socket(family, kind | FLAGS, 0) } as isize).map_err(fault)?;
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    let socket = unsafe { OwnedFd::from_raw_fd(number as i32) };
    if address.is_ipv6() {
        // Said either way: the default is a setting of the machine (net.ipv6.bindv6only).
        set(&socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, i32::from(v6_only))?;
    }
    Ok(socket)
}

fn name(socket: &OwnedFd, address: SocketAddr) -> Result<(), Fault> {
    let (raw, bytes) = RawAddress::of(address);
    // SAFETY: `raw` has `bytes` readable bytes.
    checked(unsafe { libc::bind(socket.as_raw_fd(), raw.as_ptr(), bytes) } as isize).map_err(fault)?;
    Ok(())
}

fn share_port(socket: &OwnedFd, share: bool) -> Result<(), Fault> {
    if share { set(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1) } else { Ok(()) }
}

fn stream_options(socket: &OwnedFd, options: &StreamOptions) -> Result<(), Fault> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, i32::from(options.no_delay))?;
    if options.keep_alive_seconds > 0 {
        let seconds = clamped(options.keep_alive_seconds.min(KEEP_IDLE_MAX));
        set(socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
        set(socket, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds)?;
    }
    if options.user_timeout_milliseconds > 0 {
        set(socket, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, clamped(options.user_timeout_milliseconds))?;
    }
    buffers(socket, options.send_buffer_bytes, options.receive_buffer_bytes)
}

fn buffers(socket: &OwnedFd, send: u32, receive: u32) -> Result<(), Fault> {
    for (option, bytes) in [(libc::SO_SNDBUF, send), (libc::SO_RCVBUF, receive)] {
        if bytes > 0 {
            set(socket, libc::SOL_SOCKET, option, clamped(bytes))?;
        }
    }
    Ok(())
}

fn clamped(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

fn set(socket: &OwnedFd, level: i32, option: i32, value: i32) -> Result<(), Fault> {
    set_bytes(socket.as_fd(), level, option, &value.to_ne_bytes())
}

/// The number that no other socket has, as long as the machine runs (SO_COOKIE, socket(7)).
pub fn cookie(socket: BorrowedFd) -> Result<u64, Fault> {
    let mut cookie: u64 = 0;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: `cookie` has `length` writable bytes, and `length` is writable itself.
    let answer = unsafe {
        let value = std::ptr::from_mut(&mut cookie).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_COOKIE, value, &mut length)
    };
    checked(answer as isize).map_err(fault).map(|_| cookie)
}

/// Sends one byte to the peer (send(2)).
pub fn send_byte(socket: BorrowedFd) -> Result<(), Fault> {
    let byte = 0_u8;
    // SAFETY: one readable byte is given.
    let answer = uninterrupted(|| unsafe { libc::send(socket.as_raw_fd(), std::ptr::from_ref(&byte).cast(), 1, 0) });
    answer.map(drop).map_err(fault)
}

/// Waits a moment until the socket is readable (poll(2)).
pub fn readable(socket: BorrowedFd) -> Result<(), Fault> {
    const MILLISECONDS: i32 = 200;
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry is given.
    match checked(unsafe { libc::poll(&mut poll, 1, MILLISECONDS) } as isize).map_err(fault)? {
        0 => Err(fault(libc::ETIMEDOUT)),
        _ => Ok(()),
    }
}

/// Attaches a classic program (SO_ATTACH_FILTER, SO_ATTACH_REUSEPORT_CBPF, socket(7)), of at most 4,096 instructions.
pub fn attach_filter(socket: BorrowedFd, option: i32, program: &mut [libc::sock_filter]) -> Result<(), Fault> {
    let length = u16::try_from(program.len()).map_err(|_| Fault::of(Reason::TooLarge))?;
    let filter = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    // SAFETY: `filter` names the instructions of `program`, and both outlive the call, which copies them.
    let answer = unsafe {
        let bytes = size_of::<libc::sock_fprog>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, std::ptr::from_ref(&filter).cast(), bytes)
    };
    checked(answer as isize).map(drop).map_err(fault)
}

/// Sets an option of a socket, as the bytes that it is given by (setsockopt(2)).
pub fn set_bytes(socket: BorrowedFd, level: i32, option: i32, value: &[u8]) -> Result<(), Fault> {
    let length = value.len() as libc::socklen_t;
    // SAFETY: `value` has `length` readable bytes.
    let answer = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), length) };
    checked(answer as isize).map(drop).map_err(fault)
}

fn get(socket: BorrowedFd, level: i32, option: i32) -> Result<i32, Fault> {
    let mut value: i32 = 0;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: `value` has `length` writable bytes, and `length` is writable itself.
    let answer = uninterrupted(|| unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, std::ptr::from_mut(&mut value).cast(), &mut length) as isize
    });
    answer.map_err(fault).map(|_| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, connected, wait_for};

    fn listening(address: &str) -> (OwnedFd, SocketAddr) {
        testing::listening(
            address,
            StreamOptions { keep_alive_seconds: 77, user_timeout_milliseconds: 1234, ..StreamOptions::default() },
        )
    }

    #[test]
    fn accepted_sockets_inherit_the_listeners_settings() {
        let (listener, address) = listening("127.0.0.1:0");
        let _client = connected(address);
        wait_for(listener.as_fd(), libc::POLLIN);
        let (socket, peer) = accept(listener.as_fd()).unwrap().unwrap();
        let option = |level, option| get(socket.as_fd(), level, option).unwrap();
        assert_eq!(option(libc::IPPROTO_TCP, libc::TCP_NODELAY), 1);
        assert_eq!(option(libc::SOL_SOCKET, libc::SO_KEEPALIVE), 1);
        assert_eq!(option(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE), 77);
        assert_eq!(option(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT), 1234);
        assert_eq!(peer.ip(), address.ip());
        // SAFETY: the call takes no memory.
        let flags = unsafe { (libc::fcntl(socket.as_raw_fd(), libc::F_GETFL), libc::fcntl(socket.as_raw_fd(), libc::F_GETFD)) };
        assert_eq!((flags.0 & libc::O_NONBLOCK, flags.1 & libc::FD_CLOEXEC), (libc::O_NONBLOCK, libc::FD_CLOEXEC));
        assert!(accept(listener.as_fd()).unwrap().is_none());
    }

    #[test]
    fn the_wildcard_takes_both_families_or_one() {
        for (v6_only, refused) in [(false, false), (true, true)] {
            let address = "[::]:0".parse().unwrap();
            let stream = StreamOptions::default();
            let listener = listen(&Listen { address, backlog: 8, share_port: false, v6_only, stream }).unwrap();
            let port = local_address(listener.as_fd()).unwrap().port();
            let to = SocketAddr::from(([127, 0, 0, 1], port));
            let socket = connecting(to, None, &stream).unwrap();
            let answer = connect(socket.as_fd(), to).and_then(|done| {
                if !done {
                    wait_for(socket.as_fd(), libc::POLLOUT);
                }
                pending_error(socket.as_fd())
            });
            assert_eq!(answer.is_err_and(|fault| fault.reason == Reason::Refused), refused);
        }
    }

    #[test]
    fn ports_are_shared_on_request_only() {
        let (_first, address) = listening("127.0.0.1:0");
        let mut wanted = Listen { address, backlog: 8, share_port: true, v6_only: false, stream: StreamOptions::default() };
        assert!(listen(&wanted).is_ok());
        wanted.share_port = false;
        assert_eq!(listen(&wanted).map(drop).map_err(|fault| fault.reason), Err(Reason::AddressInUse));
    }

    #[test]
    fn an_address_of_another_machine_is_named() {
        let options = StreamOptions::default();
        let to = "127.0.0.1:9".parse().unwrap();
        let foreign = Some("192.0.2.1:0".parse().unwrap());
        let answer = connecting(to, foreign, &options).map(drop).map_err(|fault| fault.reason);
        assert_eq!(answer, Err(Reason::AddressUnknown));
    }

    /// The connection that used the port before still waits for stray segments (TIME-WAIT, RFC 9293 section 3.6.1).
    #[test]
    fn a_chosen_port_can_be_used_again_at_once() {
        let options = StreamOptions::default();
        // An address that no other test uses, so that nobody else takes the port.
        let (_, from) = testing::listening("127.0.0.9:0", options);
        for _ in 0..2 {
            let (listener, to) = testing::listening("127.0.0.1:0", options);
            let socket = connecting(to, Some(from), &options).unwrap();
            if !connect(socket.as_fd(), to).unwrap() {
                wait_for(socket.as_fd(), libc::POLLOUT);
            }
            pending_error(socket.as_fd()).unwrap();
            wait_for(listener.as_fd(), libc::POLLIN);
            let (accepted, peer) = accept(listener.as_fd()).unwrap().unwrap();
            assert_eq!(peer, from);
            finish(socket.as_fd());
            wait_for(accepted.as_fd(), libc::POLLRDHUP);
            drop(accepted);
            wait_for(socket.as_fd(), libc::POLLHUP);
        }
    }

    #[test]
    fn a_reset_reaches_the_peer() {
        let (listener, address) = listening("[::1]:0");
        let client = connected(address);
        wait_for(listener.as_fd(), libc::POLLIN);
        let (socket, _) = accept(listener.as_fd()).unwrap().unwrap();
        reset_on_close(client.as_fd()).unwrap();
        drop(client);
        wait_for(socket.as_fd(), libc::POLLERR);
        assert_eq!(pending_error(socket.as_fd()).map_err(|fault| fault.reason), Err(Reason::Reset));
        assert_eq!(readable_bytes(socket.as_fd()), 0);
    }
}

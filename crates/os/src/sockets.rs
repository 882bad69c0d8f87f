//! Making sockets, and the few calls on them that move no data (socket(7), tcp(7), ip(7), ipv6(7), udp(7)).

use crate::errno::{self, fault, fault_of};
use crate::options::set_bytes;
use corelane_rss::Transport;
use corelane_seam::{Address, Bind, Fault, Listen, Reason, StreamOptions, Unix};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);
/// The longest silence that TCP_KEEPIDLE takes, in seconds (`MAX_TCP_KEEPIDLE` of Linux).
const KEEP_IDLE_SECONDS_MAX: u32 = 32_767;
/// How many connections that broke before they were accepted are skipped by one call.
const BROKEN_MAX: usize = 64;

/// Makes a listening socket. Accepted sockets inherit the settings of `listen.stream` from it, which saves the calls
/// that would set them on each.
///
/// # Errors
/// What the system says (bind(2), listen(2)).
pub fn listen(listen: &Listen) -> Result<OwnedFd, Fault> {
    let (socket, address) = new(&listen.address, SocketType::STREAM, listen.v6_only)?;
    let prepared = || {
        sockopt::set_socket_reuseaddr(&socket, true)?;
        share_port(&socket, listen.share_port && listen.address.unix().is_none())?;
        stream_options(&socket, &listen.address, &listen.stream)?;
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, clamped(listen.backlog))
    };
    prepared().map_err(fault_of)?;
    if listen.stream.peer_begins && listen.address.unix().is_none() {
        await_first_bytes(socket.as_fd(), true)?;
    }
    Ok(socket)
}

/// Makes a datagram socket. One that is bound to the wildcard address tells the address that each datagram was sent to,
/// so that answers can come from there; with one peer there is one address. `trains` asks for arrivals in trains (UDP_GRO).
///
/// # Errors
/// What the system says (bind(2), connect(2)).
pub fn bind(bind: &Bind, trains: bool) -> Result<OwnedFd, Fault> {
    let (socket, mut address) = new(&bind.address, SocketType::DGRAM, bind.v6_only)?;
    let shares = bind.share_port && bind.address.unix().is_none();
    share_port(&socket, shares).map_err(fault_of)?;
    equip_datagrams(&socket, bind, trains)?;
    let chosen = if shares && bind.address.port() == 0 { Some(unshared(bind)?) } else { None };
    if let Some(chosen) = &chosen {
        address = raw(&local_address(chosen.as_fd())?)?;
    }
    rustix::net::bind(&socket, &address).map_err(fault_of)?;
    drop(chosen);
    if let Some(peer) = &bind.peer {
        connect(socket.as_fd(), peer)?;
    }
    Ok(socket)
}

/// A socket at a port that the system chooses, which can be shared from now on.
/// For a datagram socket that shares when it is bound, Linux may choose a port that others of the same user share already.
fn unshared(bind: &Bind) -> Result<OwnedFd, Fault> {
    let (socket, address) = new(&bind.address, SocketType::DGRAM, bind.v6_only)?;
    rustix::net::bind(&socket, &address).map_err(fault_of)?;
    share_port(&socket, true).map_err(fault_of)?;
    Ok(socket)
}

/// Makes a stream socket that can be connected to `to`.
///
/// # Errors
/// What the system says (bind(2)).
pub fn connecting(to: &Address, from: Option<&Address>, options: &StreamOptions) -> Result<OwnedFd, Fault> {
    let (socket, _) = new(to, SocketType::STREAM, false)?;
    stream_options(&socket, to, options).map_err(fault_of)?;
    if let Some(from) = from {
        if from.unix().is_some() {
            // It has no port.
        } else if from.port() == 0 {
            // The port is chosen at connect(2), where it must be free for that peer only.
            switch_on(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT)?;
        } else {
            sockopt::set_socket_reuseaddr(&socket, true).map_err(fault_of)?;
        }
        rustix::net::bind(&socket, &raw(from)?).map_err(fault_of)?;
    }
    Ok(socket)
}

/// Begins to connect; true if it is done, false if the socket becomes writable at the end (connect(2)).
///
/// # Errors
/// What the system says.
pub fn connect(socket: BorrowedFd, to: &Address) -> Result<bool, Fault> {
    match rustix::net::connect(socket, &raw(to)?) {
        Ok(()) => Ok(true),
        // Interrupted, it goes on by itself (connect(2)).
        Err(Errno::INPROGRESS | Errno::INTR) => Ok(false),
        Err(error) => Err(fault_of(error)),
    }
}

/// How a connect ended, or what else broke the socket (SO_ERROR); asking clears it.
///
/// # Errors
/// What broke it.
pub fn pending_error(socket: BorrowedFd) -> Result<(), Fault> {
    sockopt::socket_error(socket).and_then(|ended| ended).map_err(fault_of)
}

/// Accepts one connection; none when no more wait. Connections that broke while they waited are skipped.
///
/// # Errors
/// What the system says of the listener (accept(2)).
pub fn accept(listener: BorrowedFd) -> Result<Option<(OwnedFd, Address)>, Fault> {
    for _ in 0..BROKEN_MAX {
        match rustix::net::acceptfrom_with(listener, FLAGS) {
            Ok((socket, peer)) => {
                // A connection without an address is one that is gone again.
                if let Some(peer) = peer.and_then(ours) {
                    let peer = with_user(socket.as_fd(), peer)?;
                    return Ok(Some((socket, peer)));
                }
            }
            Err(Errno::AGAIN) => return Ok(None),
            // A Unix socket that refuses says so once all that waited is accepted.
            Err(Errno::INVAL) if is_unix(listener) => return Ok(None),
            Err(error) if !is_of_one_connection(error.raw_os_error()) => return Err(fault_of(error)),
            Err(_) => {}
        }
    }
    Err(fault(libc::ECONNABORTED))
}

/// Whether an error of accept4 concerns the connection that was to be accepted, and not the listener (accept(2)).
fn is_of_one_connection(number: i32) -> bool {
    errno::is_from_network(number) || matches!(number, libc::ECONNABORTED | libc::EINTR | libc::EPERM | libc::ETIMEDOUT)
}

/// The socket's own address.
///
/// # Errors
/// What the system says; `Unsupported` for an address of another family.
pub fn local_address(socket: BorrowedFd) -> Result<Address, Fault> {
    let any = rustix::net::getsockname(socket).map_err(fault_of)?;
    ours(any).ok_or(fault(libc::EAFNOSUPPORT))
}

/// The address of the other end.
///
/// # Errors
/// As of [`local_address`].
pub fn peer_address(socket: BorrowedFd) -> Result<Address, Fault> {
    let any = rustix::net::getpeername(socket).map_err(fault_of)?;
    any.and_then(ours).ok_or(fault(libc::EAFNOSUPPORT)).and_then(|peer| with_user(socket, peer))
}

/// The user and process at the other end of a Unix socket: who connected, or who began to listen (SO_PEERCRED, unix(7)).
pub fn peer_process(socket: BorrowedFd) -> Option<(u32, i32)> {
    let credentials = sockopt::socket_peercred(socket).ok()?;
    Some((credentials.uid.as_raw(), credentials.pid.as_raw_pid()))
}

/// A peer's address with the user who it is, where the system vouches for that.
fn with_user(socket: BorrowedFd, peer: Address) -> Result<Address, Fault> {
    match peer {
        Address::Unix(unix) => {
            let credentials = sockopt::socket_peercred(socket).map_err(fault_of)?;
            Ok(unix.of_user(credentials.uid.as_raw()).into())
        }
        other => Ok(other),
    }
}

/// A socket that is bound to nothing yet, of the family of `address`.
///
/// # Errors
/// What the system says (socket(2)).
pub fn unbound(address: &Address, transport: Transport) -> Result<OwnedFd, Fault> {
    let kind = if transport == Transport::Tcp { SocketType::STREAM } else { SocketType::DGRAM };
    new(address, kind, false).map(|(socket, _)| socket)
}

/// Binds a socket (bind(2)).
///
/// # Errors
/// What the system says.
pub fn bind_to(socket: BorrowedFd, address: &Address) -> Result<(), Fault> {
    rustix::net::bind(socket, &raw(address)?).map_err(fault_of)
}

/// Has a bound socket listen (listen(2)); of one that listens already, so many connections may wait from now on.
///
/// # Errors
/// What the system says.
pub fn begin_to_listen(socket: BorrowedFd, backlog: u32) -> Result<(), Fault> {
    rustix::net::listen(socket, clamped(backlog)).map_err(fault_of)
}

/// A duplicate of the socket that has this number in the calling thread's table.
///
/// # Errors
/// What the system says of the number (dup(2)).
pub fn duplicate(number: i32) -> Result<OwnedFd, Fault> {
    assert!(number >= 0, "the number of a descriptor");
    // SAFETY: the call takes any number, and fails for one that is no descriptor.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    errno::checked(copy as isize).map_err(fault)?;
    assert!(copy != number, "a copy has a number of its own");
    // SAFETY: the number was made by the call above, for nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Gives a listener that was made before the settings of `listen`, as [`listen`] would.
///
/// # Errors
/// What the system says (setsockopt(2)).
pub fn equip_listener(socket: &OwnedFd, listen: &Listen) -> Result<(), Fault> {
    assert!(sockopt::socket_acceptconn(socket) == Ok(true), "what lanes share as a listener listens");
    stream_options(socket, &listen.address, &listen.stream).map_err(fault_of)
}

/// Gives a datagram socket the settings of `bind`: one that [`bind`] makes, or that was made before.
///
/// # Errors
/// What the system says (setsockopt(2)).
pub fn equip_datagrams(socket: &OwnedFd, bind: &Bind, trains: bool) -> Result<(), Fault> {
    buffers(socket, bind.send_buffer_bytes, bind.receive_buffer_bytes).map_err(fault_of)?;
    if let Some(address) = bind.address.inet().filter(|address| address.ip().is_unspecified() && bind.peer.is_none()) {
        match address {
            SocketAddr::V4(_) => switch_on(socket, libc::IPPROTO_IP, libc::IP_PKTINFO)?,
            // Mapped IPv4 addresses come this way, too.
            SocketAddr::V6(_) => switch_on(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)?,
        }
    }
    match bind.address.unix() {
        // Each datagram brings the user id of its sender (SCM_CREDENTIALS, unix(7)).
        Some(_) => sockopt::set_socket_passcred(socket, true).map_err(fault_of),
        None if trains => switch_on(socket, libc::SOL_UDP, libc::UDP_GRO),
        None => Ok(()),
    }
}

/// Whether a listener of TCP hands connections out once their first bytes are there, or after about a second (TCP_DEFER_ACCEPT, tcp(7)), or as soon
/// as they are made. Those that wait for their bytes when this ends wait on.
///
/// # Errors
/// What the system says (setsockopt(2)).
pub fn await_first_bytes(listener: BorrowedFd, awaits: bool) -> Result<(), Fault> {
    set_bytes(listener, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, &i32::from(awaits).to_ne_bytes())
}

/// Whether a socket listens for connections.
pub fn listens(socket: BorrowedFd) -> bool {
    sockopt::socket_acceptconn(socket) == Ok(true)
}

/// Whether a socket is a Unix socket.
pub fn is_unix(socket: BorrowedFd) -> bool {
    sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX)
}

/// Refuses connections from now on, while those that wait can still be accepted: of a Unix socket's every duplicate (shutdown(2), unix(7)).
/// Whoever watches one is told of its end (EPOLLHUP), which takes that both ways are ended.
pub fn refuse_new(listener: BorrowedFd) {
    assert!(is_unix(listener), "one of TCP would lose those that wait");
    // It may be refusing already, by another lane's duplicate.
    let _ = rustix::net::shutdown(listener, Shutdown::Both);
}

/// Wakes all who wait for connections of a listening socket, by whatever duplicate: those, too, of whom the system else wakes one
/// (EPOLLEXCLUSIVE). A listener has no way out that could be ended, so ending it changes nothing; but it tells everybody (shutdown(2)).
pub fn wake_all(listener: BorrowedFd) {
    let woken = rustix::net::shutdown(listener, Shutdown::Write);
    assert!(woken.is_ok(), "a socket that listens can be ended");
}

/// An address of the system as one of ours; none for a family that we have not.
fn ours(any: SocketAddrAny) -> Option<Address> {
    match any.address_family() {
        AddressFamily::UNIX => Some(unix(&any.try_into().ok()?).into()),
        _ => SocketAddr::try_from(any).ok().map(unmapped).map(Address::Ip),
    }
}

/// A Unix socket's address; one that no address of ours can have has no name. The library reads that of a socket without a name as an empty
/// abstract one.
fn unix(raw: &SocketAddrUnix) -> Unix {
    let hidden = raw.abstract_name().filter(|name| !name.is_empty());
    let name = hidden.map(Unix::hidden).or_else(|| raw.path_bytes().map(Unix::path));
    name.and_then(Result::ok).unwrap_or(Unix::UNNAMED)
}

/// The system's form of an address.
fn raw(address: &Address) -> Result<SocketAddrAny, Fault> {
    match address {
        Address::Ip(address) => Ok((*address).into()),
        Address::Unix(unix) => raw_unix(unix).map(SocketAddrAny::from).map_err(fault_of),
        Address::Link(_) => Err(fault(libc::EAFNOSUPPORT)),
    }
}

fn raw_unix(unix: &Unix) -> Result<SocketAddrUnix, Errno> {
    match unix.name() {
        [] => Ok(SocketAddrUnix::new_unnamed()),
        [0, name @ ..] => SocketAddrUnix::new_abstract_name(name),
        path => SocketAddrUnix::new(path),
    }
}

/// An IPv4 address that an IPv6 socket shows mapped (`::ffff:1.2.3.4`, RFC 4291 section 2.5.5.2) comes out as IPv4: one peer has one
/// address, whatever the listener.
pub fn unmapped(address: SocketAddr) -> SocketAddr {
    let mapped = match address {
        SocketAddr::V4(_) => None,
        SocketAddr::V6(address) => address.ip().to_ipv4_mapped(),
    };
    mapped.map_or(address, |mapped| SocketAddrV4::new(mapped, address.port()).into())
}

/// Bytes that have arrived and were not received yet (SIOCINQ, tcp(7)); 0 if not known.
pub fn readable_bytes(socket: BorrowedFd) -> usize {
    // SIOCINQ is another name of the same request.
    rustix::io::ioctl_fionread(socket).map_or(0, |bytes| bytes as usize)
}

/// Bytes that were given to the system and that the peer has not taken (SIOCOUTQ, tcp(7), unix(7)). None where nobody counts them.
pub fn unsent_bytes(socket: BorrowedFd) -> Option<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes one int, and `bytes` is a valid place for it.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    usize::try_from(bytes).ok().filter(|_| answer == 0)
}

/// Why a connection is no more, if it was broken off: None while it is there, and behind an end in order; also behind one that was not received yet. The system tells it once.
pub fn broken(socket: BorrowedFd, has_heard_end: bool) -> Option<Fault> {
    // While a connection over TCP is there, the system has remarks at the most, such as that a way was lost for a moment.
    let is_there = tcp_state(socket).is_some_and(|state| state != TCP_CLOSE);
    if is_there {
        return None;
    }
    match sockopt::socket_error(socket) {
        Ok(Ok(())) => None,
        // What came behind the peer's end: all before that end is there to be received.
        Ok(Err(Errno::PIPE)) if !has_heard_end => None,
        Ok(Err(why)) | Err(why) => Some(fault_of(why)),
    }
}

/// The state of a connection that has ended, and has nothing more to say (tcp_states.h).
const TCP_CLOSE: u8 = 7;

/// The state of a connection over TCP (`tcpi_state` of TCP_INFO, tcp(7)); none of other sockets.
pub fn tcp_state(socket: BorrowedFd) -> Option<u8> {
    let mut state = 0_u8;
    let mut length = size_of_val(&state) as libc::socklen_t;
    // SAFETY: `state` has `length` writable bytes, the first of what the system tells, and `length` is writable itself; the call writes no more than that.
    let answer = unsafe {
        let value = (&raw mut state).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_TCP, libc::TCP_INFO, value, &mut length)
    };
    (answer == 0 && length == 1).then_some(state)
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

/// Whether a listener takes connections to other addresses than its own (IP_TRANSPARENT, ip(7)), which a rule of the system brings to it (TPROXY).
pub fn is_transparent(listener: BorrowedFd) -> bool {
    let mut value = 0_i32;
    let mut length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: `value` has `length` writable bytes, and `length` is writable itself; the call writes no more than that.
    let answer = unsafe {
        let value = (&raw mut value).cast();
        libc::getsockopt(listener.as_raw_fd(), libc::SOL_IP, libc::IP_TRANSPARENT, value, &mut length)
    };
    answer == 0 && value != 0
}

/// Ends this side (shutdown(2)). On a connection that is broken already there is nothing left to end.
pub fn finish(socket: BorrowedFd) {
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
}

/// Makes the coming close break the connection off (SO_LINGER with zero seconds, socket(7)).
///
/// # Errors
/// What the system says.
pub fn reset_on_close(socket: BorrowedFd) -> Result<(), Fault> {
    sockopt::set_socket_linger(socket, Some(Duration::ZERO)).map_err(fault_of)
}

/// A socket of the family of `address`, and the system's form of that.
fn new(address: &Address, kind: SocketType, v6_only: bool) -> Result<(OwnedFd, SocketAddrAny), Fault> {
    let raw = raw(address)?;
    let family = raw.address_family();
    let socket = rustix::net::socket_with(family, kind, FLAGS, None).map_err(fault_of)?;
    if family == AddressFamily::INET6 {
        // Said either way: the default is a setting of the machine (net.ipv6.bindv6only).
        sockopt::set_ipv6_v6only(&socket, v6_only).map_err(fault_of)?;
    }
    Ok((socket, raw))
}

fn share_port(socket: &OwnedFd, share: bool) -> Result<(), Errno> {
    if share { sockopt::set_socket_reuseport(socket, true) } else { Ok(()) }
}

fn stream_options(socket: &OwnedFd, address: &Address, options: &StreamOptions) -> Result<(), Errno> {
    if address.unix().is_some() {
        return buffers(socket, options.send_buffer_bytes, options.receive_buffer_bytes);
    }
    sockopt::set_tcp_nodelay(socket, options.no_delay)?;
    if !options.keep_alive.is_zero() {
        let seconds = units(options.keep_alive, Duration::from_secs(1)).min(KEEP_IDLE_SECONDS_MAX);
        sockopt::set_socket_keepalive(socket, true)?;
        sockopt::set_tcp_keepidle(socket, Duration::from_secs(seconds.into()))?;
    }
    if !options.user_timeout.is_zero() {
        let milliseconds = units(options.user_timeout, Duration::from_millis(1));
        sockopt::set_tcp_user_timeout(socket, clamped(milliseconds).unsigned_abs())?;
    }
    buffers(socket, options.send_buffer_bytes, options.receive_buffer_bytes)
}

fn buffers(socket: &OwnedFd, send: u32, receive: u32) -> Result<(), Errno> {
    if send > 0 {
        sockopt::set_socket_send_buffer_size(socket, clamped(send) as usize)?;
    }
    if receive > 0 {
        sockopt::set_socket_recv_buffer_size(socket, clamped(receive) as usize)?;
    }
    Ok(())
}

/// A duration in whole units, with what is less than one.
fn units(duration: Duration, unit: Duration) -> u32 {
    assert!(!duration.is_zero(), "no time at all means never, and is not set");
    u32::try_from(duration.as_nanos().div_ceil(unit.as_nanos())).unwrap_or(u32::MAX)
}

/// The kernel takes these as numbers with a sign.
fn clamped(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Sets an option that the library has no name for.
fn switch_on(socket: &OwnedFd, level: i32, option: i32) -> Result<(), Fault> {
    set_bytes(socket.as_fd(), level, option, &1_i32.to_ne_bytes())
}

/// The number that no other socket has, as long as the machine runs (SO_COOKIE, socket(7)).
///
/// # Errors
/// What the system says.
pub fn cookie(socket: BorrowedFd) -> Result<u64, Fault> {
    sockopt::socket_cookie(socket).map_err(fault_of)
}

/// Sends one byte to the peer (send(2)).
///
/// # Errors
/// What the system says.
pub fn send_byte(socket: BorrowedFd) -> Result<(), Fault> {
    retry_on_intr(|| rustix::net::send(socket, &[0], SendFlags::empty())).map(drop).map_err(fault_of)
}

/// Waits a moment until the socket is readable (poll(2)).
///
/// # Errors
/// `TimedOut`; what the system says.
pub fn readable(socket: BorrowedFd) -> Result<(), Fault> {
    const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    let mut asked = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
    match retry_on_intr(|| rustix::event::poll(&mut asked, Some(&PATIENCE))).map_err(fault_of)? {
        0 => Err(fault(libc::ETIMEDOUT)),
        _ => Ok(()),
    }
}

/// Attaches a classic program (SO_ATTACH_FILTER, SO_ATTACH_REUSEPORT_CBPF, socket(7)), of at most 4,096 instructions.
///
/// # Errors
/// `TooLarge` for a longer one; what the system says.
pub fn attach_filter(socket: BorrowedFd, option: i32, program: &mut [libc::sock_filter]) -> Result<(), Fault> {
    let length = u16::try_from(program.len()).map_err(|_| Fault::of(Reason::TooLarge))?;
    assert!(length > 0, "a program has an instruction that ends it");
    let filter = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    // SAFETY: `filter` names the instructions of `program`, and both outlive the call, which copies them.
    let answer = unsafe {
        let bytes = size_of::<libc::sock_fprog>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, std::ptr::from_ref(&filter).cast(), bytes)
    };
    errno::checked(answer as isize).map(drop).map_err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, connected, wait_for};
    use std::collections::BTreeSet;

    fn listening(address: &str) -> (OwnedFd, Address) {
        testing::listening(
            address,
            StreamOptions::new().keep_alive(Duration::from_millis(76_001)).user_timeout(Duration::from_micros(1_233_001)),
        )
    }

    #[test]
    fn accepted_sockets_inherit_the_listeners_settings() {
        let (listener, address) = listening("127.0.0.1:0");
        let _client = connected(&address);
        wait_for(listener.as_fd(), libc::POLLIN);
        let (socket, peer) = accept(listener.as_fd()).unwrap().unwrap();
        assert_eq!(sockopt::tcp_nodelay(&socket), Ok(true));
        assert_eq!(sockopt::socket_keepalive(&socket), Ok(true));
        assert_eq!(sockopt::tcp_keepidle(&socket), Ok(Duration::from_secs(77)));
        assert_eq!(sockopt::tcp_user_timeout(&socket), Ok(1234));
        assert_eq!(peer.ip(), address.ip());
        assert!(rustix::fs::fcntl_getfl(&socket).unwrap().contains(rustix::fs::OFlags::NONBLOCK));
        assert!(rustix::io::fcntl_getfd(&socket).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        assert!(accept(listener.as_fd()).unwrap().is_none());
    }

    /// Linux would cut a peer that reads slowly, though it reads.
    #[test]
    fn no_time_is_set_for_what_a_closed_window_keeps_back_unless_asked_for() {
        let (listener, address) = testing::listening("127.0.0.1:0", StreamOptions::new());
        let _client = connected(&address);
        wait_for(listener.as_fd(), libc::POLLIN);
        let (socket, _) = accept(listener.as_fd()).unwrap().unwrap();
        assert_eq!(sockopt::tcp_user_timeout(&socket), Ok(0));
    }

    #[test]
    fn the_wildcard_takes_both_families_or_one() {
        for (v6_only, refused) in [(false, false), (true, true)] {
            let address = "[::]:0".parse().unwrap();
            let stream = StreamOptions::default();
            let listener = listen(&Listen { address, backlog: 8, share_port: false, v6_only, stream }).unwrap();
            let port = local_address(listener.as_fd()).unwrap().port();
            // An address that no other test uses, so that nobody else answers at the port.
            let to = SocketAddr::from(([127, 0, 0, 10], port)).into();
            let socket = connecting(&to, None, &stream).unwrap();
            let answer = connect(socket.as_fd(), &to).and_then(|done| {
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

    /// By chance alone, several of so many would have one port.
    #[test]
    fn a_chosen_port_of_datagrams_is_nobody_elses() {
        let wanted = Bind {
            address: "127.0.0.8:0".parse().unwrap(),
            peer: None,
            share_port: true,
            v6_only: false,
            receive_buffer_bytes: 0,
            send_buffer_bytes: 0,
        };
        let sockets: Vec<_> = (0..600).map(|_| bind(&wanted, false).unwrap()).collect();
        let ports: BTreeSet<_> = sockets.iter().map(|socket| local_address(socket.as_fd()).unwrap().port()).collect();
        assert_eq!(ports.len(), sockets.len());
        let address = local_address(sockets[0].as_fd()).unwrap();
        assert!(bind(&Bind { address, ..wanted }, false).is_ok(), "it is shared with who asks for it by number");
    }

    #[test]
    fn an_address_of_another_machine_is_named() {
        let options = StreamOptions::default();
        let to = "127.0.0.1:9".parse().unwrap();
        let foreign: Option<Address> = Some("192.0.2.1:0".parse().unwrap());
        let answer = connecting(&to, foreign.as_ref(), &options).map(drop).map_err(|fault| fault.reason);
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
            let socket = connecting(&to, Some(&from), &options).unwrap();
            if !connect(socket.as_fd(), &to).unwrap() {
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
        let client = connected(&address);
        wait_for(listener.as_fd(), libc::POLLIN);
        let (socket, _) = accept(listener.as_fd()).unwrap().unwrap();
        reset_on_close(client.as_fd()).unwrap();
        drop(client);
        wait_for(socket.as_fd(), libc::POLLERR);
        assert_eq!(pending_error(socket.as_fd()).map_err(|fault| fault.reason), Err(Reason::Reset));
        assert_eq!(readable_bytes(socket.as_fd()), 0);
    }

    #[test]
    fn a_mapped_address_is_shown_as_what_it_is() {
        let (listener, address) = listening("[::]:0");
        let client = connected(SocketAddr::from(([127, 0, 0, 1], address.port())));
        wait_for(listener.as_fd(), libc::POLLIN);
        let (socket, peer) = accept(listener.as_fd()).unwrap().unwrap();
        assert_eq!(Ok(peer), local_address(client.as_fd()));
        assert_eq!(local_address(socket.as_fd()), peer_address(client.as_fd()));
    }

    #[test]
    fn who_is_to_begin_is_accepted_with_the_first_bytes() {
        let address = Address::from("127.0.0.1:0".parse::<SocketAddr>().unwrap());
        let stream = StreamOptions::default().peer_begins(true);
        let listener = listen(&Listen { address, backlog: 8, share_port: false, v6_only: false, stream }).unwrap();
        let to = local_address(listener.as_fd()).unwrap();
        let silent = connected(to.clone());
        // A segment on the loopback interface is received within the call that sends it, or before the next one's is.
        let _witness = connected(testing::listening("127.0.0.1:0", StreamOptions::default()).1);
        assert!(accept(listener.as_fd()).unwrap().is_none(), "it has said nothing");
        assert_eq!(rustix::io::write(&silent, b"first"), Ok(5));
        wait_for(listener.as_fd(), libc::POLLIN);
        let (accepted, _) = accept(listener.as_fd()).unwrap().unwrap();
        assert_eq!(readable_bytes(accepted.as_fd()), 5);
        await_first_bytes(listener.as_fd(), false).unwrap();
        let _quiet = connected(to);
        wait_for(listener.as_fd(), libc::POLLIN);
        assert!(accept(listener.as_fd()).unwrap().is_some(), "nobody is to begin any more");
    }

    #[test]
    fn unix_sockets_tell_name_and_user_and_refuse_in_order() {
        let name = |end: &str| Unix::hidden(format!("corelane-sockets-{}-{end}", std::process::id()).as_bytes()).unwrap();
        let (server, own, options) = (name("server"), name("client"), StreamOptions::default());
        let to = Address::from(server.clone());
        let wanted = Listen { address: to.clone(), backlog: 8, share_port: true, v6_only: false, stream: options };
        let listener = listen(&wanted).unwrap();
        let user = rustix::process::geteuid().as_raw();
        for from in [own, Unix::UNNAMED] {
            let bound: Option<Address> = (from != Unix::UNNAMED).then(|| from.clone().into());
            let client = connecting(&to, bound.as_ref(), &options).unwrap();
            assert_eq!(connect(client.as_fd(), &to), Ok(true));
            assert_eq!(accept(listener.as_fd()).unwrap().unwrap().1, Address::from(from.clone().of_user(user)));
            assert_eq!(peer_address(client.as_fd()), Ok(server.clone().of_user(user).into()));
            assert_eq!(local_address(client.as_fd()), Ok(from.into()));
        }
        let _waiting = connected(to.clone());
        refuse_new(listener.as_fd());
        wait_for(listener.as_fd(), libc::POLLHUP);
        let late = connecting(&to, None, &options).unwrap();
        assert_eq!(connect(late.as_fd(), &to).map_err(|fault| fault.reason), Err(Reason::Refused));
        assert!(accept(listener.as_fd()).unwrap().is_some(), "who waited is accepted");
        assert!(accept(listener.as_fd()).unwrap().is_none());
    }
}

//! Questions to a descriptor that somebody else owns, by its number.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, OFlags, SeekFrom, fcntl_getfl, fstat, seek};
use rustix::net::SocketType;
use rustix::net::sockopt::{socket_acceptconn, socket_type};
use rustix::time::Timespec;
use std::os::fd::{BorrowedFd, RawFd};

use super::borrowed;
use super::polling::Readiness;
use crate::netlink::{Attributes, Request};
use crate::sockets;

/// What a descriptor is, as far as its readiness differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A socket with connections.
    Stream,
    /// A socket without.
    Datagrams,
    /// A pipe's end, or a FIFO.
    Pipe,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A terminal or another device.
    Device,
    /// What has no name: epoll, eventfd, timerfd, pidfd...
    Nameless,
}

/// Which open file a number means: of the same identity is the same socket; the same file or end of a pipe, perhaps opened again; for what has
/// no name, any other without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    file: u64,
    mode: u32,
    access: u32,
}

/// What `number` is, and which.
///
/// # Errors
/// EBADF if it is not open.
pub fn identify(number: RawFd) -> Result<(Kind, Identity), i32> {
    let descriptor = borrowed(number)?;
    let status = fstat(descriptor).map_err(|error| error.raw_os_error())?;
    let kind = match FileType::from_raw_mode(status.st_mode) {
        FileType::Socket => match socket_type(descriptor) {
            Ok(SocketType::STREAM | SocketType::SEQPACKET) => Kind::Stream,
            _ => Kind::Datagrams,
        },
        FileType::Fifo => Kind::Pipe,
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::CharacterDevice | FileType::BlockDevice | FileType::Symlink => Kind::Device,
        FileType::Unknown => Kind::Nameless,
    };
    Ok((kind, identity(descriptor, status.st_dev, status.st_ino, status.st_mode)))
}

/// Which file `number` means now.
///
/// # Errors
/// EBADF if it is not open.
pub fn identity_of(number: RawFd) -> Result<Identity, i32> {
    let descriptor = borrowed(number)?;
    let status = fstat(descriptor).map_err(|error| error.raw_os_error())?;
    Ok(identity(descriptor, status.st_dev, status.st_ino, status.st_mode))
}

fn identity(descriptor: BorrowedFd, device: u64, file: u64, mode: u32) -> Identity {
    // The two ends of a pipe are one file.
    let is_pipe = FileType::from_raw_mode(mode) == FileType::Fifo;
    let access = if is_pipe { access(descriptor) } else { 0 };
    Identity { device, file, mode: mode & FILE_TYPE, access }
}

/// The bits of a mode that say what kind of file it is (S_IFMT, inode(7)).
const FILE_TYPE: u32 = libc::S_IFMT;

fn access(descriptor: BorrowedFd) -> u32 {
    fcntl_getfl(descriptor).map_or(0, |flags| (flags & OFlags::RWMODE).bits())
}

/// What `number` is ready for now, of `wanted`, and whether it has failed or hung up (poll(2)); nothing if it is not open.
pub fn readiness(number: RawFd, wanted: Readiness) -> Readiness {
    let Ok(descriptor) = borrowed(number) else { return Readiness::empty() };
    // The bits have the same values (poll.h).
    let wanted = PollFlags::from_bits_retain(wanted.bits() as u16);
    let mut asked = [PollFd::from_borrowed_fd(descriptor, wanted)];
    let answered = poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    let ready = if answered.is_ok() { asked[0].revents() } else { PollFlags::empty() };
    if ready.contains(PollFlags::NVAL) {
        return Readiness::empty();
    }
    Readiness::from_bits_retain(u32::from(ready.bits()))
}

/// Bytes that can be read; the first datagram's where there are datagrams (FIONREAD). None where it is not counted in bytes.
pub fn readable_bytes(number: RawFd) -> Option<i64> {
    let bytes = rustix::io::ioctl_fionread(borrowed(number).ok()?).ok()?;
    i64::try_from(bytes).ok()
}

/// Bytes that were written and have not left, or were not taken note of by the peer (SIOCOUTQ, tcp(7)).
pub fn unsent_bytes(number: RawFd) -> Option<i64> {
    i64::try_from(sockets::unsent_bytes(borrowed(number).ok()?)?).ok()
}

/// Bytes that a pipe holds in all.
pub fn pipe_size(number: RawFd) -> Option<i64> {
    i64::try_from(rustix::pipe::fcntl_getpipe_size(borrowed(number).ok()?).ok()?).ok()
}

/// Memory of a socket, in bytes (SO_MEMINFO, include/uapi/linux/sock_diag.h): each datagram, and each piece of a stream, is charged with what the kernel needs for it beside its
/// own bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMemory {
    /// Of what has come and was not read; 0 of local sockets, where the sender is charged.
    pub received: i64,
    /// The most for that (SO_RCVBUF).
    pub receive_buffer: i64,
    /// Of what was sent and has not left, or was not taken note of.
    pub sent: i64,
    /// The most for that (SO_SNDBUF).
    pub send_buffer: i64,
}

/// The memory of a socket; None of what is none.
pub fn socket_memory(number: RawFd) -> Option<SocketMemory> {
    // Nine words since Linux 4.12: SK_MEMINFO_RMEM_ALLOC, RCVBUF, WMEM_ALLOC, SNDBUF, FWD_ALLOC, WMEM_QUEUED and others.
    const SO_MEMINFO: libc::c_int = 55;
    let mut words = [0_u32; 9];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: `words` has `length` writable bytes, and `length` is writable itself; the call writes no more than that.
    let answer = unsafe { libc::getsockopt(number, libc::SOL_SOCKET, SO_MEMINFO, words.as_mut_ptr().cast(), &mut length) };
    let [received, receive_buffer, on_its_way, send_buffer, _, queued, ..] = words.map(i64::from);
    // A stream's queue holds what is on its way, too.
    let sent = queued.max(on_its_way);
    (answer == 0).then_some(SocketMemory { received, receive_buffer, sent, send_buffer })
}

/// Whether a socket takes connections.
pub fn listens(number: RawFd) -> bool {
    borrowed(number).is_ok_and(|descriptor| socket_acceptconn(descriptor) == Ok(true))
}

/// The state of a socket that takes connections (tcp_states.h).
const TCP_LISTEN: u8 = 10;

/// What TCP says of a socket: for one that listens, the connections that wait; None for others.
pub fn tcp(number: RawFd) -> Option<Tcp> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `info` has `length` writable bytes, and `length` is writable itself; the call writes no more than that. All zeros is a value of
    // the structure, and so is whatever the call writes: it has only integers.
    let info = unsafe {
        let answer = libc::getsockopt(number, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &mut length);
        if answer != 0 {
            return None;
        }
        info.assume_init()
    };
    let was_connected = info.tcpi_bytes_acked > 0 || info.tcpi_segs_in > 1;
    let waiting = i64::from(info.tcpi_unacked);
    Some(Tcp {
        listens: info.tcpi_state == TCP_LISTEN,
        waiting,
        retransmitted: info.tcpi_total_retrans,
        heard: info.tcpi_segs_in,
        was_connected,
    })
}

/// Connections that wait at a local socket that listens (sock_diag(7), UNIX_DIAG_RQLEN); None where the kernel does not say.
pub fn local_backlog(number: RawFd) -> Option<i64> {
    // SOCK_DIAG_BY_FAMILY, the size of `struct unix_diag_msg`, UDIAG_SHOW_RQLEN, and the attribute that this asks for.
    const KIND: u16 = 20;
    const HEAD: usize = 16;
    const SHOW: u32 = 0x10;
    const LENGTHS: u16 = 4;
    let file = fstat(borrowed(number).ok()?).ok()?.st_ino as u32;
    // Which states, which socket, what of it, and of whatever cookie.
    let words = [u32::from(libc::AF_UNIX as u8), u32::MAX, file, SHOW, u32::MAX, u32::MAX];
    let head: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let answer = Request::one(KIND, &head).ask(libc::NETLINK_SOCK_DIAG).ok()?;
    let attributes = Attributes::behind(answer.first()?, HEAD).ok()?;
    // `struct unix_diag_rqlen`: of one that listens, first those that wait.
    attributes.number(LENGTHS).map(i64::from)
}

/// What TCP says of a socket (TCP_INFO, tcp(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// It takes connections.
    pub listens: bool,
    /// Of one that listens: connections that nobody has accepted. Of others: segments on their way.
    pub waiting: i64,
    /// Segments sent more than once.
    pub retransmitted: u32,
    /// Segments that came from the peer.
    pub heard: u32,
    /// There was a connection: the peer has acknowledged something, or said more than one thing.
    pub was_connected: bool,
}

/// What of a file can change, as far as it is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileState {
    /// Bytes.
    pub size: i64,
    /// How many names it has.
    pub links: u64,
    /// Permissions, and whose it is.
    pub attributes: (u32, u32, u32),
    /// When it was written last; nanoseconds since 1970.
    pub modified: i128,
}

/// How a file is now.
///
/// # Errors
/// EBADF if it is not open.
pub fn file_state(number: RawFd) -> Result<FileState, i32> {
    let status = fstat(borrowed(number)?).map_err(|error| error.raw_os_error())?;
    // The widths of these differ between machines.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    Ok(FileState {
        size: status.st_size,
        links: u64::from(status.st_nlink),
        attributes: (status.st_mode, status.st_uid, status.st_gid),
        modified: i128::from(status.st_mtime) * 1_000_000_000 + i128::from(status.st_mtime_nsec),
    })
}

/// Whether a pipe was made by pipe(2) and has no name.
pub fn is_nameless_pipe(number: RawFd) -> bool {
    // PIPEFS_MAGIC (include/uapi/linux/magic.h).
    const PIPES: i64 = 0x5049_5045;
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    borrowed(number).is_ok_and(|pipe| rustix::fs::fstatfs(pipe).is_ok_and(|system| system.f_type as i64 == PIPES))
}

/// Where in a file the next byte is read.
///
/// # Errors
/// EBADF if it is not open.
pub fn offset(number: RawFd) -> Result<i64, i32> {
    let offset = seek(borrowed(number)?, SeekFrom::Current(0)).map_err(|error| error.raw_os_error())?;
    Ok(i64::try_from(offset).unwrap_or(i64::MAX))
}

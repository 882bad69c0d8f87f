//! Sockets of this machine (unix(7)), for threads that may wait.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{self, AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::geteuid;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// Connects to the socket at `path`, of at most 107 bytes; waits at most `patience` where its queue is full, and gives up a write after
/// as long.
///
/// # Errors
/// `InvalidFilename` for a longer path; what the system says (connect(2)).
pub fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    assert!(!patience.is_zero(), "no time at all would be for ever (SO_SNDTIMEO)");
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    net::connect(&socket, &address)?;
    Ok(socket.into())
}

/// Has no more than so many connections wait to be accepted; whoever comes beside them waits in connect(2), each in its turn (unix(7)).
///
/// # Errors
/// What the system says.
pub fn bound_queue(listener: &UnixListener, most: u16) -> io::Result<()> {
    Ok(net::listen(listener, most.into())?)
}

/// Ends listening, whatever copies of the descriptor there are in other tables: nobody connects any more, and who accepts gets those that
/// wait, and then `InvalidInput`.
pub fn end_listening(listener: &UnixListener) {
    let ended = net::shutdown(listener, Shutdown::Both);
    assert!(ended.is_ok(), "a socket that listens can be ended");
}

/// Whether nobody holds the other end any more, or both directions were shut down there (poll(2)).
pub fn has_gone(stream: &UnixStream) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::empty())];
    // What cannot be asked is as good as gone.
    retry_on_intr(|| poll(&mut polled, Some(&Timespec::default()))).is_err() || polled[0].revents().contains(PollFlags::HUP)
}

/// Whether the other end was connected by this user, or by root (SO_PEERCRED).
pub fn is_ours(stream: &UnixStream) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid == geteuid() || peer.uid.is_root())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::Shutdown;

    #[test]
    fn an_end_that_is_there_is_told_from_one_that_has_gone() {
        let (one, mut other) = UnixStream::pair().unwrap();
        other.write_all(b"words").unwrap();
        one.shutdown(Shutdown::Read).unwrap();
        assert!(!has_gone(&one), "it may still listen");
        drop(other);
        assert!(has_gone(&one));
        let (one, other) = UnixStream::pair().unwrap();
        other.shutdown(Shutdown::Both).unwrap();
        assert!(has_gone(&one));
    }
}

//! Descriptors on their way from one table to another, beside bytes of a Unix socket (SCM_RIGHTS, unix(7)).

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Two sockets, each the other's peer, that nobody waits at: what is sent at one arrives at the other. Made before lanes have tables of their own, they go into these.
///
/// # Errors
/// What the system says (socketpair(2)).
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?)
}

/// Sends the beginning of `bytes`, with descriptors beside the first of them, at most [`DESCRIPTORS_MAX`]; returns how many bytes have left. Waits as the
/// socket does.
///
/// # Errors
/// What the system says (sendmsg(2)).
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    assert!(!bytes.is_empty() && descriptors.len() <= DESCRIPTORS_MAX, "descriptors go beside bytes, so many at a time");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(descriptors)), "there is room for them");
    Ok(retry_on_intr(|| sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL))?)
}

/// Closes a lane's copy of a descriptor that the process opened for others, by its number, in the lane's own table.
pub fn close_copy(number: i32) {
    assert!(number > 2, "a descriptor that was handed over");
    // SAFETY: the calling thread has a table of its own, in which nobody owns this copy.
    let closed = unsafe { libc::close(number) };
    assert!(closed == 0, "a copy is closed once");
}

/// Receives into `bytes`, and the descriptors that came beside them, at most `DESCRIPTORS_MAX`; returns how many bytes came, 0 at the end. Waits as the socket does.
///
/// # Errors
/// What the system says (recvmsg(2)); `InvalidData` for more descriptors than there is room for, which are closed.
pub fn receive(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        match recvmsg(socket.as_fd(), &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            got => break got?,
        }
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if got.flags.contains(rustix::net::ReturnFlags::CTRUNC) {
        return Err(ErrorKind::InvalidData.into());
    }
    Ok((got.bytes, descriptors))
}

/// The most descriptors that go beside the bytes of one call; the system takes 253 (SCM_MAX_FD).
pub const DESCRIPTORS_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockets;
    use rustix::io::ioctl_fionbio;
    use std::net::TcpListener;

    #[test]
    fn a_descriptor_arrives_with_its_first_byte() {
        let (one, other) = pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(send(one.as_fd(), b"plain", &[]).unwrap(), 5);
        assert_eq!(send(one.as_fd(), b"x", &[listener.as_fd()]).unwrap(), 1);
        let mut bytes = [0; 64];
        let (mut got, mut with) = receive(other.as_fd(), &mut bytes).unwrap();
        while got < 6 {
            let (more, rights) = receive(other.as_fd(), &mut bytes[got..]).unwrap();
            got += more;
            with.extend(rights);
        }
        assert_eq!((&bytes[..got], with.len()), (&b"plainx"[..], 1));
        let address = sockets::local_address(with[0].as_fd()).unwrap();
        assert_eq!(address, corelane_seam::Address::from(listener.local_addr().unwrap()));
        drop(one);
        // A child that another test begins has it open too, until it runs its program: so the end is waited for.
        ioctl_fionbio(&other, false).unwrap();
        assert_eq!(receive(other.as_fd(), &mut bytes).unwrap().0, 0);
    }

    #[test]
    fn who_has_no_room_is_told_at_once() {
        let (one, _other) = pair().unwrap();
        let full = (0..1_000_000).find_map(|_| send(one.as_fd(), &[0; 4096], &[]).err());
        assert_eq!(full.unwrap().kind(), ErrorKind::WouldBlock);
    }
}

//! Moving bytes of streams: recv(2) into a lease, sendmsg(2), sendfile(2) and splice(2) from a chain.

use crate::notices::Notices;
use crate::pipes::Pipe;
use corelane_os::errno::fault_of;
use corelane_os::uncopied::UNCOPIED;
use corelane_seam::{Chain, Fault, File, FilePart, Lease, Piped, Sealed, Segment};
use rustix::fs::sendfile;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{self, RecvFlags, SendAncillaryBuffer, SendFlags};
use std::io::IoSlice;
use std::os::fd::BorrowedFd;

/// Segments that one call sends; a longer chain takes several.
const GATHER_MAX: usize = 64;
/// Bytes of a file that one call sends at the most: a multiple of a page under the kernel's own limit (sendfile(2)).
const FILE_BYTES_MAX: u64 = 0x7fff_0000;
/// Sealed bytes of which so many are sent leave from their file: fewer cost less to copy.
pub(crate) const SEALED_BYTES_LEAST: usize = 32 << 10;

/// What a receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// So many bytes, at least one; the lease holds them.
    Bytes(usize),
    /// The peer has finished sending.
    End,
    /// Nothing is there.
    Nothing,
    Failed(Fault),
}

/// Receives once into `lease`, behind its data, until it holds `until` bytes at the most.
pub(crate) fn receive(socket: BorrowedFd, lease: &mut Lease, until: usize) -> Received {
    let room = until.min(lease.capacity()) - lease.len();
    assert!(room > 0, "a receive without room would look like the end of the stream");
    let place = &mut lease.spare()[..room];
    match retry_on_intr(|| net::recv(socket, &mut *place, RecvFlags::empty())) {
        Ok((0, _)) => Received::End,
        Ok((bytes, _)) => {
            assert!(bytes <= room, "the kernel writes within the room");
            lease.advance(bytes);
            Received::Bytes(bytes)
        }
        Err(Errno::AGAIN) => Received::Nothing,
        Err(error) => Received::Failed(fault_of(error)),
    }
}

/// How far a send came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Bytes that the system took; they are gone from the chain.
    pub(crate) bytes: usize,
    /// System calls used.
    pub(crate) calls: u64,
    /// Why the connection is broken, if it is. Without a fault, what is left did not fit.
    pub(crate) fault: Option<Fault>,
    /// Of the calls, those that sent sealed bytes from their file.
    pub(crate) from_sealed: u64,
    /// Those that sent a part of a file.
    pub(crate) from_file: u64,
    /// There was no room for one more notice: something was copied for that.
    pub(crate) lacked_room: bool,
}

/// Sends as much of the chain as the socket takes. `file` finds the descriptor of a file in the chain.
///
/// sendfile(2) has no way to spare its thread the signal SIGPIPE; Rust programs start with that signal ignored.
pub(crate) fn send<'f>(socket: BorrowedFd, chain: &mut Chain, file: impl Fn(&File) -> Option<BorrowedFd<'f>>) -> Sent {
    send_all(chain, |chain, sent| send_front(socket, chain, &file, sent))
}

/// Sends what lies in front, and takes it off; returns how many bytes were asked for, too. What is given to the kernel to copy, and what never changes, is released with that.
#[inline]
fn send_front<'f>(
    socket: BorrowedFd,
    chain: &mut Chain,
    file: impl Fn(&File) -> Option<BorrowedFd<'f>>,
    sent: &mut Sent,
) -> (usize, Result<usize, Errno>) {
    let (asked, answer) = match chain.front() {
        Some(Segment::File(part)) => {
            let (asked, answer) = send_file(socket, part, file(&part.file));
            sent.from_file += u64::from(answer.is_ok());
            (asked, answer)
        }
        Some(Segment::Piped(piped)) => send_piped(socket, piped, piped.len() < chain.len()),
        Some(Segment::Sealed(sealed)) if is_shared(sealed) => {
            let (asked, answer, is_copied) = send_sealed(socket, sealed);
            sent.from_sealed += u64::from(answer.is_ok() && !is_copied);
            (asked, answer)
        }
        _ => send_memory(socket, chain),
    };
    if let Ok(bytes) = answer {
        chain.skip(bytes);
    }
    (asked, answer)
}

/// The same, where the kernel reads memory from where it lies: that is moved to `kept`, and each such call takes a number of `notices`.
pub(crate) fn send_uncopied<'f>(
    socket: BorrowedFd,
    chain: &mut Chain,
    file: impl Fn(&File) -> Option<BorrowedFd<'f>>,
    (notices, kept): (&mut Notices, &mut Chain),
) -> Sent {
    send_all(chain, |chain, sent| {
        if !sent.lacked_room && chain.front().and_then(memory).is_some() {
            match send_many(socket, chain, UNCOPIED) {
                // There is no room for one more notice, or no more memory may be held so: the rest is copied.
                (_, Err(Errno::NOBUFS)) => sent.lacked_room = true,
                (asked, answer) => {
                    if let Ok(bytes) = answer {
                        notices.take();
                        chain.move_to(bytes, kept);
                    }
                    return (asked, answer);
                }
            }
        }
        send_front(socket, chain, &file, sent)
    })
}

/// Has `call` send from the front of the chain, and take off it what it has sent, until nothing more goes. It returns how many bytes it asked for, too.
fn send_all(chain: &mut Chain, mut call: impl FnMut(&mut Chain, &mut Sent) -> (usize, Result<usize, Errno>)) -> Sent {
    let mut sent = Sent::default();
    while !chain.is_empty() {
        let before = chain.len();
        let (asked, answer) = call(chain, &mut sent);
        sent.calls += 1;
        match answer {
            Ok(bytes) => {
                assert!(bytes > 0 && bytes <= asked && chain.len() + bytes == before, "the system takes what it was given");
                sent.bytes += bytes;
                // A call that took less than it was given has found the socket full.
                if bytes < asked {
                    break;
                }
            }
            Err(Errno::AGAIN) => break,
            Err(error) => {
                sent.fault = Some(fault_of(error));
                break;
            }
        }
    }
    sent
}

/// Sends segments of memory from the front; returns how many bytes were asked for, too. The usual chain has one, which
/// the kernel takes at less cost without a list of them.
fn send_memory(socket: BorrowedFd, chain: &Chain) -> (usize, Result<usize, Errno>) {
    match chain.front().and_then(memory) {
        Some(bytes) if bytes.len() == chain.len() => {
            (bytes.len(), retry_on_intr(|| net::send(socket, bytes, SendFlags::NOSIGNAL)))
        }
        _ => send_many(socket, chain, SendFlags::empty()),
    }
}

fn send_many(socket: BorrowedFd, chain: &Chain, how: SendFlags) -> (usize, Result<usize, Errno>) {
    let mut slices = [IoSlice::new(&[]); GATHER_MAX];
    let (mut count, mut asked) = (0, 0);
    for (part, slice) in chain.segments().map_while(memory).zip(&mut slices) {
        *slice = IoSlice::new(part);
        count += 1;
        asked += part.len();
    }
    assert!(count > 0, "the first segment is memory, and segments are never empty");
    let more = if asked < chain.len() { SendFlags::MORE } else { SendFlags::empty() };
    let mut nothing_beside = SendAncillaryBuffer::default();
    let call = || net::sendmsg(socket, &slices[..count], &mut nothing_beside, SendFlags::NOSIGNAL | more | how);
    (asked, retry_on_intr(call))
}

/// The bytes of a segment that leaves from memory.
fn memory(segment: &Segment) -> Option<&[u8]> {
    match segment {
        Segment::Sealed(sealed) if is_shared(sealed) => None,
        other => other.bytes(),
    }
}

/// Whether a segment leaves from no memory that a notice could tell of: from a pipe, a file, or with the pages of sealed memory.
#[inline]
pub(crate) fn leaves_apart(segment: &Segment) -> bool {
    match segment {
        Segment::Sealed(sealed) => is_shared(sealed),
        Segment::Piped(_) | Segment::File(_) => true,
        _ => false,
    }
}

/// Whether the receiver may be given the very pages of these bytes, and that is worth it.
fn is_shared(sealed: &Sealed) -> bool {
    sealed.len() >= SEALED_BYTES_LEAST && sealed.file().is_some()
}

/// Sends sealed bytes from their file; returns how many were asked for, and whether they were copied, too: so it is where the kernel has no such call for a socket.
fn send_sealed(socket: BorrowedFd, sealed: &Sealed) -> (usize, Result<usize, Errno>, bool) {
    // reason: whoever is shared has a file.
    let (file, mut offset) = sealed.file().expect("shared bytes have a file");
    match retry_on_intr(|| sendfile(socket, file, Some(&mut offset), sealed.len())) {
        Err(Errno::INVAL) => (sealed.len(), retry_on_intr(|| net::send(socket, sealed, SendFlags::NOSIGNAL)), true),
        answer => (sealed.len(), answer, false),
    }
}

/// Sends bytes that lie in a pipe. Says that it has asked for what went: that fewer went does not show that the socket is full, so it is tried until that is told.
fn send_piped(socket: BorrowedFd, piped: &Piped, more: bool) -> (usize, Result<usize, Errno>) {
    let answer = piped.pipe::<Pipe>().ok_or(Errno::BADF).and_then(|pipe| pipe.send(socket, piped, more));
    (answer.unwrap_or(piped.len()), answer)
}

/// Sends a part of a file; returns how many bytes were asked for, too.
fn send_file(socket: BorrowedFd, part: &FilePart, file: Option<BorrowedFd>) -> (usize, Result<usize, Errno>) {
    let asked = part.length.min(FILE_BYTES_MAX) as usize;
    let mut offset = part.offset;
    let Some(file) = file.filter(|_| i64::try_from(offset).is_ok()) else { return (asked, Err(Errno::BADF)) };
    let answer = retry_on_intr(|| sendfile(socket, file, Some(&mut offset), asked));
    // Without a byte, the file has become shorter than what was promised to the peer.
    (asked, answer.and_then(|bytes| if bytes == 0 { Err(Errno::NODATA) } else { Ok(bytes) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_os::testing::{network, pair, skip, wait_for};
    use corelane_os::uncopied;
    use corelane_seam::{Arena, Reason};
    use std::io::Write;
    use std::os::fd::AsFd;

    fn no_file<'f>(_: &File) -> Option<BorrowedFd<'f>> {
        None
    }

    /// Receives until `bytes` have come.
    fn receive_all(socket: BorrowedFd, arena: &Arena, bytes: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < bytes {
            wait_for(socket, libc::POLLIN);
            let mut lease = arena.lease(64 << 10).unwrap();
            assert!(matches!(receive(socket, &mut lease, usize::MAX), Received::Bytes(_)));
            all.extend_from_slice(&lease);
        }
        all
    }

    #[test]
    fn a_chain_of_many_segments_arrives_in_order() {
        let (server, client) = pair();
        let arena = Arena::new(1).unwrap();
        let (mut chain, mut expected) = (Chain::new(), Vec::new());
        for number in 0..3 * GATHER_MAX {
            let part = vec![number as u8; 1 + number % 7];
            expected.extend_from_slice(&part);
            match number % 2 {
                0 => chain.push(arena.copy_of(&part).unwrap().share()),
                _ => chain.push(Segment::Static(Box::leak(part.into_boxed_slice()))),
            }
        }
        let sent = send(server.as_fd(), &mut chain, no_file);
        assert_eq!(sent, Sent { bytes: expected.len(), calls: 3, ..Sent::default() });
        assert!(chain.is_empty() && arena.used() == 0);
        assert_eq!(receive_all(client.as_fd(), &arena, expected.len()), expected);
    }

    #[test]
    fn memory_and_files_alternate() {
        let (server, client) = pair();
        let arena = Arena::new(1).unwrap();
        let path = std::env::temp_dir().join(format!("corelane-stream-{}", std::process::id()));
        let mut file = std::fs::File::create_new(&path).unwrap();
        file.write_all(b"0123456789").unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let name = File::new(7, 1);
        let mut chain = Chain::new();
        chain.push(Segment::Static(b"<"));
        chain.push(FilePart { file: name.clone(), offset: 2, length: 5 });
        chain.push(Segment::Static(b">"));
        let find = |asked: &File| (*asked == name).then(|| file.as_fd());
        assert_eq!(send(server.as_fd(), &mut chain, find), Sent { bytes: 7, calls: 3, from_file: 1, ..Sent::default() });
        assert_eq!(receive_all(client.as_fd(), &arena, 7), b"<23456>");
        chain.push(FilePart { file: name.clone(), offset: 8, length: 5 });
        let short = send(server.as_fd(), &mut chain, find);
        assert_eq!((short.bytes, chain.len()), (2, 3));
        let gone = send(server.as_fd(), &mut chain, find);
        assert_eq!((gone.bytes, gone.fault.map(|fault| fault.number)), (0, Some(libc::ENODATA)));
        assert_eq!(send(server.as_fd(), &mut chain, no_file).fault.map(|fault| fault.number), Some(libc::EBADF));
    }

    #[test]
    fn sealed_bytes_that_the_kernel_gives_no_pages_of_are_copied_and_not_counted() {
        let bytes = vec![7; SEALED_BYTES_LEAST];
        for refuses in [false, true] {
            let (server, client) = pair();
            // No call splices into what is only to be appended to (sendfile(2)).
            let flags = rustix::fs::fcntl_getfl(&server).unwrap();
            let wanted = if refuses { flags | rustix::fs::OFlags::APPEND } else { flags };
            rustix::fs::fcntl_setfl(&server, wanted).unwrap();
            let mut chain = Chain::new();
            chain.push(corelane_os::sealed_file::seal(&[&bytes]).unwrap());
            let sent = send(server.as_fd(), &mut chain, no_file);
            assert_eq!((sent.bytes, sent.fault, sent.from_sealed), (bytes.len(), None, u64::from(!refuses)));
            assert_eq!(receive_all(client.as_fd(), &Arena::new(1).unwrap(), bytes.len()), bytes);
        }
    }

    /// Notices take some of a bounded room (net.core.optmem_max, of each network namespace from Linux 6.8).
    #[test]
    fn where_there_is_no_room_for_notices_bytes_are_copied() {
        const NAME: &str = "where_there_is_no_room_for_notices_bytes_are_copied";
        network::on_thread(NAME, || {
            let made = network::unshared().and_then(|_| network::ip(&["link set lo up".to_owned()]));
            if let Err(why) = made {
                return skip(NAME, &why);
            }
            if !std::path::Path::new("/proc/sys/net/core/optmem_max").exists() {
                return skip(NAME, "this kernel has one such room for all namespaces");
            }
            let (server, client) = pair();
            uncopied::allow(server.as_fd()).unwrap();
            let (mut notices, mut kept) = (Notices::default(), Chain::new());
            let arena = Arena::new(1 << 20).unwrap();
            for (room, is_kept) in [("131072", true), ("1", false), ("131072", true)] {
                network::sysctl("net/core/optmem_max", room);
                let mut chain = Chain::new();
                (0..3).for_each(|_| chain.push(arena.copy_of(&[1; 4096]).unwrap().share()));
                let sent = send_uncopied(server.as_fd(), &mut chain, no_file, (&mut notices, &mut kept));
                assert_eq!((sent.bytes, sent.fault, sent.lacked_room), (12_288, None, !is_kept));
                assert_eq!((kept.len(), chain.len()), (if is_kept { 12_288 } else { 0 }, 0));
                assert_eq!(receive_all(client.as_fd(), &arena, 12_288), [1; 12_288]);
                kept.clear();
            }
            assert_eq!(notices.last(), 1, "what was copied has no number");
        });
    }

    #[test]
    fn a_full_socket_and_a_broken_one_are_told_apart() {
        let (server, client) = pair();
        static BYTES: [u8; 1 << 20] = [1; 1 << 20];
        let fill = || {
            let mut chain = Chain::new();
            (0..64).for_each(|_| chain.push(Segment::Static(&BYTES)));
            (send(server.as_fd(), &mut chain, no_file), chain.len())
        };
        let (sent, left) = fill();
        assert!(sent.fault.is_none() && left > 0 && sent.bytes + left == 64 << 20);
        while fill().0.bytes > 0 {}
        drop(client);
        wait_for(server.as_fd(), libc::POLLERR);
        assert!(matches!(fill().0, Sent { bytes: 0, fault: Some(Fault { reason: Reason::Reset, .. }), .. }));
        let mut lease = Arena::new(1).unwrap().lease(1).unwrap();
        assert_eq!(receive(server.as_fd(), &mut lease, 256), Received::End);
    }

    #[test]
    fn receiving_stays_within_its_bound() {
        let (server, client) = pair();
        let arena = Arena::new(1).unwrap();
        let mut lease = arena.copy_of(b"kept").unwrap();
        assert_eq!(receive(server.as_fd(), &mut lease, 8), Received::Nothing);
        let mut chain = Chain::new();
        chain.push(Segment::Static(b"abcdef"));
        send(client.as_fd(), &mut chain, no_file);
        wait_for(server.as_fd(), libc::POLLIN);
        assert_eq!(receive(server.as_fd(), &mut lease, 8), Received::Bytes(4));
        assert_eq!(receive(server.as_fd(), &mut lease, 256), Received::Bytes(2));
        assert_eq!(&*lease, b"keptabcdef");
        drop(client);
        wait_for(server.as_fd(), libc::POLLIN);
        assert_eq!(receive(server.as_fd(), &mut lease, 256), Received::End);
    }
}

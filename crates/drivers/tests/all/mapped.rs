//! Receives whose bytes are mapped in place of being copied (TCP_ZEROCOPY_RECEIVE, since Linux 4.18): why no driver asks for that.
//!
//! The kernel maps whole pages of which each is a piece of its own. Bytes that a socket is given by send(2) lie in blocks of eight pages. So nothing of that is mapped over loopback,
//! or from the other end of a virtual cable. Where `net.core.high_order_alloc_disable` is 1 nearly all is, and costs more than its copy. A sender that asks for no copy has the
//! kernel copy into single pages there. With segments of whole pages all is mapped, and costs less than its copy. See `DESIGN.md`. More:
//!
//! ```text
//! CORELANE_MAPPED_BYTES=4000000000 cargo test --package corelane-drivers --test all mapped:: -- --nocapture
//! ```
#![expect(unsafe_code, reason = "no library knows the call")]

use crate::corruption::Link;
use corelane_os::sealed_file;
use corelane_os::sockets;
use corelane_os::testing::{network, skip, wait_for};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// How many bytes come by each way.
const AMOUNT: &str = "CORELANE_MAPPED_BYTES";
/// So many unless it is told.
const BYTES: u64 = 64 << 20;
/// Bytes of a send: whole pages, so that a page could be mapped.
const SEND: usize = 64 << 10;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Where memory begins that is sent uncopied: with a huge page, if it has some.
const ALIGNED: usize = 2 << 20;
/// Bytes of a segment, with the 12 of its time stamps: a whole page.
const SEGMENT: libc::c_int = 4096 + 12;
/// Bytes of a packet that holds such a segment.
const PACKET: u32 = 4200;
/// Bytes that are asked for at once.
const ROOM: usize = 1 << 20;
/// Of `netinet/tcp.h`, which knows it under this number only since it has the structure.
const TCP_ZEROCOPY_RECEIVE: libc::c_int = 35;

/// The question, and the kernel's answer in its place (include/uapi/linux/tcp.h: the fields of Linux 4.18).
#[repr(C)]
struct Asked {
    address: u64,
    /// In: bytes to be mapped at most. Out: bytes that were.
    length: u32,
    /// Out: bytes that are to be received in another way before more can be mapped.
    to_skip: u32,
}

/// Addresses at which pages of a socket are mapped.
struct Window(*mut libc::c_void);

impl Window {
    fn of(socket: BorrowedFd) -> Self {
        // SAFETY: new addresses are asked for, and nobody else's are changed.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), ROOM, libc::PROT_READ, libc::MAP_SHARED, socket.as_raw_fd(), 0) };
        assert!(start != libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        Self(start)
    }

    /// Maps what has come; returns that, and how many bytes are to be copied first.
    fn map(&mut self, socket: BorrowedFd) -> (&[u8], usize) {
        let mut asked = Asked { address: self.0.addr() as u64, length: ROOM as u32, to_skip: 0 };
        let mut length = size_of::<Asked>() as libc::socklen_t;
        let place = std::ptr::from_mut(&mut asked).cast();
        // SAFETY: the kernel writes within the structure, and maps pages within the window.
        let result = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, place, &mut length) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: these pages stay until the next call, and whoever has sent them never writes them.
        let mapped = unsafe { std::slice::from_raw_parts(self.0.cast(), asked.length as usize) };
        (mapped, asked.to_skip as usize)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the addresses are its own, and nothing borrows what lies there.
        unsafe { libc::munmap(self.0, ROOM) };
    }
}

/// How the peer's bytes leave.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sent {
    FromMemory,
    FromFile,
    /// From memory that begins with a page, where the kernel is asked to read it (MSG_ZEROCOPY), in segments of whole pages.
    Uncopied,
}

/// The way in which a receiver takes bytes.
#[derive(Clone, Copy, Debug)]
struct Receiver {
    /// Asks for its bytes to be mapped.
    maps: bool,
    /// Reads of each cache line, so all of it has to come to the CPU. A copy has brought it there before.
    reads: bool,
}

/// The way in which a stream's bytes came.
#[derive(Debug, Default)]
struct Came {
    mapped: u64,
    copied: u64,
    /// Nanoseconds of the receiver's thread.
    cpu: u64,
    /// Nanoseconds that all of it took.
    time: u64,
}

fn cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Receiver {
    fn read(self, bytes: &[u8]) {
        if self.reads {
            let mut sum = 0u8;
            for place in (0..bytes.len()).step_by(LINE) {
                sum = sum.wrapping_add(bytes[place]);
            }
            std::hint::black_box(sum);
        }
    }

    fn receive(self, socket: BorrowedFd, bytes: u64) -> Came {
        let (mut window, mut room, mut came) = (Window::of(socket), vec![0; SEND], Came::default());
        let (begin, begin_cpu) = (Instant::now(), cpu());
        while came.mapped + came.copied < bytes {
            let (mapped, to_skip) = if self.maps { window.map(socket) } else { (&[][..], SEND) };
            self.read(mapped);
            let is_empty = mapped.is_empty();
            came.mapped += mapped.len() as u64;
            if to_skip > 0 {
                let most = to_skip.min(room.len());
                match recv(socket, &mut room[..most], RecvFlags::DONTWAIT) {
                    Ok((count, _)) => {
                        self.read(&room[..count]);
                        came.copied += count as u64;
                    }
                    Err(_) => wait_for(socket, libc::POLLIN),
                }
            } else if is_empty {
                wait_for(socket, libc::POLLIN);
            }
        }
        (came.cpu, came.time) = (cpu() - begin_cpu, begin.elapsed().as_nanos() as u64);
        came
    }
}

fn give(socket: &OwnedFd, bytes: u64, sent: Sent) {
    let room = vec![7; SEND + ALIGNED];
    let memory = &room[room.as_ptr().align_offset(ALIGNED)..][..SEND];
    let sealed = sealed_file::seal(&[memory]).unwrap();
    if sent == Sent::Uncopied {
        set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1);
    }
    let mut left = bytes as usize;
    while left > 0 {
        let most = left.min(SEND);
        let given = match sent {
            Sent::FromMemory => send(socket, &memory[..most], SendFlags::empty()),
            Sent::FromFile => rustix::fs::sendfile(socket, sealed.file().unwrap().0, Some(&mut 0), most),
            Sent::Uncopied => send(socket, &memory[..most], SendFlags::from_bits_retain(libc::MSG_ZEROCOPY as u32)),
        };
        // Notices take room, and wake a sender that waits. The bytes that were sent never change here, so nobody has to look at the notices.
        while sent == Sent::Uncopied && recv(socket, &mut [0; 0][..], RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT).is_ok() {}
        match given {
            Ok(count) => left -= count,
            Err(Errno::AGAIN) => wait_for(socket.as_fd(), libc::POLLOUT),
            Err(Errno::NOBUFS) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn set(socket: BorrowedFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel reads the number within the call.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), length) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// A connection that comes to this end of a link: its two ends, the receiver's first.
fn joined(link: &Link, sent: Sent) -> (OwnedFd, OwnedFd) {
    let listener = sockets::listen(&crate::sender::at(link.address)).unwrap();
    if sent == Sent::Uncopied {
        set(listener.as_fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG, SEGMENT);
    }
    let peer = link.connect(sockets::local_address(listener.as_fd()).unwrap());
    wait_for(listener.as_fd(), libc::POLLIN);
    (rustix::net::accept(&listener).unwrap(), peer)
}

/// Bytes that come over a link, by a way of leaving and each way of receiving.
fn come(link: &Link, sent: Sent, has_single_pages: bool) {
    let bytes = std::env::var(AMOUNT).map_or(BYTES, |amount| amount.parse().unwrap());
    let receivers = [(false, false), (true, false), (false, true), (true, true)].map(|(maps, reads)| Receiver { maps, reads });
    // Where all is copied, it makes no difference to read it.
    let different = if sent == Sent::Uncopied { 4 } else { 2 };
    for receiver in &receivers[..different] {
        let (socket, peer) = joined(link, sent);
        let came = std::thread::scope(|scope| {
            scope.spawn(|| give(&peer, bytes, sent));
            receiver.receive(socket.as_fd(), bytes)
        });
        let per_gib = came.cpu as f64 / 1e9 / (bytes as f64 / (1u64 << 30) as f64);
        println!("{} {sent:?}, {receiver:?}: {came:?}, {per_gib:.3} s of CPU a GiB", link.address);
        assert_eq!(came.mapped + came.copied, bytes);
        let may_be_mapped = receiver.maps && (sent != Sent::FromMemory || has_single_pages);
        // The kernel takes single pages, which can be mapped, where its memory is in pieces.
        assert!(came.mapped < bytes / 2 || may_be_mapped, "whether that pays is to be seen anew");
    }
}

/// By each way of leaving.
fn all_come(link: &Link, has_single_pages: bool) {
    [Sent::FromMemory, Sent::FromFile].iter().for_each(|&sent| come(link, sent, has_single_pages));
    link.with_packets_of(PACKET);
    come(link, Sent::Uncopied, has_single_pages);
}

#[test]
fn what_comes_over_loopback_and_virtual_cards_is_copied() {
    const NAME: &str = "mapped::what_comes_over_loopback_and_virtual_cards_is_copied";
    // Of the whole machine, and seen in its first network namespace alone.
    let setting = std::fs::read_to_string("/proc/sys/net/core/high_order_alloc_disable");
    let has_single_pages = setting.is_ok_and(|text| text.trim() == "1");
    all_come(&Link::LOOPBACK, has_single_pages);
    network::on_thread(NAME, || match Link::cards() {
        Ok(link) => all_come(&link, has_single_pages),
        Err(why) => skip(NAME, &why),
    });
}

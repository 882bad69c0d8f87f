//! Receives whose bytes are mapped in place of being copied (TCP_ZEROCOPY_RECEIVE, since Linux 4.18): why no driver asks for that.
//!
//! The kernel maps whole pages of which each is a piece of its own. Bytes that a socket is given by send(2) lie in blocks of eight pages. So nothing of that is mapped over loopback,
//! or from the other end of a virtual cable. Where `net.core.high_order_alloc_disable` is 1 nearly all is, and costs more than its copy: the figures stand in `DESIGN.md`. More:
//!
//! ```text
//! CORELANE_MAPPED_BYTES=4000000000 cargo test --package corelane-drivers --test all mapped:: -- --nocapture
//! ```
#![expect(unsafe_code, reason = "no library knows the call")]

use crate::corruption::Link;
use corelane_os::sealed_file;
use corelane_os::sockets;
use corelane_os::testing::{network, skip, wait_for};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// How many bytes come by each way.
const AMOUNT: &str = "CORELANE_MAPPED_BYTES";
/// So many unless it is told.
const BYTES: u64 = 64 << 20;
/// Bytes of a send: whole pages, so that a page could be mapped.
const SEND: usize = 64 << 10;
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

    /// Maps what has come; says how many bytes that is, and how many are to be copied first.
    fn map(&self, socket: BorrowedFd) -> (usize, usize) {
        let mut asked = Asked { address: self.0.addr() as u64, length: ROOM as u32, to_skip: 0 };
        let mut length = size_of::<Asked>() as libc::socklen_t;
        let place = std::ptr::from_mut(&mut asked).cast();
        // SAFETY: the kernel writes within the structure, and maps pages within the window.
        let result = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, place, &mut length) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        (asked.length as usize, asked.to_skip as usize)
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
}

/// The way in which a stream's bytes came.
#[derive(Debug, Default)]
struct Came {
    mapped: u64,
    copied: u64,
    /// Nanoseconds of the receiver's thread.
    cpu: u64,
}

fn cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn receive(socket: BorrowedFd, bytes: u64, maps: bool) -> Came {
    let (window, mut room, mut came) = (Window::of(socket), vec![0; SEND], Came::default());
    let begin = cpu();
    while came.mapped + came.copied < bytes {
        let (mapped, to_skip) = if maps { window.map(socket) } else { (0, SEND) };
        came.mapped += mapped as u64;
        if to_skip > 0 {
            let most = to_skip.min(room.len());
            match recv(socket, &mut room[..most], RecvFlags::DONTWAIT) {
                Ok((count, _)) => came.copied += count as u64,
                Err(_) => wait_for(socket, libc::POLLIN),
            }
        } else if mapped == 0 {
            wait_for(socket, libc::POLLIN);
        }
    }
    came.cpu = cpu() - begin;
    came
}

fn give(socket: &OwnedFd, bytes: u64, sent: Sent) {
    let memory = vec![7; SEND];
    let sealed = sealed_file::seal(&[&memory]).unwrap();
    let mut left = bytes as usize;
    while left > 0 {
        let most = left.min(SEND);
        let given = match sent {
            Sent::FromMemory => send(socket, &memory[..most], SendFlags::empty()),
            Sent::FromFile => rustix::fs::sendfile(socket, sealed.file().unwrap().0, Some(&mut 0), most),
        };
        match given {
            Ok(count) => left -= count,
            Err(_) => wait_for(socket.as_fd(), libc::POLLOUT),
        }
    }
}

/// Bytes that come over a link, each way of leaving by each way of receiving.
fn come(link: &Link, has_single_pages: bool) {
    let bytes = std::env::var(AMOUNT).map_or(BYTES, |amount| amount.parse().unwrap());
    for sent in [Sent::FromMemory, Sent::FromFile] {
        for maps in [false, true] {
            let listener = sockets::listen(&crate::sender::at(link.address)).unwrap();
            let peer = link.connect(sockets::local_address(listener.as_fd()).unwrap());
            wait_for(listener.as_fd(), libc::POLLIN);
            let socket = rustix::net::accept(&listener).unwrap();
            let came = std::thread::scope(|scope| {
                scope.spawn(|| give(&peer, bytes, sent));
                receive(socket.as_fd(), bytes, maps)
            });
            let per_gib = came.cpu as f64 / 1e9 / (bytes as f64 / (1u64 << 30) as f64);
            println!("{} {sent:?}, asked to be mapped: {maps}: {came:?}, {per_gib:.3} s of CPU a GiB", link.address);
            assert_eq!(came.mapped + came.copied, bytes);
            let may_be_mapped = maps && (sent == Sent::FromFile || has_single_pages);
            // The kernel takes single pages, which can be mapped, where its memory is in pieces.
            assert!(came.mapped < bytes / 2 || may_be_mapped, "whether that pays is to be seen anew");
        }
    }
}

#[test]
fn what_comes_over_loopback_and_virtual_cards_is_copied() {
    const NAME: &str = "mapped::what_comes_over_loopback_and_virtual_cards_is_copied";
    // Of the whole machine, and seen in its first network namespace alone.
    let setting = std::fs::read_to_string("/proc/sys/net/core/high_order_alloc_disable");
    let has_single_pages = setting.is_ok_and(|text| text.trim() == "1");
    come(&Link::LOOPBACK, has_single_pages);
    network::on_thread(NAME, || match Link::cards() {
        Ok(link) => come(&link, has_single_pages),
        Err(why) => skip(NAME, &why),
    });
}

//! The socket of AF_XDP: its memory, its rings, and the calls that move frames.

use crate::errors::Error;
use crate::link::Interface;
use crate::ring::Ring;
use corelane_os::errno::{self, checked};
use corelane_os::rights::locked_bytes_max;
use corelane_seam::FrameMemory;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// What the kernel leaves free in front of a packet that it puts into a chunk (`XDP_PACKET_HEADROOM`).
pub const HEADROOM: usize = 256;

/// How often a queue that is busy is asked for, and how long in between.
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(2);

/// What a socket is bound for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The card may read and write frames itself, if its driver can.
    pub zero_copy: bool,
    /// Packets may lie in several frames (kernel 6.6).
    pub pieces: bool,
    /// A queue that is busy is waited for, for a while.
    pub waits: bool,
}

impl Wanted {
    /// What each kernel with AF_XDP has.
    pub const LEAST: Self = Self { zero_copy: false, pieces: false, waits: false };
}

/// A socket bound to one queue, with its rings.
#[derive(Debug)]
pub struct Socket {
    // First, so that the kernel is done with the rings and the memory when those go.
    descriptor: OwnedFd,
    /// Chunks for the kernel to receive into.
    pub fill: Ring<u64>,
    /// Chunks that the kernel has sent.
    pub completion: Ring<u64>,
    pub received: Ring<libc::xdp_desc>,
    pub sending: Ring<libc::xdp_desc>,
    /// The card reads and writes frames itself; otherwise the kernel copies each.
    pub is_zero_copy: bool,
}

/// Drops that the kernel counts (`struct xdp_statistics`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Packets that did not fit into a frame, or found none.
    pub dropped: u64,
    /// Packets for which the ring of received ones had no place.
    pub ring_full: u64,
    /// How often the kernel had no frame to receive into.
    pub no_frame: u64,
    /// Packets that were to be sent and were none in its eyes.
    pub invalid: u64,
}

impl Socket {
    /// Makes a socket that uses `memory`, with rings of so many entries, and binds it to the queue.
    ///
    /// # Errors
    /// Those of [`Error::of`], [`Error::LockedMemory`], and [`Error::Absent`] where this kernel knows no packets of several frames.
    pub fn open(interface: &Interface, queue: u32, memory: &FrameMemory, ring: u32, wanted: Wanted) -> Result<Self, Error> {
        let name = &interface.name;
        let descriptor = made(name)?;
        let socket = descriptor.as_fd();
        register(socket, memory, name)?;
        let size = |option, call| set(socket, option, &ring).map_err(|number| Error::of(call, number, name));
        size(libc::XDP_UMEM_FILL_RING, "XDP_UMEM_FILL_RING")?;
        size(libc::XDP_UMEM_COMPLETION_RING, "XDP_UMEM_COMPLETION_RING")?;
        size(libc::XDP_RX_RING, "XDP_RX_RING")?;
        size(libc::XDP_TX_RING, "XDP_TX_RING")?;
        let offsets = offsets(socket).map_err(|number| Error::of("XDP_MMAP_OFFSETS", number, name))?;
        let refused = |number| Error::of("mmap AF_XDP", number, name);
        let fill = Ring::map(socket, libc::XDP_UMEM_PGOFF_FILL_RING as i64, &offsets.fr, ring).map_err(refused)?;
        let completion = Ring::map(socket, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64, &offsets.cr, ring).map_err(refused)?;
        let received = Ring::map(socket, libc::XDP_PGOFF_RX_RING, &offsets.rx, ring).map_err(refused)?;
        let sending = Ring::map(socket, libc::XDP_PGOFF_TX_RING, &offsets.tx, ring).map_err(refused)?;
        let index = interface.link.interface;
        bind_when_free(socket, index, queue, wanted).map_err(|number| match number {
            libc::EINVAL if wanted.pieces && bind(socket, index, queue, Wanted::LEAST).is_ok() => no_pieces(),
            libc::EINVAL => Error::NoQueue { name: name.clone(), queue, remedy: None },
            number => Error::of("bind AF_XDP", number, name),
        })?;
        let is_zero_copy = is_zero_copy(socket).map_err(|number| Error::of("XDP_OPTIONS", number, name))?;
        Ok(Self { descriptor, fill, completion, received, sending, is_zero_copy })
    }

    /// Has the kernel send what it was shown.
    ///
    /// # Errors
    /// The system's number; `EAGAIN` if it took some and leaves others.
    pub fn kick(&self) -> Result<(), i32> {
        let number = self.descriptor.as_raw_fd();
        // SAFETY: no memory is given.
        checked(unsafe { libc::sendto(number, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) }).map(drop)
    }

    /// Has the card look for frames to receive into, of which it found none before.
    pub fn wake_receiving(&self) {
        let (number, none) = (self.descriptor.as_raw_fd(), std::ptr::null_mut());
        // What goes wrong is that the interface is down, which is told otherwise. SAFETY: no memory is given.
        let _down = unsafe { libc::recvfrom(number, none, 0, libc::MSG_DONTWAIT, std::ptr::null_mut(), std::ptr::null_mut()) };
    }

    /// What the kernel has dropped at this socket.
    ///
    /// # Errors
    /// The system's number.
    pub fn drops(&self) -> Result<Drops, i32> {
        // SAFETY: plain numbers, for which zeros are good.
        let mut seen: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        get(self.descriptor.as_fd(), libc::XDP_STATISTICS, &mut seen)?;
        Ok(Drops {
            dropped: seen.rx_dropped,
            ring_full: seen.rx_ring_full,
            no_frame: seen.rx_fill_ring_empty_descs,
            invalid: seen.tx_invalid_descs,
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Makes a socket that uses `memory`, and binds it to nothing.
///
/// # Errors
/// As of [`Socket::open`].
pub fn probe(memory: &FrameMemory) -> Result<(), Error> {
    register(made("")?.as_fd(), memory, "")
}

fn made(name: &str) -> Result<OwnedFd, Error> {
    create().map_err(|number| match number {
        libc::EAFNOSUPPORT => absent(),
        number => Error::of("socket AF_XDP", number, name),
    })
}

fn no_pieces() -> Error {
    Error::Absent {
        what: "AF_XDP for packets longer than a frame",
        remedy: "use Linux 6.6, or a smaller MTU of the interface (ip link set)",
    }
}

fn absent() -> Error {
    Error::Absent { what: "AF_XDP", remedy: "use a packet socket, or a kernel with CONFIG_XDP_SOCKETS" }
}

fn create() -> Result<OwnedFd, i32> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call takes no memory.
    let number = checked(unsafe { libc::socket(libc::AF_XDP, kind, 0) } as isize)?;
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(number as i32) })
}

fn register(socket: BorrowedFd<'_>, memory: &FrameMemory, name: &str) -> Result<(), Error> {
    let (base, bytes) = memory.region();
    // SAFETY: plain numbers, for which zeros are good.
    let mut region: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
    region.addr = base.as_ptr().expose_provenance() as u64;
    (region.len, region.chunk_size) = (bytes as u64, memory.frame_bytes() as u32);
    set(socket, libc::XDP_UMEM_REG, &region).map_err(|number| match number {
        libc::ENOBUFS => Error::LockedMemory { bytes, limit: locked_bytes_max() },
        number => Error::of("XDP_UMEM_REG", number, name),
    })
}

/// The kernel lets go of a queue some time after the socket that had it was closed, when it comes to it: so one that is busy is asked
/// for again for a while, if that is wanted.
fn bind_when_free(socket: BorrowedFd<'_>, interface: u32, queue: u32, wanted: Wanted) -> Result<(), i32> {
    for _ in 1..if wanted.waits { TRIES } else { 1 } {
        match bind(socket, interface, queue, wanted) {
            Err(libc::EBUSY) => std::thread::sleep(PAUSE),
            bound => return bound,
        }
    }
    bind(socket, interface, queue, wanted)
}

/// Where the driver of the interface does not let the card read and write frames itself, the kernel copies, unless it is told not to.
fn bind(socket: BorrowedFd<'_>, interface: u32, queue: u32, wanted: Wanted) -> Result<(), i32> {
    // SAFETY: plain numbers, for which zeros are good.
    let mut address: libc::sockaddr_xdp = unsafe { std::mem::zeroed() };
    address.sxdp_family = libc::AF_XDP as u16;
    address.sxdp_flags = libc::XDP_USE_NEED_WAKEUP
        | if wanted.zero_copy { 0 } else { libc::XDP_COPY }
        | if wanted.pieces { libc::XDP_USE_SG } else { 0 };
    (address.sxdp_ifindex, address.sxdp_queue_id) = (interface, queue);
    let length = size_of::<libc::sockaddr_xdp>() as u32;
    // SAFETY: the address is readable, and of that length.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) } as isize).map(drop)
}

fn is_zero_copy(socket: BorrowedFd<'_>) -> Result<bool, i32> {
    let mut options = libc::xdp_options { flags: 0 };
    get(socket, libc::XDP_OPTIONS, &mut options)?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

fn offsets(socket: BorrowedFd<'_>) -> Result<libc::xdp_mmap_offsets, i32> {
    // SAFETY: plain numbers, for which zeros are good.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    get(socket, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    Ok(offsets)
}

fn set<T>(socket: BorrowedFd<'_>, option: i32, value: &T) -> Result<(), i32> {
    let (number, length) = (socket.as_raw_fd(), size_of::<T>() as u32);
    // SAFETY: the value is readable, and of that length.
    checked(unsafe { libc::setsockopt(number, libc::SOL_XDP, option, std::ptr::from_ref(value).cast(), length) } as isize)
        .map(drop)
}

fn get<T>(socket: BorrowedFd<'_>, option: i32, value: &mut T) -> Result<(), i32> {
    let (number, mut length) = (socket.as_raw_fd(), size_of::<T>() as u32);
    // SAFETY: the value is writable, of that length, and numbers only.
    let got = unsafe { libc::getsockopt(number, libc::SOL_XDP, option, std::ptr::from_mut(value).cast(), &raw mut length) };
    checked(got as isize)?;
    if length as usize == size_of::<T>() { Ok(()) } else { Err(libc::ENOSYS) }
}

/// Whether the same call may do more later.
pub fn is_passing(number: i32) -> bool {
    matches!(number, libc::EBUSY | libc::ENOBUFS | libc::EINTR) || errno::would_block(number)
}

//! Tap interfaces (`/dev/net/tun`): what the kernel sends into one is read by us, and what we write has arrived there.
//!
//! Each descriptor is a queue. A packet from the kernel goes to the queue that a program of ours says ([`steer`]),
//! else to one that the kernel picks by its own hash; so a tap with several is a card with as many, whose table is ours. A packet
//! is copied by the call that reads or writes it, so a frame is released at once.
//!
//! Each packet has a header of virtio's in front of it (`struct virtio_net_hdr`, virtio 1.2 section 5.1.6): the kernel leaves checksums to us, which we compute once
//! instead of both, and says which it has looked at. It cuts trains of packets before they come.
//!
//! A tap that is made here is gone with its last queue, however the process ends. One that was there (`ip tuntap add`) stays.

use crate::copying::{Calls, CopyingPort, Received, places, places_to_write};
use crate::errors::Error;
use crate::link::{Interface, Watch};
use crate::outgoing::PIECES_MAX;
use corelane_os::errno::{self, checked};
use corelane_seam::{Checksum, Frame, FrameMemory, PortKind};
use corelane_select::QueueSelector;
use std::fs::OpenOptions;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Where taps come from.
const DEVICE: &str = "/dev/net/tun";
/// Queues of one tap at the most (`MAX_TAP_QUEUES`).
pub const QUEUES_MAX: usize = 256;

/// One queue of a tap, not yet a port: it can go to its lane's thread.
#[derive(Debug)]
pub struct TapQueue {
    descriptor: OwnedFd,
    name: Box<str>,
    queue: u32,
}

/// Makes a tap with so many queues in the thread's network namespace, which is down until somebody sets it up; or gives so many queues to one that
/// is there and waits for a process.
///
/// # Errors
/// [`Error::Absent`] without `/dev/net/tun`, or if the tap that is there has one queue or is none; [`Error::Forbidden`] without CAP_NET_ADMIN,
/// [`Error::Busy`] if an interface of another kind or another process has the name, and others.
pub fn open(name: &str, queues: usize) -> Result<Vec<TapQueue>, Error> {
    if queues == 0 || queues > QUEUES_MAX {
        return Err(Error::Range { what: "queues of a tap", got: queues, most: QUEUES_MAX });
    }
    match Interface::find(name) {
        Err(Error::NoInterface { .. }) => {}
        Ok(interface) if interface.is_tun => {}
        Ok(_) => return Err(Error::Busy { name: name.into(), what: "the name is taken" }),
        Err(error) => return Err(error),
    }
    (0..queues).map(|queue| open_queue(name, queue as u32, queues)).collect()
}

fn open_queue(name: &str, queue: u32, queues: usize) -> Result<TapQueue, Error> {
    let absent = Error::Absent { what: "/dev/net/tun", remedy: "give the container that device, or load the module tun" };
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(DEVICE);
    let descriptor: OwnedFd = match opened {
        Ok(file) => file.into(),
        Err(error) if matches!(errno::of(&error), libc::ENOENT | libc::ENODEV | libc::ENXIO) => return Err(absent),
        Err(error) => return Err(Error::of("open /dev/net/tun", errno::of(&error), name)),
    };
    let attached = match attach(descriptor.as_fd(), name, libc::IFF_MULTI_QUEUE) {
        // One that is there may have been made for one queue.
        Err(libc::EINVAL) if queues == 1 => attach(descriptor.as_fd(), name, 0),
        attached => attached,
    };
    attached.map_err(|number| match number {
        libc::EINVAL => Error::Absent {
            what: "tap of that name with as many queues",
            remedy: "make it so (ip tuntap add dev NAME mode tap multi_queue), or take it away and it is made",
        },
        number => Error::of("TUNSETIFF", number, name),
    })?;
    set_header(descriptor.as_fd()).map_err(|(call, number)| Error::of(call, number, name))?;
    Ok(TapQueue { descriptor, name: name.into(), queue })
}

fn attach(descriptor: BorrowedFd<'_>, name: &str, queues: i32) -> Result<(), i32> {
    // SAFETY: the structure is plain numbers, for which zeros are good.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    assert!(name.len() < request.ifr_name.len(), "the name was checked");
    request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte as libc::c_char);
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | queues) as libc::c_short;
    // SAFETY: the request takes a `struct ifreq`, which stays for the call.
    checked(unsafe { libc::ioctl(descriptor.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } as isize).map(drop)
}

/// Bytes of the header of each packet.
const HEADER_BYTES: usize = 10;

/// Says how long the header is, and that checksums are left to us, and nothing else is.
fn set_header(descriptor: BorrowedFd<'_>) -> Result<(), (&'static str, i32)> {
    let (number, bytes) = (descriptor.as_raw_fd(), HEADER_BYTES as libc::c_int);
    // SAFETY: the request takes a number, which is readable for the call.
    let sized = unsafe { libc::ioctl(number, libc::TUNSETVNETHDRSZ as _, &raw const bytes) };
    checked(sized as isize).map_err(|number| ("TUNSETVNETHDRSZ", number))?;
    // SAFETY: the request takes a number by itself.
    let left = unsafe { libc::ioctl(number, libc::TUNSETOFFLOAD as _, libc::c_ulong::from(libc::TUN_F_CSUM)) };
    checked(left as isize).map_err(|number| ("TUNSETOFFLOAD", number)).map(drop)
}

/// What the header says of a checksum (`VIRTIO_NET_HDR_F_NEEDS_CSUM`, `VIRTIO_NET_HDR_F_DATA_VALID`).
fn checksum_of(header: &[u8; HEADER_BYTES]) -> Checksum {
    const NEEDED: u8 = 1;
    const LOOKED_AT: u8 = 2;
    let number = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    match header[0] {
        flags if flags & NEEDED != 0 => Checksum::Partial { start: number(6), offset: number(8) },
        flags if flags & LOOKED_AT != 0 => Checksum::Good,
        _ => Checksum::Unknown,
    }
}

/// The header and the places behind it.
fn behind(header: &mut [u8; HEADER_BYTES], places: [libc::iovec; PIECES_MAX + 1]) -> [libc::iovec; PIECES_MAX + 2] {
    let mut all = [libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: HEADER_BYTES }; PIECES_MAX + 2];
    all[1..].copy_from_slice(&places);
    all
}

impl TapQueue {
    /// The port, which receives into `memory`. Its own address is the interface's with the lowest bit of the last byte changed: the two are
    /// the ends of a wire. It is made on its lane's thread, in the interface's network namespace.
    ///
    /// # Errors
    /// [`Error::FrameShort`] if a packet may be longer than 17 frames; others if the interface is gone.
    pub fn port(self, memory: FrameMemory) -> Result<TapPort, Error> {
        let watch = Watch::of(&self.name)?;
        CopyingPort::new(TapCalls(self.descriptor), true, self.queue, watch, memory)
    }

    /// Its number, from 0.
    pub fn queue(&self) -> u32 {
        self.queue
    }
}

/// Lets the program say which queue a packet from the kernel gets; `queue` is any of the tap's, and the program goes with the tap. The
/// table is rewritten at any time ([`QueueSelector::rewrite`]). What waits in the old queue of a flow then may be overtaken by what comes to its new one,
/// as on a card whose table is rewritten: nothing tells the two apart once they are read, so it is not counted either.
///
/// # Errors
/// [`Error::Refused`].
pub fn steer(queue: &TapQueue, selector: &QueueSelector) -> Result<(), Error> {
    let program = selector.as_fd().as_raw_fd();
    // SAFETY: the request takes the number of a descriptor, which is readable for the call.
    let answer = unsafe { libc::ioctl(queue.descriptor.as_raw_fd(), libc::TUNSETSTEERINGEBPF as _, &raw const program) };
    checked(answer as isize).map(drop).map_err(|number| Error::of("TUNSETSTEERINGEBPF", number, &queue.name))
}

impl AsFd for TapQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// One queue of a tap, as a port.
pub type TapPort = CopyingPort<TapCalls>;

/// The calls of a tap.
#[derive(Debug)]
pub struct TapCalls(OwnedFd);

impl Calls for TapCalls {
    const KIND: PortKind = PortKind::Tap;
    const DOWN: &[i32] = &[libc::EIO];
    const GONE: &[i32] = &[libc::EBADFD];

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn receive(&mut self, frames: &mut [Frame]) -> Result<Received, i32> {
        let (room, mut beyond): (usize, u8) = (frames.iter().map(|frame| frame.len()).sum(), 0);
        let (mut places, count) = places_to_write(frames);
        places[count] = libc::iovec { iov_base: (&raw mut beyond).cast(), iov_len: 1 };
        let mut header = [0; HEADER_BYTES];
        let places = behind(&mut header, places);
        // SAFETY: all places are writable, and stay for the call.
        let read = checked(unsafe { libc::readv(self.0.as_raw_fd(), places.as_ptr(), count as i32 + 2) })?;
        assert!(read >= HEADER_BYTES, "a packet has its header");
        let length = read - HEADER_BYTES;
        // A train of packets was not asked for.
        if length > room || header[1] != 0 {
            return Ok(Received::TooLong);
        }
        frames[0].facts.checksum = checksum_of(&header);
        Ok(Received::Packet { length })
    }

    fn send(&mut self, packet: &[Frame]) -> Result<(), i32> {
        let (places, count) = places(packet);
        // It has its checksums, and nobody vouches for them.
        let mut header = [0; HEADER_BYTES];
        let places = behind(&mut header, places);
        // SAFETY: all places are readable, and stay for the call.
        let written = checked(unsafe { libc::writev(self.0.as_raw_fd(), places.as_ptr(), count as i32 + 1) })?;
        let length: usize = packet.iter().map(|frame| frame.len()).sum();
        assert!(written == HEADER_BYTES + length, "a packet is written whole or not at all");
        Ok(())
    }
}

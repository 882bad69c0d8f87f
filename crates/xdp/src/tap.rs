//! Tap interfaces (`/dev/net/tun`): what the kernel sends into one is read by us, and what we write has arrived there.
//!
//! Each descriptor is a queue. A packet from the kernel goes to the queue that a program of ours says ([`Steering`](crate::Steering)),
//! else to one that the kernel picks by its own hash; so a tap with several is a card with as many, whose table is ours. A packet
//! is copied by the call that reads or writes it, so a frame is released at once.
//!
//! The interface is gone with its last queue, however the process ends.

use crate::errors::Error;
use crate::link::{DOWN, GONE, Interface, Watch};
use crate::outgoing;
use corelane_os::errno::{self, checked, would_block};
use corelane_seam::{Fault, Frame, FrameMemory, Link, Port, PortFacts, Taken};
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

/// Makes a tap with so many queues in the thread's network namespace, which is down until somebody sets it up.
///
/// # Errors
/// [`Error::Absent`] without `/dev/net/tun`, [`Error::Forbidden`] without CAP_NET_ADMIN, [`Error::Busy`] if an interface of another kind
/// or another process has the name, and others.
pub fn open(name: &str, queues: usize) -> Result<Vec<TapQueue>, Error> {
    if queues == 0 || queues > QUEUES_MAX {
        return Err(Error::Range { what: "queues of a tap", got: queues, most: QUEUES_MAX });
    }
    match Interface::find(name) {
        Err(Error::NoInterface { .. }) => {}
        Ok(_) => return Err(Error::Busy { name: name.into(), what: "the name is taken" }),
        Err(error) => return Err(error),
    }
    (0..queues).map(|queue| open_queue(name, queue as u32)).collect()
}

fn open_queue(name: &str, queue: u32) -> Result<TapQueue, Error> {
    let absent = Error::Absent { what: "/dev/net/tun", remedy: "give the container that device, or load the module tun" };
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(DEVICE);
    let descriptor: OwnedFd = match opened {
        Ok(file) => file.into(),
        Err(error) if matches!(errno::of(&error), libc::ENOENT | libc::ENODEV | libc::ENXIO) => return Err(absent),
        Err(error) => return Err(Error::of("open /dev/net/tun", errno::of(&error), name)),
    };
    attach(descriptor.as_fd(), name).map_err(|number| Error::of("TUNSETIFF", number, name))?;
    Ok(TapQueue { descriptor, name: name.into(), queue })
}

fn attach(descriptor: BorrowedFd<'_>, name: &str) -> Result<(), i32> {
    // SAFETY: the structure is plain numbers, for which zeros are good.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    assert!(name.len() < request.ifr_name.len(), "the name was checked");
    request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte as libc::c_char);
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_MULTI_QUEUE) as libc::c_short;
    // SAFETY: the request takes a `struct ifreq`, which stays for the call.
    checked(unsafe { libc::ioctl(descriptor.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } as isize).map(drop)
}

impl TapQueue {
    /// The port, which receives into `memory`. It is made on its lane's thread, in the interface's network namespace.
    ///
    /// # Errors
    /// [`Error::FrameShort`] if a packet may be longer than a frame; others if the interface is gone.
    pub fn port(self, memory: FrameMemory) -> Result<TapPort, Error> {
        let watch = Watch::of(&self.name)?;
        let (needed, got) = (watch.interface().frame_bytes_max(), memory.frame_bytes() - Frame::HEADROOM);
        if needed > got {
            return Err(Error::FrameShort { name: self.name, needed, got });
        }
        Ok(TapPort { descriptor: self.descriptor, queue: self.queue, watch, memory, has_more: true, taken: 0, too_long: 0 })
    }

    /// Its number, from 0.
    pub fn queue(&self) -> u32 {
        self.queue
    }
}

impl AsFd for TapQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// One queue of a tap, as a port. Its own address is the interface's with the lowest bit of the last byte changed: the two are the ends of a
/// wire.
#[derive(Debug)]
pub struct TapPort {
    descriptor: OwnedFd,
    queue: u32,
    watch: Watch,
    memory: FrameMemory,
    has_more: bool,
    taken: u64,
    too_long: u64,
}

/// What a read came to.
enum Read {
    Packet(Frame),
    /// A packet longer than a frame; it is lost.
    TooLong,
    Empty,
    NoFrame,
}

impl TapPort {
    /// Packets that were lost because they are longer than a frame: the interface's MTU was raised.
    pub fn too_long(&self) -> u64 {
        self.too_long
    }

    fn read(&mut self) -> Result<Read, Fault> {
        let Some(mut frame) = self.memory.frame() else { return Ok(Read::NoFrame) };
        let room = frame.room();
        frame.set_length(room);
        let mut beyond = 0_u8;
        let places = [
            libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: room },
            libc::iovec { iov_base: (&raw mut beyond).cast(), iov_len: 1 },
        ];
        // SAFETY: both places are writable, and stay for the call.
        let read = unsafe { libc::readv(self.descriptor.as_raw_fd(), places.as_ptr(), places.len() as i32) };
        match checked(read) {
            Ok(length) if length > room => Ok(Read::TooLong),
            Ok(length) => {
                frame.set_length(length);
                Ok(Read::Packet(frame))
            }
            Err(libc::EINTR) => self.read(),
            Err(number) if would_block(number) => Ok(Read::Empty),
            Err(number) => Err(self.refused(number)),
        }
    }

    /// What the number says of the interface.
    fn refused(&mut self, number: i32) -> Fault {
        let fault = match number {
            libc::EIO => DOWN,
            libc::EBADFD | libc::ENODEV => GONE,
            number => return errno::fault(number),
        };
        self.watch.note(fault);
        fault
    }

    fn write(&mut self, frame: &Frame) -> Result<bool, i32> {
        // SAFETY: the bytes are readable, and stay for the call.
        let written = unsafe { libc::write(self.descriptor.as_raw_fd(), frame.as_ptr().cast(), frame.len()) };
        match checked(written) {
            Ok(length) => {
                assert!(length == frame.len(), "a packet is written whole or not at all");
                Ok(true)
            }
            Err(libc::EINVAL) => Ok(false),
            Err(libc::EINTR) => self.write(frame),
            Err(number) => Err(number),
        }
    }
}

impl Port for TapPort {
    fn facts(&self) -> PortFacts {
        let Interface { link: Link { interface, mut mac }, .. } = *self.watch.interface();
        mac[5] ^= 1;
        PortFacts { link: Link { interface, mac }, queue: self.queue, frame_bytes_max: self.watch.interface().frame_bytes_max() }
    }

    fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.descriptor.as_fd())
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        Some(self.watch.as_fd())
    }

    fn take_news(&mut self) {
        self.watch.take();
    }

    fn has_more(&self) -> bool {
        self.has_more || self.watch.fault().is_some()
    }

    fn receive(&mut self, now: u64, at_most: usize, into: &mut Vec<Frame>) -> Result<(), Fault> {
        self.has_more = true;
        let first = into.len();
        for _ in 0..at_most {
            match self.read()? {
                Read::Packet(mut frame) => {
                    frame.facts.time = now;
                    into.push(frame);
                }
                Read::TooLong => self.too_long += 1,
                Read::NoFrame => break,
                Read::Empty => {
                    self.has_more = false;
                    break;
                }
            }
        }
        match self.watch.fault().filter(|_| into.len() == first) {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    fn send(&mut self, _now: u64, frames: &mut Vec<Frame>) -> Result<Taken, Fault> {
        if let Some(fault) = self.watch.fault() {
            return Err(fault);
        }
        let (mut counts, mut done, mut fault) = (Taken::default(), 0, None);
        let most = self.watch.interface().frame_bytes_max() + crate::link::TAG_BYTES;
        for frame in frames.iter_mut() {
            match if outgoing::settle(frame, most) { self.write(frame) } else { Ok(false) } {
                Ok(true) => counts.taken += 1,
                Ok(false) => counts.refused += 1,
                Err(number) if would_block(number) => break,
                Err(number) => {
                    fault = Some(self.refused(number));
                    break;
                }
            }
            done += 1;
        }
        frames.drain(..done);
        self.taken += counts.taken;
        match fault.filter(|_| done == 0) {
            Some(fault) => Err(fault),
            None => Ok(counts),
        }
    }

    /// The write has copied it.
    fn released(&mut self, _now: u64) -> u64 {
        self.taken
    }
}

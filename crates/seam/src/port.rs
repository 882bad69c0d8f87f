//! Ports: one queue of one interface, which gives and takes frames in batches.
//!
//! A [`Port`] is what a driver drives: crate `sim` has one on a simulated wire; `crates/xdp` has those of AF_XDP, tap and packet sockets. Wrappers
//! go around any of them; those for tests (faults, counts, captures) are in crate `sim`. A work opens one with
//! [`FrameOp::Open`](crate::FrameOp::Open), and asks the driver for everything else: so the lane sleeps in one place, whatever it waits for.
//!
//! * **Memory.** A port has a [`FrameMemory`]: it lends free frames to the interface to receive into, by itself and up to a bound, and what
//!   it has no frame for the interface drops. So a work that keeps all frames stops what arrives, and nothing else does.
//! * **Receiving is one-shot, with a budget in frames**, as for sockets: to push back is not to ask. All frames that have arrived are handed over
//!   together, in the order of its arrival.
//! * **Sending ends in two steps.** The operation ends when the interface has taken each frame or refused it; its memory is released
//!   when the interface has read it, and until then nobody else has the frame. A frame of another region is copied or kept, as the port can.
//! * **A packet longer than a frame** lies in several that follow each other in a batch, at most [`PortFacts::pieces_max`]: each but the last says that
//!   it [continues](crate::FrameFacts::continues), and what else is known of the packet the first one says. A batch never ends within a packet; one
//!   that has more pieces, or more than a whole budget, is dropped, and one to be sent is refused with all of its frames.
//! * **Batches move without allocation**: the vectors of a batch go to the driver and come back.
//! * **Errors.** Opening fails with `Permission` (the capability is missing), `NoInterface`, `Busy` (another has the queue), `NoMemory` (the
//!   region cannot be locked) or `Unsupported`. An open port fails with `Down` as long as its interface is down, and with `NoInterface` when
//!   it is gone: then the work closes it, and may open another.
//!
//! * **Losses** are the interface's and the kernel's; [`Port::lost`] is what they say of them. A [`LossPort`](crate::LossPort) looks at it now and then.
//!
//! Its users, as signatures (polling and the gateway are still to come):
//!
//! ```text
//! AF_XDP, tap     impl Port for XdpPort { .. }                      // descriptor() is watched by epoll or the ring, as a socket's is
//! packet path     kit.submit(RECEIVE, FrameOp::Receive { port, at_most: budget, into });
//!                 kit.submit(SEND, FrameOp::Send { port, frames });  // own frames and arrived ones, in one batch
//! polling         at_most is the burst; completions that bring at_most frames say that there is more
//! drivers         PortTable<T>: what is under way on ports, the same for every driver
//! stack           impl<D: Driver> Driver for Stack<D>                // Op::Frame passes through, sockets of its addresses do not
//! gateway         a frame is changed in place (TTL, NAT), given another port's batch, or another lane as a FrameParcel
//! ```

use crate::address::Link;
use crate::error::Fault;
use crate::frame::{Frame, FrameMemory};
use crate::learnt::Offload;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

/// The name of a port that is open on a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId {
    /// Index in the driver's table.
    pub index: u32,
    /// Generation of that entry: a name kept after closing names nothing.
    pub generation: u32,
}

/// The facts of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortFacts {
    /// Its interface.
    pub link: Link,
    /// The queue of the interface, from 0.
    pub queue: u32,
    /// Bytes of the longest packet that it sends, with its link-layer header.
    pub frame_bytes_max: usize,
    /// Frames that one packet may lie in, at most: 1 where each lies in one.
    pub pieces_max: usize,
    /// How its packets come into its memory.
    pub kind: PortKind,
    /// A sender on the same machine may have left a packet's checksum to its card, and nothing says of which: then the sum of the pseudo-header stands in its
    /// place.
    pub leaves_sums: bool,
}

/// How the packets of a port come into its memory, and out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// On a simulated wire.
    Simulated,
    /// Over a tap: a call copies each.
    Tap,
    /// Over a packet socket: out of a ring that the kernel copies into; a call copies each that is sent.
    Packet,
    /// Over AF_XDP: the kernel copies each.
    XdpCopied,
    /// Over AF_XDP: the card itself reads and writes it.
    XdpZeroCopy,
}

impl PortKind {
    /// All of them, in the order of their numbers in the counter page, from 1.
    pub const ALL: [Self; 5] = [Self::Simulated, Self::Tap, Self::Packet, Self::XdpCopied, Self::XdpZeroCopy];

    /// Its name, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Simulated => "a simulated wire",
            Self::Tap => "a tap",
            Self::Packet => "a packet socket",
            Self::XdpCopied => "AF_XDP, copied by the kernel",
            Self::XdpZeroCopy => "AF_XDP, zero-copy",
        }
    }
}

const _: () =
    assert!(PortKind::ALL[PortKind::XdpZeroCopy as usize] as usize + 1 == PortKind::ALL.len(), "each kind has its number");

/// Whether packets can come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// They can.
    Up,
    /// The interface is down: it is tried again.
    Down,
    /// The interface is gone, and with it the port.
    Gone,
    /// The interface is up, and nobody is at the other end of its wire.
    NoCarrier,
    /// Somebody has taken the program off that brings packets from the interface.
    Detached,
    /// The interface receives by more queues than have a port.
    Unserved,
}

impl PortState {
    /// All of them, in the order of their numbers in the counter page, from 1.
    pub const ALL: [Self; 6] = [Self::Up, Self::Down, Self::Gone, Self::NoCarrier, Self::Detached, Self::Unserved];

    /// Its name, in a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Gone => "gone",
            Self::NoCarrier => "without a carrier",
            Self::Detached => "without its program",
            Self::Unserved => "short of lanes",
        }
    }

    /// Its meaning and the remedy, in words.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Up => "packets come and go",
            Self::Down => "no packet comes or goes until it is set up (ip link set INTERFACE up)",
            Self::Gone => "no packet comes or goes any more: make it again, and start the program anew",
            Self::NoCarrier => "no packet comes or goes until the other end of its wire is there: plug it in, or set that end up",
            Self::Detached => "no packet comes any more, for somebody has taken its XDP program off: start the program anew",
            Self::Unserved => {
                "what comes to queues without a lane is lost: give it as many queues as lanes (ethtool -L INTERFACE combined N, at a veth rx N tx N, for N lanes), or start with as many lanes"
            }
        }
    }
}

/// The fate of frames that were to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Frames that the interface has taken.
    pub taken: u64,
    /// Frames that it never will (too long, or empty); they are dropped.
    pub refused: u64,
}

/// How long a lane's thread has worked for a port, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worked {
    /// Looking for what has come: the kernel receives meanwhile.
    pub looked: u64,
    /// Sending.
    pub sent: u64,
}

/// The losses of a port since it was opened that nobody else counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Packets that came when there was no frame to receive them into.
    pub no_frame: u64,
    /// Packets that came when the ring of received ones was full.
    pub ring_full: u64,
    /// Packets that came and were longer than the frames that they may lie in.
    pub too_long: u64,
    /// Packets that the interface did not send: its own queue was full, or nobody was at the other end of its wire.
    pub send_lost: u64,
}

/// One queue of one interface. It belongs to one lane and is used on that lane's thread only; no call waits.
pub trait Port: fmt::Debug {
    /// The facts of this port.
    fn facts(&self) -> PortFacts;

    /// The region that it receives into.
    fn memory(&self) -> &FrameMemory;

    /// The descriptor that the driver waits for to become readable, or writable while it could not send all; none in a simulation.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// A descriptor that becomes readable when something other than frames is new, such as that the interface went down; none if that is seen at
    /// [`Port::descriptor`].
    fn news(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Takes in what is new, for the next call of [`Port::receive`] or [`Port::send`] to tell; [`Port::news`] is not readable then.
    fn take_news(&mut self) {}

    /// The interface's state, as far as it was taken in. News that an error tells is told here, too.
    fn state(&self) -> PortState {
        PortState::Up
    }

    /// Whether more may lie ready than the last receive brought: then the driver asks again as soon as there is a receive, and does not wait
    /// for the descriptor, which tells of what comes, and not of what is left. A port that receives into free frames has more only while
    /// there are some: one that writes into frames it was lent needs none. Of a fault it has more for ever.
    fn has_more(&self) -> bool;

    /// The time, in nanoseconds of the driver's clock, at which it wants to be asked again in any case.
    fn wakes_at(&self) -> Option<u64> {
        None
    }

    /// Moves what has arrived behind the frames in `into`, at most `at_most`, and lends free frames to the interface.
    ///
    /// # Errors
    /// Why there will be none.
    fn receive(&mut self, now: u64, at_most: usize, into: &mut Vec<Frame>) -> Result<(), Fault>;

    /// Takes frames out of the front of `frames`, as many as there is room for now, and refuses those that it never will take.
    ///
    /// # Errors
    /// Why it takes none.
    fn send(&mut self, now: u64, frames: &mut Vec<Frame>) -> Result<Taken, Fault>;

    /// Takes back what the interface is done with; returns how many of all frames that [`Port::send`] has ever taken are released, in their
    /// order.
    fn released(&mut self, now: u64) -> u64;

    /// How long this thread has worked for the port in calls of it, where the lane takes packets in by itself, whatever became of them; nothing is ever less than it was.
    fn worked(&self) -> Worked {
        Worked::default()
    }

    /// The losses; no number is ever less than it was. It may cost a system call, so it is asked for rarely.
    fn lost(&mut self) -> Lost {
        Lost::default()
    }

    /// Where its fast path is told of ways; none if it has none. A work asks for it before the driver has the port.
    fn offload(&self) -> Option<Rc<dyn Offload>> {
        None
    }

    /// Ends it, when all that was sent is released and nobody watches its descriptors: whether the interface is done with its memory. Until it is, this is
    /// asked again at the time of [`Port::wakes_at`], and nothing else is. One that is dropped before leaves lent what the interface still has.
    fn end(&mut self, _now: u64) -> bool {
        true
    }
}

/// So that a wrapper fits around a port of a kind that is not known.
impl<P: Port + ?Sized> Port for Box<P> {
    fn facts(&self) -> PortFacts {
        (**self).facts()
    }

    fn memory(&self) -> &FrameMemory {
        (**self).memory()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (**self).descriptor()
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        (**self).news()
    }

    fn take_news(&mut self) {
        (**self).take_news();
    }

    fn state(&self) -> PortState {
        (**self).state()
    }

    fn has_more(&self) -> bool {
        (**self).has_more()
    }

    fn wakes_at(&self) -> Option<u64> {
        (**self).wakes_at()
    }

    fn receive(&mut self, now: u64, at_most: usize, into: &mut Vec<Frame>) -> Result<(), Fault> {
        (**self).receive(now, at_most, into)
    }

    fn send(&mut self, now: u64, frames: &mut Vec<Frame>) -> Result<Taken, Fault> {
        (**self).send(now, frames)
    }

    fn worked(&self) -> Worked {
        (**self).worked()
    }

    fn released(&mut self, now: u64) -> u64 {
        (**self).released(now)
    }

    fn lost(&mut self) -> Lost {
        (**self).lost()
    }

    fn offload(&self) -> Option<Rc<dyn Offload>> {
        (**self).offload()
    }

    fn end(&mut self, now: u64) -> bool {
        (**self).end(now)
    }
}

//! AF_XDP (`Documentation/networking/af_xdp.rst`): frames of chosen packets go past the kernel's stack into memory of ours, and from there.
//!
//! ```text
//! open(name, ours, queues) -> program at the interface, one XdpQueue a queue -> to its lane -> port(memory, ring) -> XdpPort
//! received:  free frame -> fill ring -> kernel copies a packet into it -> ring of received ones -> the work
//! sent:      frame -> ring of those to be sent -> a call has the kernel send it -> completion ring -> released
//! ```
//!
//! The kernel hands a packet only to a socket of the queue that it came on. It copies, here as on each card whose driver knows no better; so it
//! works on every interface. The whole region is pinned, and counts against what the process may lock, unless that has CAP_IPC_LOCK:
//! [`frames_max`] says how many frames fit.
//!
//! **A trap.** Between virtual interfaces of one machine (veth) the kernel leaves checksums out, and AF_XDP does not tell: what the machine itself
//! sends arrives with a wrong one, unless the sending end computes them (`ethtool -K INTERFACE tx off`).
//!
//! The program is gone with the last of those that hold it, the queues and their ports, and with the process, however it ends; from
//! then on the kernel has its packets again. It stays while one queue has a port; a queue without one leaves its packets to the kernel.

use crate::errors::Error;
use crate::link::{GONE, Interface, TAG_BYTES, Watch};
use crate::ours::{self, Ours};
use crate::outgoing;
use crate::polling::{self, Polling, Receiver};
use crate::socket::{self, HEADROOM, Socket, is_passing};
use corelane_os::errno;
use corelane_os::rights::locked_bytes_max;
use corelane_seam::{FRAMES_MAX, Fault, Frame, FrameMemory, Port, PortFacts, Reason, Taken};
use corelane_select::bpf::{Map, MapKind, Program, ProgramKind, XdpLink, XdpMode};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

pub use crate::socket::Drops;

/// Queues of an interface at the most.
pub const QUEUES_MAX: usize = 256;
/// Bytes of the largest chunk: a page.
const CHUNK_BYTES_MAX: usize = 4096;
/// Entries of a ring at the most.
pub const RING_MAX: usize = 1 << 15;
/// Frames that one call has the kernel send (`XDP_MAX_TX_SKB_BUDGET`), at the least.
const SENT_BY_CALL: u32 = 32;
/// Frames that a lane which takes them in by itself has come before it handles them.
const LOOKED_FOR: u32 = 64;
/// When the kernel is asked again to send what it would not, in nanoseconds.
const AGAIN: u64 = 50_000;

/// Frames of `frame_bytes` that `ports` ports can have each, by what the process may lock.
pub fn frames_max(frame_bytes: usize, ports: usize) -> usize {
    assert!(frame_bytes > 0 && ports > 0, "there is something to divide");
    let frames = locked_bytes_max() / (frame_bytes * ports) as u64;
    usize::try_from(frames).unwrap_or(FRAMES_MAX).min(FRAMES_MAX)
}

/// What a port of an interface shares with those of its other queues.
#[derive(Debug)]
struct Attachment {
    sockets: Map,
    mode: XdpMode,
    // Behind the map, which the program has as long as it is there.
    _link: XdpLink,
}

/// One queue of an interface, not yet a port: it can go to its lane's thread.
#[derive(Debug)]
pub struct XdpQueue {
    attachment: Arc<Attachment>,
    name: Box<str>,
    queue: u32,
    /// Whose packets the lane takes in by itself; none if the kernel does.
    receiver: Option<Receiver>,
}

/// Gives the interface a program that lets the ports of its first `queues` queues have what is `ours`. Where the interface's driver runs no programs, the kernel does,
/// which costs more. Call it before lanes take descriptor tables of their own.
///
/// # Errors
/// [`Error::Busy`] if the interface has a program, [`Error::AddressTaken`] if the kernel has an address of ours, [`Error::Forbidden`] and [`Error::Program`] without CAP_NET_ADMIN and CAP_BPF,
/// [`Error::NoQueue`], [`Error::NoSendQueue`], and others.
pub fn open(name: &str, ours: &Ours, queues: usize) -> Result<Vec<XdpQueue>, Error> {
    ours.check()?;
    if queues == 0 || queues > QUEUES_MAX {
        return Err(Error::Range { what: "queues of an interface", got: queues, most: QUEUES_MAX });
    }
    let interface = Interface::find(name)?;
    if queues > interface.queues as usize {
        return Err(Error::NoQueue { name: name.into(), queue: queues as u32 - 1 });
    }
    if queues > interface.send_queues as usize {
        return Err(Error::NoSendQueue { name: name.into(), got: interface.send_queues, needed: queues });
    }
    let sockets = Map::new(MapKind::XdpSockets, size_of::<u32>(), queues, "corelane_queues")?;
    let program = Program::load(ProgramKind::Xdp, &ours::program(ours, sockets.as_fd()), "corelane_ours")?;
    let (link, mode) = attach(&program, &interface)?;
    let attachment = Arc::new(Attachment { sockets, mode, _link: link });
    Ok((0..queues as u32)
        .map(|queue| XdpQueue { attachment: attachment.clone(), name: name.into(), queue, receiver: None })
        .collect())
}

/// Has the lanes that get these queues take packets in by themselves as long as they come: the kernel's receiving runs in their own calls, and under a
/// flood nothing takes their CPU from them. A packet that comes after a lane has found none, and within 0.2 milliseconds, waits for their end.
/// Until the interface is set down and up again; then the kernel receives for them.
///
/// # Errors
/// [`Error::Absent`] before Linux 6.13, without io_uring, and where the kernel does not tell which queue is received by what;
/// [`Error::Forbidden`] without CAP_NET_ADMIN; [`Error::Refused`]. Then the kernel receives as before.
pub fn poll<'a>(queues: impl IntoIterator<Item = &'a mut XdpQueue>) -> Result<(), Error> {
    let queues: Vec<_> = queues.into_iter().collect();
    let Some(first) = queues.first() else { return Ok(()) };
    let refused = |call: &'static str, name: &str, error: &std::io::Error| match errno::of(error) {
        libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOENT => Error::Absent {
            what: "busy polling of its queues",
            remedy: "use Linux 6.13, and a driver with a queue for each lane",
        },
        number => Error::of(call, number, name),
    };
    let name = first.name.clone();
    let interface = Interface::find(&name)?;
    polling::probe().map_err(|error| refused("io_uring_setup", &name, &error))?;
    let receivers = Receiver::of_queues(interface.link.interface, queues.len());
    let receivers = receivers.map_err(|error| refused("netlink NAPI_GET", &name, &error))?;
    for queue in queues {
        let receiver =
            receivers.get(queue.queue as usize).copied().ok_or(Error::NoQueue { name: name.clone(), queue: queue.queue })?;
        receiver.defer().map_err(|error| refused("netlink NAPI_SET", &name, &error))?;
        queue.receiver = Some(receiver);
    }
    Ok(())
}

/// Makes all that a port needs but for the interface: the table of sockets, the program that gives them packets, and a socket with `memory`.
///
/// # Errors
/// [`Error::Forbidden`] and [`Error::Program`] without CAP_NET_RAW and CAP_BPF, [`Error::LockedMemory`], [`Error::Absent`].
pub fn probe(memory: &FrameMemory) -> Result<(), Error> {
    let sockets = Map::new(MapKind::XdpSockets, size_of::<u32>(), 1, "corelane_queues")?;
    Program::load(ProgramKind::Xdp, &ours::program(&Ours::All, sockets.as_fd()), "corelane_ours")?;
    socket::probe(memory)
}

fn attach(program: &Program, interface: &Interface) -> Result<(XdpLink, XdpMode), Error> {
    let index = interface.link.interface;
    let refused = |fault: Fault| Error::of("BPF_LINK_CREATE", fault.number, &interface.name);
    match XdpLink::attach(program, index, XdpMode::Native) {
        Ok(link) => Ok((link, XdpMode::Native)),
        // A driver that runs programs may not run them as the interface is set up now, such as with fewer queues than the other end has.
        Err(fault) if fault.reason == Reason::Unsupported || [libc::EINVAL, libc::ENOSPC].contains(&fault.number) => {
            let link = XdpLink::attach(program, index, XdpMode::Generic).map_err(refused)?;
            Ok((link, XdpMode::Generic))
        }
        Err(fault) => Err(refused(fault)),
    }
}

impl XdpQueue {
    /// The port, which receives into `memory` with rings of `ring` frames, a power of two. It is made on its lane's thread, in the
    /// interface's network namespace. A queue that was just closed is waited for, 0.2 seconds at the most.
    ///
    /// # Errors
    /// [`Error::LockedMemory`] if the region cannot be locked, [`Error::FrameShort`] if a packet may be longer than a frame has room for,
    /// [`Error::Busy`] if somebody has the queue, [`Error::Range`] for frames of more than 4 KiB or another ring, and others.
    pub fn port(self, memory: FrameMemory, ring: usize) -> Result<XdpPort, Error> {
        let watch = Watch::of(&self.name)?;
        let interface = watch.interface();
        if memory.frame_bytes() > CHUNK_BYTES_MAX {
            return Err(Error::Range { what: "bytes of a frame", got: memory.frame_bytes(), most: CHUNK_BYTES_MAX });
        }
        if !ring.is_power_of_two() || ring > RING_MAX {
            return Err(Error::Range { what: "frames of a ring (a power of two)", got: ring, most: RING_MAX });
        }
        let (needed, got) = (interface.frame_bytes_max() + TAG_BYTES, memory.frame_bytes() - HEADROOM);
        if needed > got {
            return Err(Error::FrameShort { name: self.name, needed, got });
        }
        let socket = Socket::open(interface, self.queue, &memory, ring as u32)?;
        let polling = self.receiver.map(Polling::new).transpose();
        let polling = polling.map_err(|number| Error::of("io_uring_register", number, &self.name))?;
        let lent = vec![Lent::No; memory.frames()];
        let counts = Counts::default();
        let mut port = XdpPort { socket: Some(socket), queue: self, watch, memory, lent, counts, asks_again_at: None, polling };
        port.give();
        port.enter()?;
        Ok(port)
    }

    /// Its number, from 0.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// Whether the interface's driver runs the program, or the kernel behind it.
    pub fn mode(&self) -> XdpMode {
        self.attachment.mode
    }
}

/// What the kernel has a frame for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lent {
    No,
    ToReceive,
    ToSend,
}

#[derive(Debug, Default)]
struct Counts {
    taken: u64,
    released: u64,
}

/// One queue of an interface, as a port. Each frame that is sent leaves with a copy, so a port may be closed at any time.
#[derive(Debug)]
pub struct XdpPort {
    /// None at the end.
    socket: Option<Socket>,
    queue: XdpQueue,
    watch: Watch,
    memory: FrameMemory,
    /// By the frame's number.
    lent: Vec<Lent>,
    counts: Counts,
    /// When the kernel is to be asked again to send.
    asks_again_at: Option<u64>,
    /// None if the kernel takes packets in.
    polling: Option<Polling>,
}

impl XdpPort {
    /// What the kernel has dropped at this queue for want of frames or room.
    ///
    /// # Errors
    /// What the system says.
    pub fn drops(&self) -> Result<Drops, Fault> {
        self.socket().drops().map_err(errno::fault)
    }

    fn socket(&self) -> &Socket {
        // reason: it is taken out when the port ends.
        self.socket.as_ref().expect("a port has its socket")
    }

    fn socket_mut(&mut self) -> &mut Socket {
        // reason: as above.
        self.socket.as_mut().expect("a port has its socket")
    }

    /// Lets the program find the socket.
    fn enter(&self) -> Result<(), Error> {
        let number = self.socket().as_fd().as_raw_fd().unsigned_abs();
        let entered = self.queue.attachment.sockets.update(self.queue.queue as usize, &number.to_ne_bytes());
        entered.map_err(|fault| Error::of("BPF_MAP_UPDATE_ELEM", fault.number, &self.queue.name))
    }

    /// Lends free frames to be received into.
    fn give(&mut self) {
        let mut room = self.socket().fill.room();
        while room > 0 {
            let Some(frame) = self.memory.frame() else { break };
            let (index, _) = self.lend(frame, Lent::ToReceive);
            let chunk = u64::from(index) * self.memory.frame_bytes() as u64;
            self.socket_mut().fill.put(chunk);
            room -= 1;
        }
        self.socket_mut().fill.publish();
    }

    fn lend(&mut self, frame: Frame, to: Lent) -> (u32, usize) {
        // reason: whoever calls has looked whose frame it is.
        let (index, start) = self.memory.lend(frame).expect("a frame of the port's memory");
        let place = &mut self.lent[index as usize];
        assert!(*place == Lent::No, "frame {index} is lent twice");
        *place = to;
        (index, start)
    }

    /// Has the kernel receive, where that is the lane's to say, until there is a batch or no more.
    fn look(&mut self) {
        let (Some(polling), Some(socket)) = (&mut self.polling, &self.socket) else { return };
        let mut ready = socket.received.ready();
        while polling.goes_on && ready < LOOKED_FOR {
            polling.look(socket.as_fd());
            let before = std::mem::replace(&mut ready, socket.received.ready());
            polling.goes_on = ready > before;
        }
    }

    /// The frame that the kernel names with this address; none if it did not have it for that.
    fn returned(&mut self, address: u64, was: Lent) -> Option<(u32, usize)> {
        let bytes = self.memory.frame_bytes() as u64;
        let (index, start) = (address / bytes, (address % bytes) as usize);
        let place = self.lent.get_mut(index as usize).filter(|lent| **lent == was)?;
        *place = Lent::No;
        Some((index as u32, start))
    }

    fn take_received(&mut self, now: u64) -> Result<Option<Frame>, Fault> {
        let Some(packet) = self.socket_mut().received.take() else { return Ok(None) };
        let returned = self.returned(packet.addr, Lent::ToReceive);
        let frame = returned.and_then(|(index, start)| self.memory.take_back(index, start, packet.len as usize).ok());
        let mut frame = frame.ok_or(Fault::of(Reason::Other))?;
        frame.facts.time = now;
        Ok(Some(frame))
    }

    /// Takes back what the kernel has sent.
    fn reap(&mut self) {
        while let Some(address) = self.socket_mut().completion.take() {
            if let Some((index, _)) = self.returned(address, Lent::ToSend) {
                self.sent(index);
            }
        }
    }

    fn sent(&mut self, index: u32) {
        // reason: it stood in the table of those that are lent.
        drop(self.memory.take_back(index, 0, 0).expect("a frame that was lent to be sent"));
        self.counts.released += 1;
        assert!(self.counts.released <= self.counts.taken, "no more is released than was taken");
    }

    /// The frame as one of this port's memory: one of another region is copied.
    fn own(&self, frame: Frame) -> Frame {
        if frame.is_of(&self.memory) {
            return frame;
        }
        // reason: whoever calls has counted the free ones, and each has room for the longest packet.
        let mut copy = self.memory.frame().expect("a free frame for the copy");
        copy.append(&frame);
        copy
    }

    /// How many of the frames can be put into the ring now: there are places, and frames for copies.
    fn acceptable(&self, frames: &[Frame]) -> usize {
        let mut copies = self.memory.counts().free;
        let mut fits = |frame: &&Frame| {
            let needs_copy = usize::from(!frame.is_of(&self.memory));
            let is_there = copies >= needs_copy;
            copies = copies.saturating_sub(needs_copy);
            is_there
        };
        frames.iter().take(self.socket().sending.room() as usize).take_while(&mut fits).count()
    }

    /// Puts frames into the ring, from the front.
    fn put(&mut self, frames: &mut Vec<Frame>) -> Taken {
        let most = self.watch.interface().frame_bytes_max() + TAG_BYTES;
        let (mut counts, acceptable) = (Taken::default(), self.acceptable(frames));
        for mut frame in frames.drain(..acceptable) {
            if outgoing::settle(&mut frame, most) {
                let frame = self.own(frame);
                self.put_one(frame);
                counts.taken += 1;
            } else {
                counts.refused += 1;
            }
        }
        self.socket_mut().sending.publish();
        counts
    }

    fn put_one(&mut self, frame: Frame) {
        let len = frame.len() as u32;
        let (index, start) = self.lend(frame, Lent::ToSend);
        let addr = u64::from(index) * self.memory.frame_bytes() as u64 + start as u64;
        self.socket_mut().sending.put(libc::xdp_desc { addr, len, options: 0 });
        self.counts.taken += 1;
    }

    /// Has the kernel send what is in the ring.
    fn kick(&mut self, now: u64) {
        self.asks_again_at = None;
        let mut calls_left = 2 + self.socket().sending.untaken() / SENT_BY_CALL;
        while self.socket().sending.untaken() > 0 && self.socket().sending.needs_call() && calls_left > 0 {
            calls_left -= 1;
            match self.socket().kick() {
                Ok(()) => {}
                Err(libc::ENXIO) => return self.watch.note_gone(),
                Err(number) if is_passing(number) => self.reap(),
                Err(_) => break,
            }
        }
        if self.socket().sending.untaken() > 0 {
            self.asks_again_at = Some(now + AGAIN);
        }
    }

    /// Drops what the interface did not take before it went down: it is lost, as on a card.
    fn lose_unsent(&mut self) {
        while let Some(packet) = self.socket_mut().sending.take_back() {
            if let Some((index, _)) = self.returned(packet.addr, Lent::ToSend) {
                self.sent(index);
            }
        }
        self.asks_again_at = None;
    }
}

impl Port for XdpPort {
    fn facts(&self) -> PortFacts {
        let interface = self.watch.interface();
        PortFacts { link: interface.link, queue: self.queue.queue, frame_bytes_max: interface.frame_bytes_max() }
    }

    fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket().as_fd())
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        Some(self.watch.as_fd())
    }

    fn take_news(&mut self) {
        self.watch.take();
    }

    fn has_more(&self) -> bool {
        let may_come = self.polling.as_ref().is_some_and(|polling| polling.goes_on);
        self.socket().received.ready() > 0 || may_come || self.watch.fault().is_some()
    }

    fn wakes_at(&self) -> Option<u64> {
        self.asks_again_at
    }

    fn receive(&mut self, now: u64, at_most: usize, into: &mut Vec<Frame>) -> Result<(), Fault> {
        let first = into.len();
        self.look();
        while into.len() - first < at_most {
            let Some(frame) = self.take_received(now)? else { break };
            into.push(frame);
        }
        self.give();
        if let Some(polling) = &mut self.polling {
            polling.goes_on = into.len() > first;
        }
        match if into.len() == first { self.watch.fault_now() } else { None } {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    fn send(&mut self, now: u64, frames: &mut Vec<Frame>) -> Result<Taken, Fault> {
        if let Some(fault) = self.watch.fault_now() {
            return Err(fault);
        }
        self.reap();
        let counts = self.put(frames);
        self.kick(now);
        Ok(counts)
    }

    fn released(&mut self, now: u64) -> u64 {
        self.reap();
        if self.asks_again_at.is_some_and(|time| time <= now) {
            self.kick(now);
        }
        if self.watch.fault().is_some() {
            self.lose_unsent();
        }
        match self.watch.fault() {
            // The kernel has let go of everything.
            Some(GONE) => self.counts.taken,
            _ => self.counts.released,
        }
    }
}

impl Drop for XdpPort {
    fn drop(&mut self) {
        drop(self.polling.take());
        // It is out of the map when it closes, and the kernel touches no frame any more.
        drop(self.socket.take());
        let lent = std::mem::take(&mut self.lent);
        for (index, _) in lent.iter().enumerate().filter(|(_, lent)| **lent != Lent::No) {
            drop(self.memory.take_back(index as u32, 0, 0));
        }
    }
}
